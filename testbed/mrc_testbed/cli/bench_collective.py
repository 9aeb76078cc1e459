"""bench all-reduce | reduce-scatter | all-gather | all-to-all | broadcast | training."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.cli.bench_options import (
    FLAGS,
    ITERATIONS_TIMEOUT,
    SHARED,
    BenchOptions,
    Options,
    bench_runs,
    listed_hosts,
    option,
    parameters,
)
from mrc_testbed.cli.exit_codes import ExitCode
from mrc_testbed.cli.options import Settings, command, with_parameters
from mrc_testbed.cli.render import bad, good, plain_table, show
from mrc_testbed.cli.typed_run import TypedRun
from mrc_testbed.document.problem import Tree
from mrc_testbed.errors import UsageError
from mrc_testbed.shown import format_number, format_rate, format_size, format_time
from mrc_testbed.units import format_size_bytes, parse_size_bytes
from mrc_testbed.workloads.collective import COLLECTIVE_KINDS, DTYPES
from mrc_testbed.workloads.nccl import CollectiveResult, Durations, build_result, sweep_sizes

_SUMMARIES: Final = {
    "all-reduce": "Sum the data of all ranks at each: ring of reduce-scatter and all-gather.",
    "reduce-scatter": "Sum the data of all ranks, a share of the sum at each: ring.",
    "all-gather": "Collect the shares of all ranks at each: ring.",
    "all-to-all": "Send a share from each rank to each other, all at once.",
    "broadcast": "Copy the first rank's data to all: pipeline along the ring.",
}

_RANKS: Final[Options] = {
    "hosts": option(
        str, "all", "--hosts", metavar="LIST", help="Hosts of the ranks: names with commas, or all."
    ),
    "qps": option(
        int, 1, "--qps", min=1, metavar="NUMBER", help="QPs per pair of ranks; each carries a share."
    ),
    "dtype": option(
        str,
        "float32",
        "--dtype",
        metavar="TYPE",
        autocompletion=lambda: DTYPES,
        help="uint8, int32, int64, float32, float64.",
    ),
}
_SWEEP: Final[Options] = {
    "smallest": option(str, "1MiB", "--min-size", "-b", metavar="SIZE", help="Smallest data size of a rank."),
    "largest": option(
        str | None, None, "--max-size", "-e", metavar="SIZE", help="Largest data size (default: --min-size)."
    ),
    "factor": option(
        int, 2, "--factor", "-f", min=2, metavar="NUMBER", help="Factor from one size to the next."
    ),
    "iterations": option(
        int, 20, "--iterations", "-i", min=1, metavar="NUMBER", help="Timed operations of each size."
    ),
    "warmup": option(
        int, 2, "--warmup", "-w", min=0, metavar="NUMBER", help="Warm-up operations, not timed."
    ),
    **_RANKS,
    "reduce": option(str, "sum", "--reduce", metavar="OPERATION", help="sum, min or max."),
}
_TRAINING: Final[Options] = {
    "compute": option(str, "50ms", "--compute", metavar="TIME", help="Compute time of a step."),
    "size": option(str, "1MiB", "--size", metavar="SIZE", help="Data of a rank."),
    "collective": option(
        str,
        "all-reduce",
        "--collective",
        metavar="KIND",
        autocompletion=lambda: COLLECTIVE_KINDS,
        help="Collective that ends a step.",
    ),
    "duration": option(str, "5s", "--duration", "-d", metavar="TIME", help="Duration of the training."),
    **_RANKS,
}


def register(app: typer.Typer) -> None:
    for kind, summary in _SUMMARIES.items():
        command(app, kind, flags=FLAGS, needs_root=True)(_collective_command(kind, summary))
    with_parameters(training, parameters({**_TRAINING, **SHARED}))
    command(app, "training", flags=FLAGS, needs_root=True)(training)


def _collective_command(kind: str, summary: str) -> Callable[..., int]:
    def run(
        settings: Settings,
        smallest: str,
        largest: str | None,
        factor: int,
        iterations: int,
        warmup: int,
        **given: Any,
    ) -> int:
        first = parse_size_bytes(smallest)
        last = first if largest is None else parse_size_bytes(largest)
        if last < first:
            raise UsageError(f"--max-size {largest} is less than --min-size {smallest}")
        workload = _workload(kind, given, (*_RANKS, "reduce"))
        workload |= {"size": f"{first}B", "iterations": warmup + iterations, "timeout": ITERATIONS_TIMEOUT}
        sizes: dict[str, Tree] = {
            format_size_bytes(size): f"{size}B" for size in sweep_sizes(first, last, factor)
        }
        return _bench(settings, workload, BenchOptions(**given), warmup, sizes if len(sizes) > 1 else None)

    with_parameters(run, parameters({**_SWEEP, **SHARED}))
    run.__doc__ = f"""{summary}

    Sums are computed in the NICs' memory and every result is compared; `#wrong`
    counts bytes. busbw is the rate at which the busiest NIC sends: compare it
    with the rate of its ports. The exit status is 1 when a byte is wrong.

    [bold]Examples[/bold]

      mrc-testbed bench {kind} -b 4KiB -e 4MiB -f 4
      mrc-testbed bench {kind} -b 1MiB --hosts h0,h1,h4,h5 -o json
      mrc-testbed bench {kind} --transport rocev2 --qps 4
    """
    return run


def training(settings: Settings, **given: Any) -> int:
    """Run synchronous training steps: each rank computes, then all run a collective.

    [bold]Examples[/bold]

      mrc-testbed bench training --compute 100ms --size 4MiB
      mrc-testbed bench training --collective all-to-all --duration 20s
    """
    workload = _workload("training", given, _TRAINING)
    return _bench(settings, workload, BenchOptions(**given), warmup=0, sizes=None)


def _workload(kind: str, given: dict[str, Any], keys: Iterable[str]) -> dict[str, Tree]:
    """The workload of the options under *keys*, which it takes from *given*."""
    own: dict[str, Tree] = {"kind": kind, **{key: given.pop(key) for key in keys}}
    return own | {"hosts": listed_hosts(str(own["hosts"]))}


def _bench(
    settings: Settings,
    workload: Mapping[str, Tree],
    options: BenchOptions,
    warmup: int,
    sizes: Mapping[str, Tree] | None,
) -> int:
    results: list[CollectiveResult] = []
    with bench_runs(settings, options, workload, sizes) as runs:
        for run in runs:
            results.append(_result(run, warmup))
            if not results[-1].has_passed:
                break
    has_passed = all(result.has_passed for result in results)
    document: dict[str, Any] = {
        "workload": workload["kind"],
        **run.document(),
        "ranks": list(results[0].collective.ranks),
        "qps": results[0].collective.channels,
        "passed": has_passed,
        "sizes": [_size_document(result) for result in results],
    }
    show(settings, "CollectiveBench", document, lambda: _table(run, results), lines="sizes", version=2)
    return ExitCode.PASS if has_passed else ExitCode.ERROR


def _result(run: TypedRun, warmup: int) -> CollectiveResult:
    collective = run.workload.collective
    if collective is None:
        raise ValueError(run.workload.kind)
    operations = run.recording.operations[run.workload.name]
    errors = [outcome.error for outcome in run.recording.outcomes if outcome.error]
    return build_result(collective, operations, errors, warmup_operations=warmup)


def _size_document(result: CollectiveResult) -> dict[str, Any]:
    collective = result.collective
    return {
        "collective": collective.kind,
        "size_bytes": collective.size_bytes,
        "count": collective.count,
        "dtype": collective.dtype,
        "reduce": _reduction(result),
        "compute_ns": collective.compute_ns,
        "algbw_bps": result.algorithm_bps,
        "busbw_bps": result.bus_bps,
        "operation_ns": _durations(result.operation),
        "step_ns": _durations(result.step),
        "reaction_ns": result.reaction_ns,
        "compared_bytes": result.compared_bytes,
        "wrong_bytes": result.wrong_bytes,
        "errors": list(result.errors),
    }


def _durations(durations: Durations | None) -> Mapping[str, float] | None:
    if durations is None:
        return None
    return dict(zip(("count", "mean", "p50", "p99", "p99.9", "max"), astuple(durations), strict=True))


def _reduction(result: CollectiveResult) -> str | None:
    reduces = result.collective.kind in ("all-reduce", "reduce-scatter")
    return result.collective.reduction if reduces else None


def _table(run: TypedRun, results: Sequence[CollectiveResult]) -> RenderableType:
    is_training = results[0].step is not None or results[0].collective.is_training
    rates = ["#steps/s", "#busbw"] if is_training else ["#time", "#algbw", "#busbw"]
    percentiles = ("#p50", "#p99", "#p99.9", "#max")
    table = plain_table("#size", "#count", "type", "redop", *rates, "##wrong", *percentiles)
    for result in results:
        collective = result.collective
        shown = result.step if is_training else result.operation
        cells = [format_size(collective.size_bytes), str(collective.count), collective.dtype]
        cells.append(_reduction(result) or "none")
        if shown is None:
            table.add_row(*cells, *["-"] * 4)
            continue
        if is_training:
            cells.append(format_number(1e9 / shown.mean_ns))
        else:
            cells += [format_time(shown.mean_ns), format_rate(result.algorithm_bps)]
        wrong = Text(str(result.wrong_bytes), style="red bold" if result.wrong_bytes else "green")
        table.add_row(*cells, format_rate(result.bus_bps), wrong, *shown.shown())
    remarks = (Text(f"# {line}", style="dim") for line in run.remarks())
    return Group(_heading(results[0], run.transport), table, *_footer(results), *remarks)


def collective_table(collectives: Mapping[str, CollectiveResult]) -> RenderableType:
    """Table of a run's collectives by workload; times of training are of whole steps."""
    columns = ("collective", "what", "#operations", "#busbw", "#p50", "#p99", "#p99.9", "#max")
    table = plain_table(*columns)
    for name, found in collectives.items():
        times = found.step or found.operation
        what = f"{format_size(found.collective.size_bytes)} {found.collective.kind}"
        if found.collective.compute_ns is not None:
            what = f"steps of {format_time(found.collective.compute_ns)} and {what}"
        count, figures = (str(times.count), times.shown()) if times else ("0", [])
        table.add_row(name, what, count, format_rate(found.bus_bps), *figures)
    return table


