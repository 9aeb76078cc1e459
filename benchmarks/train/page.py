"""The page of a demonstration: one sentence, loss curves, step times through each fault, a table. Pure."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from benchmarks.figure import machine
from benchmarks.train.outcome import PHASES, Outcome, differing
from benchmarks.train.plan import SECOND_NS, TRANSPORTS, Fault, Job, Ports
from testbed.scenario.report.axis import linear_axis
from testbed.scenario.report.chart import STYLES, Chart, Curve, draw_figure
from testbed.scenario.report.html_table import number_cell, table, text_cell
from testbed.scenario.report.outline import Section, draw_sections, page
from testbed.scenario.report.panel_drawing import Band, Frame
from testbed.shown import Scale, format_count, format_time

_LEAD_NS: Final = 2 * SECOND_NS
"""Time that a chart shows before the fault; as much follows its end."""

_DASH: Final = "\u2013"
_LOSS: Final = Scale(((1, ""),))


def _job(outcome: Outcome) -> Job:
    assert outcome.job is not None
    return outcome.job


def _of(outcomes: Iterable[Outcome], transport: str) -> list[Outcome]:
    return [each for each in outcomes if _job(each).transport == transport]


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def sentence(reference: Outcome, outcomes: Sequence[Outcome], ranks: int) -> str:
    ours = _of(outcomes, "mrc")
    faults = list(dict.fromkeys(fault.title for each in ours if (fault := _job(each).fault)))
    through = f"through {_listed(faults)}" if faults else "without a fault"
    total = sum(len(each.losses()) for each in ours)
    wrong = sum(differing(each, reference) for each in ours)
    gone = [each for each in ours if each.failure]
    equal = (
        f"all {total:,} losses equal gloo's bit by bit"
        if not wrong
        else f"{wrong:,} of {total:,} losses differ from gloo's"
    )
    end = "no rank was lost" if not gone else f"{len(gone)} of {len(ours)} jobs were lost"
    text = f"{ranks} ranks trained over MRC {through}: {end}, and {equal}."
    for transport in TRANSPORTS.keys() - {"mrc"}:
        theirs = [each for each in _of(outcomes, transport) if _job(each).fault]
        dead = [each for each in theirs if each.failure]
        if theirs:
            where = f" ({_listed([_where(each) for each in dead])})" if dead else ""
            text += (
                f" Over the {TRANSPORTS[transport]} transport {len(dead)} of {len(theirs)} jobs "
                f"with a fault were lost{where}."
            )
    return text


def _where(outcome: Outcome) -> str:
    fault = _job(outcome).fault
    return f"{fault.title if fault else 'no fault'}, {_job(outcome).ports.title}"


def build_page(reference: Outcome, outcomes: Sequence[Outcome], ranks: int) -> str:
    facts = machine()
    is_good = not any(each.failure or differing(each, reference) for each in _of(outcomes, "mrc"))
    badge = "no rank lost" if is_good else "failed"
    sections = [
        Section("loss", "Loss", _card([_loss_chart(reference, outcomes)])),
        *(
            Section(ports.name, f"Step times, {ports.title}", _card(_step_charts(ports, outcomes)))
            for ports in {_job(each).ports.name: _job(each).ports for each in outcomes}.values()
        ),
        Section("jobs", "Jobs", _jobs_table(reference, outcomes)),
    ]
    made = f"{facts['cpu']}, {facts['cores']} cores, kernel {facts['kernel']}, {facts['taken']}"
    body = f"""<article>
