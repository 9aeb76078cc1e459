"""The run in the drawing of its fabric: frames, what is in them, and how large all that is."""

import json
import re
from base64 import b64decode
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hand_made import MS, S, applied, cleared, reading, recording
from scenario_text import FLAP

from mrc_agents.abi import EvState
from mrc_testbed.drawing.graph import drawn_port_ids
from mrc_testbed.metrics.series import Reading
from mrc_testbed.report.page import asset
from mrc_testbed.scenario.measure.recording import Recording
from mrc_testbed.scenario.report.player import FRAMES_MAX, fabric_player, kept_readings, link_levels
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.port_queue import port_queues
from mrc_testbed.topology.resolve import resolve_topology

RATE_BPS = 5_000_000  # of FLAP
MANY_LINKS = "{planes: 8, t0: 6, t1: 6, hosts_per_t0: 6, port_rate: 5Mbit}"


def read(clos: Clos, at_ns: int, sent: dict[int, int], waits: dict[int, int] | None = None) -> Reading:
    """A reading of a lab whose ports of those ids have sent so many bytes, and have others waiting."""
    ports = drawn_port_ids(clos)
    tx_bytes = [sent.get(port, 0) for port in ports]
    queues = [waits.get(port, 0) for port in ports] if waits is not None else []
    return replace(reading(at_ns), drawn_tx_bytes=tx_bytes, drawn_queue_bytes=queues)


def regular(text: str, count: int) -> tuple[Clos, Recording]:
    """A run with *count* readings, each 100 ms after the one before."""
    run = recording(text, [])
    clos = resolve_topology(run.plan.topology)
    run.readings += [read(clos, place * 100 * MS, {1: place * 1000}) for place in range(count)]
    return clos, run


def played(run: Recording, clos: Clos) -> dict[str, Any]:
    """Data of the player."""
    [text] = re.findall(r'class="player">(\{.*)</script>', fabric_player(run, clos))
    found: dict[str, Any] = json.loads(text)
    return found


def test_a_link_has_use_and_queue_of_its_busier_direction() -> None:
    clos, _ = regular(FLAP, 0)
    full = RATE_BPS // 80  # bytes in 100 ms
    room = port_queues(clos)[5].data_buffer_bytes
    before = read(clos, 0, {0: 70, 5: 70}, {})
    after = read(clos, 100 * MS, {0: 70 + full, 1: 1, 3: full // 2, 5: 71, 6: 2 * full}, {5: room // 4, 9: 1})
    levels = link_levels(clos, [before, after])
    assert len(levels) == len(drawn_port_ids(clos)) // 2
    assert list(levels[:6]) == [0xF0, 0x80, 0x18, 0xF0, 0x01, 0]


def test_without_rates_use_is_beside_the_busiest_link_of_the_frame() -> None:
    clos, _ = regular(FLAP.replace("  topology: {port_rate: 5Mbit}\n", ""), 0)
    moments = [read(clos, 0, {}), read(clos, S, {}), read(clos, 2 * S, {0: 90, 2: 30})]
    idle, busy = (link_levels(clos, moments[place : place + 2]) for place in (0, 1))
    assert not any(idle)
    assert list(busy[:3]) == [0xF0, 0x50, 0]


def test_a_frame_says_its_time_its_faults_and_the_evs_that_are_out_of_use() -> None:
    clos, run = regular(FLAP, 6)
    states = {(0, EvState.GOOD): 30, (0, EvState.DENIED): 1, (2, EvState.ASSUMED_BAD): 3}
    run.readings[3] = replace(run.readings[3], ev_states=states)
    run.readings[4] = replace(run.readings[4], ev_states={})  # a transport without EVs
    run.fault_changes = [
        applied("flap1", 199 * MS),
        cleared("flap1", 301 * MS),
        applied("flap1", 450 * MS, 1),
    ]
    assert played(run, clos)["frames"] == [
        ["100 ms: no fault; EVs out of use by plane: 0, 0, 0, 0", []],
        ["200 ms: no fault; EVs out of use by plane: 0, 0, 0, 0", []],
        ["300 ms: flap1 (link-flap); EVs out of use by plane: 1, 0, 3, 0", [0]],
        ["400 ms: no fault", []],
        ["500 ms: flap1 (link-flap); EVs out of use by plane: 0, 0, 0, 0", [0]],
    ]


def test_links_have_names_and_faults_those_that_are_drawn() -> None:
    clos, run = regular(FLAP, 3)
    data = played(run, clos)
    assert data["links"] == [clos.link(port // 2).name for port in drawn_port_ids(clos)[::2]]
    assert data["faults"] == [list(run.plan.faults[0].links)]
    assert len(b64decode(data["levels"])) == 2 * len(data["links"])
    large = FLAP.replace("{port_rate: 5Mbit}", MANY_LINKS.replace("t1: 6", "t1: 64"))
    clos, run = regular(large.replace("pick: random, count: 2", "pick: all"), 2)
    data = played(run, clos)
    assert set(data["faults"][0]) < set(run.plan.faults[0].links)
    assert set(data["faults"][0]) < set(data["links"])


def test_a_long_run_is_thinned_evenly_and_keeps_edges_of_faults() -> None:
    _, run = regular(FLAP, 2000)
    run.fault_changes = [applied("flap1", 33_300 * MS), cleared("flap1", 33_500 * MS)]
    kept = [run.relative_ns(each.time_ns) // (100 * MS) for each in kept_readings(run, FRAMES_MAX)]
    assert len(kept) <= FRAMES_MAX + 1
    assert {0, 333, 335, 1999} < set(kept)
    assert max(later - earlier for earlier, later in pairwise(kept)) <= 11
    run.fault_changes *= 500
    assert len(kept_readings(run, 8)) <= 9


def test_many_links_and_a_long_run_add_less_than_150_kb() -> None:
    text = FLAP.replace("{port_rate: 5Mbit}", MANY_LINKS)
    clos, run = regular(text, 3000)
    assert len(drawn_port_ids(clos)) // 2 > 500
    rules = sum(len(line) for line in asset("report.css").splitlines() if "play" in line)
    assert len(fabric_player(run, clos)) + len(asset("player.js")) + rules < 150_000


@pytest.mark.parametrize("count", [0, 1])
def test_a_run_whose_ports_were_not_read_twice_does_not_play(count: int) -> None:
    clos, run = regular(FLAP, count)
    run.readings.append(reading(5 * S))
    run.fault_changes = [applied("flap1", 1)]
    assert fabric_player(run, clos) == ""
