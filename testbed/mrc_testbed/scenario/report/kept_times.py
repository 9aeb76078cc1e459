"""histograms.json: all times of a run by bucket, so that runs can be taken together by their sum. Pure.

A name is `times(packet_rtt)`, `times(collective_time(job))` or, where an expectation asks for a percentile,
mean or maximum of a window, `times(packet_rtt) during flap1`. Buckets without times are left out.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from mrc_testbed.metrics.histogram import Histogram
from mrc_testbed.scenario.measure.measurement import Measurement
from mrc_testbed.scenario.measure.recording import NotMeasured, Recording
from mrc_testbed.scenario.spec.expression import parse_expectation, parse_quantity
from mrc_testbed.scenario.spec.expression_tree import Quantity
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.scenario.spec.quantity import LATENCIES

SCHEMA_VERSION: Final = 1
FILE_NAME: Final = "histograms.json"


def build_histograms(recording: Recording) -> dict[str, Histogram]:
    """Name -> times; what was not measured is left out."""
    measurement = Measurement(recording)
    found = {}
    for quantity in _quantities(recording.plan):
        try:
            found[times_name(quantity)] = measurement.times(quantity)
        except NotMeasured:
            continue
    return found


def dump_histograms(histograms: Mapping[str, Histogram]) -> str:
    """The file's text: a line per name, a pair of bucket and count for each bucket that has times."""
    lines = []
    for name, histogram in histograms.items():
        counted = {index: count for index, count in enumerate(histogram.counts()) if count}
        kept = {
            "sum_ns": histogram.sum_ns,
            "max_ns": histogram.max_ns,
            "buckets": [list(pair) for pair in counted.items()],
        }
        lines.append(f" {json.dumps(name)}: {json.dumps(kept, separators=(',', ':'))}")
    body = ",\n".join(lines)
    return f'{{"schema_version": {SCHEMA_VERSION}, "histograms": {{\n{body}\n}}}}\n'


def load_histograms(text: str) -> dict[str, Histogram]:
    """Parse the output of `dump_histograms`.

    Raises:
        ValueError: it is not such a text, or of another version.
    """
    found = json.loads(text)
    try:
        if found["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"histograms of schema version {found['schema_version']}")
        return {
            name: Histogram.of_counts(each["buckets"], each["sum_ns"], each["max_ns"])
            for name, each in found["histograms"].items()
        }
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"not histograms of a run: {error}") from error


def times_name(quantity: Quantity) -> str:
    """The name of the times that a percentile, mean or maximum is of."""
    return str(replace(quantity, name="times", variant=None))


def _quantities(plan: Plan) -> Iterable[Quantity]:
    texts = [f"max({name})" for name in LATENCIES]
    for workload in plan.workloads:
        if workload.collective is not None:
            texts.append(f"max(collective_time({workload.name}))")
        if workload.shared_work is not None and workload.shared_work.is_training:
            texts.append(f"max(step_time({workload.name}))")
    wanted = [parse_quantity(text) for text in (*texts, *plan.measures)]
    wanted += [each for text in plan.expect for each in parse_expectation(text).quantities()]
    of_times = {times_name(each): each for each in wanted if each.kind.argument == "latency"}
    return of_times.values()
