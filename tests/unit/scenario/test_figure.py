"""The figure of a run: every kind drawn and refused where it has nothing to draw."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from document_text import document
from hand_made import MS, ZERO_NS, S, applied, cleared, reading, recording
from scenario_text import FLAP
from virtual_trial import Trial

from mrc_testbed.bundle.bundle import is_plain_drawing
from mrc_testbed.errors import UsageError
from mrc_testbed.metrics.series import HostCounts
from mrc_testbed.report.chart import Chart
from mrc_testbed.report.chart_file import figure_files
from mrc_testbed.scenario.measure.recording import Recording
from mrc_testbed.scenario.report import result_folder
from mrc_testbed.scenario.report.figure import run_charts
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.plan import dump_plan, load_plan
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.workloads.operation_record import OperationRecord

TEXT = document("""\
Scenario {name: drawn}
  workloads:
    - {name: job, kind: training, compute: 50ms, size: 1MiB, hosts: [h0, h1, h2, h3], duration: 4s}
    - {name: flow, kind: write-bw, from: [h4, h5], to: [h6, h7], size: 64KiB, duration: 4s}
    - {name: large, kind: write-bw, from: h6, to: h5, size: 1MiB, duration: 4s}
  faults:
    - {id: cut, at: 1s, for: 2s, kind: link-down, select: {links: {plane: 0}, pick: first}}
  figure:
    - FIGURE