<header><div class="head"><h1>A PyTorch job through faults</h1>
<span class="badge {"good" if is_good else "bad"}">{badge}</span></div>
<p class="headline">{escape(sentence(reference, outcomes, ranks))}</p>
<p class="muted">An unmodified DistributedDataParallel script, mrc-torch/examples/train.py, with one rank on
each of {ranks} hosts of a software fabric; gloo's losses come from the same script over a network without
faults. Shaded: the fault.</p></header>
{draw_sections(sections)}
<footer>Made by <code>make train</code> on {escape(made)}; compute and network share these cores, so times
compare within this page only.</footer>
</article>"""
    return page("A PyTorch job through faults", body)


def _card(charts: Sequence[Chart]) -> str:
    return f'<div class="card">{draw_figure(charts, is_file=False)}</div>' if charts else ""


def _loss_chart(reference: Outcome, outcomes: Sequence[Outcome]) -> Chart:
    """Mean loss of the ranks: gloo's, that of all jobs that equal it in one curve, and those cut short."""
    curves = [_loss_curve("gloo, no fault", reference)]
    equal = [each for each in _of(outcomes, "mrc") if not each.failure and not differing(each, reference)]
    if equal:
        longest = max(equal, key=lambda each: each.done_steps)
        curves.append(_loss_curve(f"MRC, {len(equal)} jobs: the same to the bit", longest))
    others = [each for each in outcomes if each.failure or differing(each, reference)]
    for each in others[: STYLES - len(curves)]:
        end = f"lost at step {each.done_steps}" if each.failure else "other losses"
        curves.append(_loss_curve(f"{TRANSPORTS[_job(each).transport]}, {_where(each)}: {end}", each))
    steps = float(max(reference.done_steps, 2))
    axis = linear_axis(0, steps, 10, is_tight=True)
    frame = Frame((0.0, steps), axis, (), steps, "step", format_count)
    return Chart("Mean loss of the ranks", "loss", "lines", tuple(curves), _LOSS, frame)


def _loss_curve(name: str, outcome: Outcome) -> Curve:
    return Curve(name, [(float(step), loss) for step, loss in enumerate(outcome.mean_losses())])


def _step_charts(ports: Ports, outcomes: Sequence[Outcome]) -> list[Chart]:
    """For each fault the step times of both transports, the fault at the same place."""
    here = [each for each in outcomes if _job(each).ports.name == ports.name and each.fault_ns]
    faults: dict[str, Fault] = {fault.name: fault for each in here if (fault := _job(each).fault)}
    charts = []
    for fault in faults.values():
        curves = [_step_curve(each) for each in here if _job(each).fault == fault]
        end = float(2 * _LEAD_NS + ports.fault_ns)
        low, high = float(_LEAD_NS), float(_LEAD_NS + ports.fault_ns)
        frame = Frame(
            (0.0, end),
            linear_axis(0, end, 10, is_tight=True),
            (Band(fault.name, low, high, ((low, high),)),),
            end,
            "time",
        )
        title = f"{fault.title[0].upper()}{fault.title[1:]}: {_command(fault)}"
        charts.append(Chart(title, "step time", "lines", tuple(curves), format_time, frame))
    return charts


def _command(fault: Fault) -> str:
    return f"fault add {' '.join(fault.arguments)}"


def _step_curve(outcome: Outcome) -> Curve:
    """Step times as lines that are as long; x = _LEAD_NS is where the fault begins."""
    assert outcome.fault_ns is not None
    zero = outcome.fault_ns[0] - _LEAD_NS
    last = outcome.fault_ns[1] + _LEAD_NS
    points: list[tuple[float, float | None]] = []
    for end, length in outcome.times():
        if end > zero and end - length < last:
            points += [
                (max(0.0, float(end - length - zero)), float(length)),
                (float(min(end, last) - zero), float(length)),
            ]
    lost = f": lost at step {outcome.done_steps}" if outcome.failure else ""
    return Curve(f"{TRANSPORTS[_job(outcome).transport]}{lost}", points)


def _jobs_table(reference: Outcome, outcomes: Sequence[Outcome]) -> str:
    header = (
        "ports", "transport", "fault", "#steps", "losses", "#start",
        *(f"#p50 {phase}" for phase in PHASES), "#longest", "end",
    )  # fmt: skip
    return table(header, (_row(reference, each) for each in outcomes))


def _row(reference: Outcome, outcome: Outcome) -> list[str]:
    job = _job(outcome)
    wrong = differing(outcome, reference)
    return [
        text_cell(job.ports.title),
        text_cell(TRANSPORTS[job.transport]),
        text_cell(job.fault.title if job.fault else "none"),
        number_cell(f"{outcome.done_steps} of {job.steps}"),
        text_cell("equal gloo's" if not wrong else f"{wrong:,} differ", "" if not wrong else "bad"),
        *(
            number_cell(_time(each))
            for each in (outcome.start_ns, *map(outcome.median_ns, PHASES), outcome.longest_ns)
        ),
        text_cell(outcome.failure or "no rank lost", "bad" if outcome.failure else "good"),
    ]


def _time(value_ns: float | None) -> str:
    return _DASH if value_ns is None else format_time(value_ns)
