"""A gigabyte through a fabric that loses, corrupts and reorders on every link.

It is scenarios/lossy-soak.yaml with more iterations, and faster ports, as nothing here is about time;
received memory is compared byte for byte.
MRC_SOAK_ITERATIONS sets another number of messages per QP, of 256 KiB each; there are 32 QPs.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from benchmarks.figure import Figure
from benchmarks.transfer import live_lab
from mrc_agents.abi import NicCounter
from mrc_testbed.metrics.collector import open_reader
from mrc_testbed.scenario.execution import execute
from mrc_testbed.scenario.run.live import LiveLab, live_world
from mrc_testbed.scenario.run.signal_clock import catching_signals
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.resolve import resolve

SCENARIO = Path(__file__).parents[1] / "scenarios" / "lossy-soak.yaml"
ITERATIONS = 128
PORT_RATE = "200Mbit"
_SHOWN = {
    "data packets sent": NicCounter.TX_DATA,
    "sent again: later SACKs passed them": NicCounter.TX_RETRANSMIT_SACK,
    "sent again: time-out": NicCounter.TX_RETRANSMIT_TIMEOUT,
    "duplicates received": NicCounter.RX_DUPLICATE,
    "refused for their iCRC": NicCounter.DROP_ICRC,
    "clocks started again": NicCounter.CLOCK_RESTARTS,
}


def run() -> Iterator[Figure]:
    scenario = yaml.safe_load(SCENARIO.read_text(encoding="utf-8"))
    iterations = int(os.environ.get("MRC_SOAK_ITERATIONS", ITERATIONS))
    scenario["spec"]["topology"]["port_rate"] = PORT_RATE
    scenario["spec"]["workloads"][0]["iterations"] = iterations
    text = yaml.safe_dump(scenario)
    plan = resolve(load_scenario(text))
    with live_lab(plan.topology) as lab, tempfile.TemporaryDirectory() as folder:
        started_s = time.monotonic()
        with catching_signals() as clock, live_world(lab, plan, clock) as world:
            result = execute(plan, text, world, LiveLab(lab), Path(folder)).result
        seconds = time.monotonic() - started_s
        reader = open_reader(lab.name)
        counters = [nic.counters() for nic in reader.nics.values()]
        reader.close()
    outcomes = result.recording.outcomes
    messages = sum(outcome.messages for outcome in outcomes)
    yield Figure(
        "lossy_soak", "bytes moved and compared", "MiB", (messages * 256 / 1024,), f">= {iterations * 8}"
    )
    yield Figure("lossy_soak", "wrong bytes", "B", (sum(outcome.wrong_bytes for outcome in outcomes),), "0")
    yield Figure(
        "lossy_soak", "failed QPs", "QP", (sum(counts[NicCounter.QP_ERRORS] for counts in counters),), "0"
    )
    yield Figure("lossy_soak", "time", "s", (seconds,))
    for name, counter in _SHOWN.items():
        yield Figure("lossy_soak", name, "packet", (sum(counts[counter] for counts in counters),))
