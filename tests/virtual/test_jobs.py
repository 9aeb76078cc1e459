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
            "step p99 255 to 263 ms while p0-t1-0 was away; no step was slow; no rank lost",
        ),
        (
            "training-flapping-optic.yaml",
            "optic",
            "step p99 257 to 289 ms while 2 links of p0-t0-0 flapped; "
            "back 277 ms after the last of 5 outages began; no rank lost",
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
    for window, found in (("before", impact.before_ns), ("during", impact.during_ns)):
        assert found == measured.measure(parse_quantity(f"p99(step_time(job)) {window} {fault}"))
    assert job.pace is not None
    assert job.pace.per_second == measured.measure(parse_quantity("job_throughput(job)"))
    summary = (done.folder / "summary.md").read_text().splitlines()
    assert summary[2] == f"**job**: {sentence}."
    report = (done.folder / "report.html").read_text()
    assert report.index("Step time") < report.index("<h2>Expectations")
