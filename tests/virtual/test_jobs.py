"""The headline of a job, in virtual time, where every step is exact."""

from pathlib import Path

import pytest
from runs import plan_of, run

from mrc_testbed.scenario.measure.measurement import Measurement
from mrc_testbed.scenario.spec.expression import parse_quantity


@pytest.mark.parametrize(
    ("file", "fault", "sentence"),
    [
        (
            "training-t1-upgrade.yaml",
            "upgrade",
            "no effect seen: step median 254 ms (n = 15) before, 255 ms (n = 9) while p0-t1-0 was away; "
            "no rank lost",
        ),
        (
            "training-flapping-optic.yaml",
            "optic",
            "step median 254 ms (n = 11) before, 263 ms (n = 18) while 2 links of p0-t0-0 flapped; "
            "3 steps slower than any before, up to 289 ms; back 277 ms after the last of 5 outages began; "
            "no rank lost",
        ),
    ],
)
def test_the_headline_has_the_figures_of_expectations(
    file: str, fault: str, sentence: str, tmp_path: Path
) -> None:
    done = run(plan_of(file), tmp_path)
    [job] = done.result.jobs
    assert job.headline == sentence
    [impact] = job.impacts
    measured = Measurement(done.result.recording)
    for window, found in (("before", impact.before), ("during", impact.during)):
        assert found is not None
        assert found.median_ns == measured.measure(parse_quantity(f"p50(step_time(job)) {window} {fault}"))
    assert job.pace is not None
    assert job.pace.per_second == measured.measure(parse_quantity("job_throughput(job)"))
    summary = (done.folder / "summary.md").read_text().splitlines()
    assert summary[2] == f"**job**: {sentence}."
    report = (done.folder / "report.html").read_text()
    assert report.index("Step time") < report.index("<h2>Expectations")