def _heading(result: CollectiveResult, transport: str) -> Text:
    collective = result.collective
    ranks = collective.ranks
    shown = ", ".join(ranks) if len(ranks) <= 8 else f"{ranks[0]} .. {ranks[-1]}"
    qps = f"{collective.channels} QP{'s' if collective.channels > 1 else ''}"
    compute = "" if collective.compute_ns is None else f", computing {format_time(collective.compute_ns)}"
    return Text(
        f"# {collective.kind}, {len(ranks)} ranks ({shown}), {qps} per pair{compute}; {transport}",
        style="dim",
    )


def _footer(results: Sequence[CollectiveResult]) -> list[Text]:
    compared = format_size(sum(result.compared_bytes for result in results))
    wrong = sum(result.wrong_bytes for result in results)
    average = sum(result.bus_bps for result in results) / len(results)
    reaction = max(result.reaction_ns for result in results)
    lines = [Text(f"# average busbw {format_rate(average)}", style="dim")]
    if reaction:
        waited = (
            f"up to {format_time(reaction)} per step of the ring are this process, which drives all ranks"
        )
        lines.append(Text(f"# of the times, {waited}", style="dim"))
    lines.append(
        bad(f"{wrong} bytes of the {compared} compared are wrong")
        if wrong
        else good(f"{compared} of results verified, no mismatch")
    )
    return lines + [bad(error) for result in results for error in result.errors]
