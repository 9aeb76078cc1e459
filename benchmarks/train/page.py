"""The page of a demonstration: one sentence, loss curves, step times through each fault, a table. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final

from benchmarks.figure import machine
from benchmarks.train.outcome import PHASES, Outcome, differing
from benchmarks.train.plan import SECOND_NS, TRANSPORTS, Fault, Job, Ports
from mrc_testbed.report.chart import SECONDS, STYLES, Axis, Band, Chart, Series
from mrc_testbed.report.page import Section, chart_cards, chart_data, page, render
from mrc_testbed.report.table import Table, TableCell
from mrc_testbed.shown import Scale, format_count, format_time

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
    is_good = not any(each.failure or differing(each, reference) for each in _of(outcomes, "mrc"))
    ports = {_job(each).ports.name: _job(each).ports for each in outcomes}
    charts = {
        "loss": ("Loss", [_loss_chart(reference, outcomes)]),
        **{name: (f"Step times, {each.title}", _step_charts(each, outcomes)) for name, each in ports.items()},
    }
    sections = [
        *(Section(name, title, chart_cards(drawn)) for name, (title, drawn) in charts.items() if drawn),
        Section("jobs", "Jobs", _jobs_table(reference, outcomes)),
    ]
    body = render(
        "benchmarks.train",
        "page.html.j2",
        badge="no rank lost" if is_good else "failed",
        style="good" if is_good else "bad",
        sentence=sentence(reference, outcomes, ranks),
        ranks=ranks,
        facts=machine(),
        sections=sections,
        data=chart_data([chart for _, drawn in charts.values() for chart in drawn]),
    )
    return page("A PyTorch job through faults", body)


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
    across = Axis("step", format_count, 0.0, steps)
    return Chart("Mean loss of the ranks", "lines", across, Axis("loss", _LOSS), curves, "loss")


def _loss_curve(name: str, outcome: Outcome) -> Series:
    losses = outcome.mean_losses()
    return Series(name, [float(step) for step in range(len(losses))], losses)


def _step_charts(ports: Ports, outcomes: Sequence[Outcome]) -> list[Chart]:
    """For each fault the step times of both transports, the fault at the same place."""
    here = [each for each in outcomes if _job(each).ports.name == ports.name and each.fault_ns]
    faults: dict[str, Fault] = {fault.name: fault for each in here if (fault := _job(each).fault)}
    end = float(2 * _LEAD_NS + ports.fault_ns)
    acting = (float(_LEAD_NS), float(_LEAD_NS + ports.fault_ns))
    return [
        Chart(
            f"{fault.title[0].upper()}{fault.title[1:]}: {_command(fault)}",
            "steps",
            Axis("time", SECONDS, 0.0, end, bands=(Band(fault.name, (acting,)),), measured=(0.0, end)),
            Axis("step time", format_time),
            [_step_curve(each) for each in here if _job(each).fault == fault],
            f"{ports.name}-{fault.name}",
            " ".join(_effect(each) for each in here if _job(each).fault == fault),
        )
        for fault in faults.values()
    ]


def _effect(outcome: Outcome) -> str:
    return f"{TRANSPORTS[_job(outcome).transport]}: {outcome.headline()}."


def _command(fault: Fault) -> str:
    return f"fault add {' '.join(fault.arguments)}"


def _step_curve(outcome: Outcome) -> Series:
    """Step times as lines that are as long; x = _LEAD_NS is where the fault begins."""
    assert outcome.fault_ns is not None
    zero = outcome.fault_ns[0] - _LEAD_NS
    last = outcome.fault_ns[1] + _LEAD_NS
    seen = [(end, length) for end, length in outcome.times() if end > zero and end - length < last]
    begins = [max(0.0, float(end - length - zero)) for end, length in seen]
    ends = [float(min(end, last) - zero) for end, _ in seen[-1:]]
    lost = f": lost at step {outcome.done_steps}" if outcome.failure else ""
    name = f"{TRANSPORTS[_job(outcome).transport]}{lost}"
    return Series(name, [*begins, *ends], [float(length) for _, length in seen])


def _jobs_table(reference: Outcome, outcomes: Sequence[Outcome]) -> str:
    header = (
        "ports", "transport", "fault", "#steps", "losses", "#start",
        *(f"#p50 {phase}" for phase in PHASES), "#longest", "end",
    )  # fmt: skip
    return Table(header, [_row(reference, each) for each in outcomes]).html()


def _row(reference: Outcome, outcome: Outcome) -> list[TableCell | str]:
    job = _job(outcome)
    wrong = differing(outcome, reference)
    times = (outcome.start_ns, *map(outcome.median_ns, PHASES), outcome.longest_ns)
    return [
        job.ports.title,
        TRANSPORTS[job.transport],
        job.fault.title if job.fault else "none",
        f"{outcome.done_steps} of {job.steps}",
        TableCell("equal gloo's" if not wrong else f"{wrong:,} differ", "" if not wrong else "bad"),
        *map(_time, times),
        TableCell(outcome.failure or "no rank lost", "bad" if outcome.failure else "good"),
    ]


def _time(value_ns: float | None) -> str:
    return _DASH if value_ns is None else format_time(value_ns)