""")
SVG = "{http://www.w3.org/2000/svg}"


def run(figure: str) -> Recording:
    """Four seconds, a reading each 100 ms; h4 sends 80 Mbit/s, h5 a tenth of it, h6 40 Mbit/s."""

    def hosts(tenths: int) -> dict[str, HostCounts]:
        rates = {"h4": 1_000_000, "h5": 100_000, "h6": 500_000}
        return {name: HostCounts(acknowledged_bytes=tenths * rate) for name, rate in rates.items()}

    made = recording(
        TEXT.replace("FIGURE", figure),
        [reading(at * S // 10, hosts=hosts(at), drops={"loss": 3 * at}) for at in range(41)],
        end_ns=4 * S,
    )
    made.fault_changes = [applied("cut", S), cleared("cut", 3 * S)]
    steps = [OperationRecord(ZERO_NS + at * MS, ZERO_NS + at * MS, ZERO_NS + (at + 100) * MS, 0, 1, 0, "h0")
             for at in range(0, 4000, 100)]  # fmt: skip
    made.operations = {"job": steps}
    return made


def charts(figure: str) -> tuple[Chart, ...]:
    return run_charts(run(figure))


def only(figure: str) -> Chart:
    [chart] = charts(figure)
    return chart


def test_a_flow_over_time_is_drawn_at_the_pace_asked_for() -> None:
    chart = only("{kind: goodput-over-time, workloads: [flow], every: 500ms}")
    [curve] = chart.series
    assert chart.form == "lines"
    assert len(curve.y) == len(curve.x) == 8
    assert chart.description == "Goodput over time: from 88 to 88 Mbit/s; faults: cut"


def test_the_published_curve_is_drawn_beside_as_a_share_of_what_was_before() -> None:
    changes = "[{at: 1s, share: 75%}, {at: 3s, share: 100%}, {at: 9s, share: 50%}]"
    chart = only(f"{{kind: goodput-over-time, workloads: [flow], published: {changes}}}")
    measured, published = chart.series
    assert (measured.name, published.name) == ("measured", "published")
    assert [round(x / MS) for x in published.x] == [0, 1000, 1000, 3000, 3000, 4000]
    assert sorted(set(published.x)) == list(published.x)
    assert published.y == pytest.approx((88e6, 88e6, 66e6, 66e6, 88e6, 88e6))


def test_without_a_value_before_its_first_change_there_is_no_published_curve() -> None:
    chart = only("{kind: goodput-over-time, workloads: [flow], published: [{at: 0s, share: 75%}]}")
    assert [curve.name for curve in chart.series] == [""]


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("total", [""]),
        ("workload", ["flow", "large"]),
        ("host", ["h4", "h5", "h6"]),
        ("flow", ["h4 to h6", "h5 to h7", "h6 to h5"]),
    ],
)
def test_curves_of_goodput_are_of_what_was_asked_for(by: str, names: list[str]) -> None:
    chart = only(f"{{kind: goodput-over-time, workloads: [flow, large], by: {by}}}")
    assert [curve.name for curve in chart.series] == names


def test_a_figure_over_time_shows_its_faults() -> None:
    chart = only("{kind: loss-rate, title: Packets lost}")
    assert chart.title == "Packets lost"
    [band] = chart.x.bands
    assert band.name == "cut"
    [period] = band.periods
    assert period == pytest.approx((1e9, 3e9), rel=0.01)
    assert "frames dropped by faults from 30 to 30 /s" in chart.description


def test_planes_have_a_curve_each_also_while_nothing_is_sent() -> None:
    chart = only("{kind: plane-share}")
    assert [curve.name for curve in chart.series] == [f"plane {plane}" for plane in range(4)]
    assert "plane 0 nothing recorded" in chart.description


def test_every_step_has_a_dot() -> None:
    chart = only("{kind: step-time}")
    assert chart.form == "dots"
    assert len(chart.series[0].y) == 40


def test_throughput_of_a_job_is_in_steps_per_second() -> None:
    assert "from 10 to 10 /s" in only("{kind: job-throughput, every: 1s}").description


def test_every_flow_has_a_bar() -> None:
    chart = only("{kind: per-flow, workloads: [flow]}")
    high, low = chart.values
    assert high / low == pytest.approx(10, rel=0.01)
    assert [name for _, name in chart.x.ticks] == ["h4 to h6", "h5 to h7"]


def test_sizes_are_on_the_axis() -> None:
    chart = only("{kind: by-size, workloads: [flow, large]}")
    assert chart.x.ticks == ((65536.0, "64 KiB"), (1048576.0, "1 MiB"))
    assert chart.x.is_log
    assert len(chart.values) == 2


def test_charts_stand_in_the_order_of_the_scenario() -> None:
    found = charts("{kind: step-time}\n    - {kind: loss-rate}")
    assert [chart.title for chart in found] == ["Step time", "Frames dropped and packets retransmitted"]
    assert len({chart.key for chart in found}) == 2


def test_a_run_leaves_its_figure_and_shows_it_in_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_folder, "figure_files", figure_files)  # with the PDF
    text = FLAP + "  figure: [{kind: goodput-over-time}]\n"
    trial = Trial(text)
    finished = trial.execute(tmp_path)
    svg = ET.parse(finished.folder / "figure.svg").getroot()  # noqa: S314 - it is our own
    assert svg.tag == f"{SVG}svg"
    assert is_plain_drawing((finished.folder / "figure.svg").read_text())  # else no bundle could hold it
    assert (finished.folder / "figure.pdf").read_bytes().startswith(b"%PDF-")
    assert 'data-chart="figure-0"' in (finished.folder / "report.html").read_text()
    assert load_plan(finished.folder / "plan.json").figure == trial.plan.figure


def test_a_scenario_without_a_figure_leaves_none(tmp_path: Path) -> None:
    finished = Trial(FLAP).execute(tmp_path)
    assert not list(finished.folder.glob("figure.*"))


def test_a_plan_saved_before_there_were_figures_is_still_read(tmp_path: Path) -> None:
    plan = resolve(load_scenario(FLAP))
    text = dump_plan(plan).replace(',\n  "figure": []', "")
    assert "figure" not in text
    (tmp_path / "plan.json").write_text(text)
    assert load_plan(tmp_path / "plan.json") == plan


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        ("{kind: step-tim}", "did you mean 'step-time'?"),
        ("{kind: step-time, workloads: [flow]}", "flow is write-bw, which has no operations to draw"),
        ("{kind: per-flow, workloads: [flo]}", "there is no workload 'flo'; did you mean 'flow'?"),
        ("{kind: per-flow, by: host}", "only goodput-over-time can be drawn by something, not per-flow"),
        ("{kind: loss-rate, every: 0ms}", "every"),
        ("{kind: loss-rate, published: [{at: 1s, share: 50%}]}", "published: only goodput-over-time and"),
        (
            "{kind: goodput-over-time, published: [{at: 1s, share: 50%}, {at: 1s, share: 9%}]}",
            "published[1].at: changes are in the order of their time",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_its_line(figure: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_scenario(TEXT.replace("FIGURE", figure))
    assert message in caught.value.message
    assert "<text>:12: spec.figure[0]" in caught.value.message


def test_steps_cannot_be_drawn_without_any() -> None:
    with pytest.raises(UsageError, match="step-time draws operations, which no workload has"):
        load_scenario(FLAP + "  figure: [{kind: step-time}]\n")
