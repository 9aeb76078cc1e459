"""A NIC whose fabric fails under it: no wrong byte, no QP lost, EVs set aside and brought back."""

from typing import Any

import pytest
from nic_lab import BATCH, DISTANT, WritePair, set_link_down

from mrc_testbed.fabric.live import Lab
from mrc_testbed.faults.lab_target import LabTarget
from mrc_testbed.topology.ev import decode_ev

pytestmark = pytest.mark.root

BURST = 20 * BATCH
"""Iterations that take some milliseconds, so that a fault meets packets under way."""


def is_fall(event: dict[str, Any]) -> bool:
    return bool(event["event"] == "ev_state" and event["to"] == "ASSUMED_BAD")


def is_return(event: dict[str, Any]) -> bool:
    return bool(event["event"] == "ev_state" and event["to"] == "GOOD")


def write_until_an_ev_falls(pair: WritePair, plane: int, uplink: int) -> dict[str, Any]:
    """Keeps the pair writing, to the end of a burst; the first fall of an EV of a path.

    On a busy machine a packet of another one may be late, and its EV falls too.
    """
    falls: list[dict[str, Any]] = []
    while not falls:
        already = len(pair.events)
        pair.write(BURST)
        falls = [
            event
            for event in pair.events[already:]
            if is_fall(event) and decode_ev(event["entropy"])[:2] == (plane, uplink)
        ]
    return falls[0]


def await_all_good(pair: WritePair) -> None:
    """Waits until probes have brought every EV back."""
    while pair.bad_evs():
        pair.await_event(is_return)


def write_until_used(pair: WritePair, plane: int) -> None:
    """Writes until packets take *plane*: a NIC avoids paths for two seconds that failed a QP now gone."""
    before = pair.sent_by_plane()[plane]
    while pair.sent_by_plane()[plane] == before:
        pair.write(BURST)


def test_cut_link_costs_its_evs_and_nothing_else(live: Lab) -> None:
    plane, uplink = 2, 1
    with WritePair(live, DISTANT) as pair:
        pair.write(BURST)
        link = live.clos.fabric_link(plane, 0, uplink)
        set_link_down(live, link, is_down=True)
        fall = write_until_an_ev_falls(pair, plane, uplink)
        assert (fall["plane"], fall["reason"]) in {(plane, "loss"), (plane, "timeout")}
        pair.write(BURST)
        on_the_link = {index for index, ev in enumerate(pair.evs) if decode_ev(ev)[:2] == (plane, uplink)}
        assert pair.bad_evs() & on_the_link
        assert pair.state == "RTS"
        assert pair.wrong_bytes() == 0

        set_link_down(live, link, is_down=False)
        await_all_good(pair)
        pair.write(BURST)
        assert pair.state == "RTS"
        assert pair.wrong_bytes() == 0


def test_port_that_loses_its_carrier_is_left_and_used_again_when_it_is_back(live: Lab, lab_name: str) -> None:
    plane = 1
    switch_port = live.clos.host_link(live.clos.node("h0").index, plane).upper
    with WritePair(live, DISTANT) as pair:
        pair.write(BURST)
        target = LabTarget(lab_name)
        try:
            target.set_carrier(switch_port.id, is_up=False)
            down = pair.await_event(lambda event: event["event"] == "port_state")
            assert (down["plane"], down["is_up"]) == (plane, False)
            assert pair.source.port_status() == [True, False, True, True]
            before = pair.sent_by_plane()
            for other in (0, 2, 3):
                write_until_used(pair, other)
            after = pair.sent_by_plane()
            assert [sent > earlier for sent, earlier in zip(after, before, strict=True)] == [
                True,
                False,
                True,
                True,
            ]
            assert pair.wrong_bytes() == 0
        finally:
            target.set_carrier(switch_port.id, is_up=True)
            target.close()
        up = pair.await_event(lambda event: event["event"] == "port_state")
        assert (up["plane"], up["is_up"]) == (plane, True)
        assert pair.source.port_status() == [True] * 4
        await_all_good(pair)
        write_until_used(pair, plane)
        assert pair.state == "RTS"
        assert pair.wrong_bytes() == 0


def test_port_of_the_receiver_that_loses_its_carrier(live: Lab, lab_name: str) -> None:
    """The sender sees only losses; the receiver's answers leave by the other ports."""
    switch_port = live.clos.host_link(live.clos.node("h3").index, 3).upper
    with WritePair(live, DISTANT) as pair:
        pair.write(BURST)
        target = LabTarget(lab_name)
        try:
            target.set_carrier(switch_port.id, is_up=False)
            pair.write(BURST)
            assert pair.wrong_bytes() == 0
            assert pair.state == "RTS"
        finally:
            target.set_carrier(switch_port.id, is_up=True)
            target.close()
        await_all_good(pair)
        write_until_used(pair, 3)
        assert pair.wrong_bytes() == 0


def test_all_ports_gone_and_back_again(live: Lab, lab_name: str) -> None:
    """Work posted meanwhile begins when a port is back; a QP survives as long as its retries last."""
    ports = [live.clos.host_link(live.clos.node("h0").index, plane).upper for plane in range(4)]
    with WritePair(live, DISTANT) as pair:
        pair.write(BURST)
        target = LabTarget(lab_name)
        try:
            for port in ports:
                target.set_carrier(port.id, is_up=False)
            for _ in ports:
                pair.await_event(lambda event: event["event"] == "port_state")
            assert pair.source.port_status() == [False] * 4
            work_id = pair.post(BURST)
        finally:
            for port in ports:
                target.set_carrier(port.id, is_up=True)
            target.close()
        assert pair.complete(work_id)["status"] == "success"
        assert pair.wrong_bytes() == 0
