"""Moments of a run in virtual time: queues to the packet, conditions, QPs; the run stays what it was."""

import json
import shutil
from collections import defaultdict

import pytest
from golden_documents import check_document
from rich.console import Console
from runs import ROOT, plan_of, run

from mrc_agents.abi import TraceKind
from mrc_agents.nic.device import NicDevice
from mrc_testbed.cli.app import run as command
from mrc_testbed.cli.replay_moments import _tables
from mrc_testbed.errors import UsageError
from mrc_testbed.explain.moment import (
    STEPS,
    changes_between,
    first_moment,
    moments_of,
    parse_condition,
    read_moment,
    steps_of,
)
from mrc_testbed.explain.trace import Tracer, repeat
from mrc_testbed.topology.resolve import resolve_topology

ZERO_NS = 1_000_000_001
MOMENT_NS = 3_040_000_000


@pytest.fixture(scope="module")
def done(library, tmp_path_factory):
    return run(plan_of("t0-t1-flap.yaml"), tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def plan():
    return plan_of("t0-t1-flap.yaml")


@pytest.fixture(scope="module")
def moments(library, plan):
    return moments_of(plan, ZERO_NS, [MOMENT_NS, 3_000_000_000, MOMENT_NS + 60_000_000], STEPS)


def until(plan, text, from_ns=None):
    condition = parse_condition(text, resolve_topology(plan.topology))
    return first_moment(plan, ZERO_NS, from_ns, condition)


def test_each_packet_of_a_moment_is_where_the_trace_has_it(plan, moments):
    """A packet waits from when it came to a port to when its transmission began, then it is on the wire."""
    tracer = Tracer([TraceKind.HOP], ZERO_NS + 3_000_000_000, ZERO_NS + MOMENT_NS + 200_000_000)
    repeat(plan, tracer.begin, tracer.take, ZERO_NS + MOMENT_NS + 200_000_000)
    clos, now_ns = resolve_topology(plan.topology), ZERO_NS + MOMENT_NS
    expected, found = defaultdict(list), defaultdict(list)
    for hop in tracer.records:
        if hop["time_ns"] <= now_ns < hop["end_ns"]:
            port = clos.port(int(hop["place"])).name
            expected[port].append((bool(hop["start_ns"] > now_ns), int(hop["psn"]), int(hop["value"])))
    for each in moments[0][0]["packets"]:
        found[each["port"]].append((each["place"] == "waiting", each["psn"], each["bytes"]))
    assert {port: sorted(of) for port, of in found.items()} == {p: sorted(of) for p, of in expected.items()}
    assert sum(map(len, found.values())) > 100


def test_a_port_s_bytes_are_those_of_its_packets(moments):
    [port] = [each for each in moments[0][0]["ports"] if each["port"] == "h0:2"]
    assert port == {"port": "h0:2", "data_bytes": 9 * 2190, "control_bytes": 0, "waiting": 9, "on_wire": 1}


def test_qps_evs_and_faults_of_a_moment(moments, done):
    at, before, later = moments[0]
    assert (
        [each["fault"] for each in at["faults"]] == [each["fault"] for each in later["faults"]] == ["flap1"]
    )
    assert before["faults"] == []
    events = map(json.loads, (done.folder / "events.jsonl").read_text().splitlines())
    fallen = [event for event in events if event["event"] == "ev-state" and event["time_ns"] <= MOMENT_NS]
    for qp in at["qps"]:
        bad = [each for each in fallen if (each["host"], each["qpn"]) == (qp["from"], qp["qpn"])]
        evs = [each for each in at["evs"] if (each["from"], each["qpn"]) == (qp["from"], qp["qpn"])]
        assert sum(each["ASSUMED_BAD"] for each in evs) == len(bad)
        assert [each["GOOD"] + each["ASSUMED_BAD"] for each in evs] == [32] * 4
        assert qp["next_psn"] - qp["una_psn"] >= qp["in_flight"] + qp["lost"]


def test_a_moment_does_not_differ_from_itself(moments):
    at, before, _ = moments[0]
    assert not any(changes_between(at, at).values())
    changed = changes_between(before, at)
    assert changed["faults"] == [{"name": "flap1 0", "figure": "acts", "before": 0, "after": 1}]
    assert {"name": "h2:0", "figure": "data_bytes", "before": 19710, "after": 15330} in changed["ports"]


def test_steps_of_a_qp_add_up(moments):
    (_, before, later), records = moments
    steps = list(steps_of(records, ZERO_NS, 0, 2))
    assert [each["time_ns"] for each in steps] == sorted(each["time_ns"] for each in steps)
    ends = [next(qp for qp in of["qps"] if (qp["from"], qp["qpn"]) == ("h0", 1024)) for of in (before, later)]
    sent = {each["psn"] for each in steps if each["step"] == "sent" and not each["why"]}
    assert sent == set(range(ends[0]["next_psn"], ends[1]["next_psn"]))


@pytest.mark.parametrize("text", ["lost", "lost(p2-t0-1:4)"])
def test_the_first_loss_is_just_after_the_links_went_down(plan, text):
    time_ns, why = until(plan, text)
    assert time_ns == 3_030_313_600
    assert why == "p2-t0-1:4: PSN 4083710 of h2 towards h0, EV 0x20020003: lost: link down"


def test_the_first_bad_ev_is_that_of_the_events(plan, done):
    events = map(json.loads, (done.folder / "events.jsonl").read_text().splitlines())
    first = next(each for each in events if each["event"] == "ev-state" and each["host"] == "h0")
    time_ns, why = until(plan, "ev_bad(h0, h2)")
    assert time_ns == first["time_ns"]
    assert first["ev"] in why


def test_a_queue_is_as_long_as_its_condition_says(plan, library):
    time_ns, why = until(plan, "queue(p0-t0-0:4) > 4KiB", 0)
    assert why.endswith("behind 4380 bytes")
    (at,), _ = moments_of(plan, ZERO_NS, [time_ns])
    [port] = [each for each in at["ports"] if each["port"] == "p0-t0-0:4"]
    assert port["data_bytes"] == 3 * 2190


def test_what_never_happens_and_times_outside_of_the_run(plan):
    assert until(plan, "trimmed") is None
    with pytest.raises(UsageError, match="the run was over at 10 s"):
        moments_of(plan, ZERO_NS, [11 * 10**9])
    with pytest.raises(UsageError, match="-2 s is before the run"):
        moments_of(plan, ZERO_NS, [-2 * 10**9])


def test_a_run_that_is_looked_at_is_the_same_run(plan):
    """All that a moment and counters say at its end is as of a run that is left alone."""
    ends = []

    def keep(lab, recording):
        totals = lab.runtime.totals()
        counters = [NicDevice(lab.node_pins(host.name)).counters() for host in lab.clos.hosts()]
        events = recording.nic_events, recording.fault_changes
        ends.append((totals.events, totals.arrivals, counters, *events, read_moment(lab, ZERO_NS)))

    class Reader:
        def __init__(self, lab):
            self.lab = lab
            lab.set_alarm(self, ZERO_NS + MOMENT_NS)

        def on_time(self):
            read_moment(self.lab, ZERO_NS)

    for begin in (lambda _: None, Reader):
        repeat(plan, begin, keep, ZERO_NS + plan.end_ns)
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    "options", [["--at", "3.04s"], ["--at", "3s", "--until", "lost", "--qp", "h0", "h2"]]
)
def test_the_command_prints_documents_and_tables(done, options, capsys):
    assert command(["replay", str(done.folder), *options, "-o", "json"]) == 0
    check_document("Moment", json.loads(capsys.readouterr().out))
    assert command(["replay", str(done.folder), *options]) == 0
    assert "more: -o json has all" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--until", ""], "'' is no condition"),
        (["--until", "lots"], "'lots' is no condition; did you mean 'lost'?"),
        (["--until", "queue(h0:0)"], "known: lost, lost(PORT), trimmed, trimmed(PORT), queue(PORT) > SIZE"),
        (["--until", "lost(h0:9)"], "h0 has no port 9"),
        (["--until", "ev_bad(h0, p0-t0-0)"], "p0-t0-0 is a switch: only hosts have QPs"),
        (["--until", "queue(h0:0) > 3"], "'3' is not a size: it has no unit"),
        (["--at", "3"], "'3' is not a duration: it has no unit"),
        (["--at", "1s", "--qp", "h0", "h2"], "--qp takes two"),
        (["--at", "1s", "--at", "2s", "--qp", "h0", "host9"], "there is no node 'host9'"),
        (["--at", "1s", "--until", "lost", "--at", "2s"], "give one moment, or two"),
        (["--at", "1s", "--tolerance", "5%"], "leave out --tolerance and --runtime"),
    ],
)
def test_what_is_asked_for_wrongly_is_refused(done, options, said, capsys):
    assert command(["replay", str(done.folder), *options]) == 2
    assert said in capsys.readouterr().err


def test_live_runs_and_campaigns_have_no_moments(done, tmp_path, capsys):
    live = tmp_path / done.folder.name
    shutil.copytree(done.folder, live)
    manifest = (live / "manifest.json").read_text()
    (live / "manifest.json").write_text(manifest.replace('"runtime": "virtual"', '"runtime": "netns"'))
    campaign = ROOT / "tests/unit/campaign/kept/campaign-0.3.0.tar.zst"
    for what, said in ((live, "look at its twin: mrc-testbed replay"), (campaign, "one of its runs")):
        assert command(["replay", str(what), "--at", "1s"]) == 2
        assert said in capsys.readouterr().err


def test_bundles_have_moments_and_a_condition_may_never_hold(done, tmp_path, capsys):
    assert command(["bundle", str(done.folder), "--into", str(tmp_path / "b.tar.zst")]) == 0
    assert command(["replay", str(tmp_path / "b.tar.zst"), "--until", "timeout(h0, h2)"]) == 4
    assert "timeout(h0, h2): at no moment of the run" in capsys.readouterr().err
    assert command(["replay", str(tmp_path / "b.tar.zst"), "--at", "-10ms"]) == 0
    assert capsys.readouterr().out.startswith("-10ms\n")


def test_a_run_of_another_version_is_repeated_with_a_warning(capsys):
    kept = ROOT / "tests/unit/campaign/kept/run-0.2.0.tar.zst"
    assert command(["replay", str(kept), "--at", "100ms"]) == 0
    assert "the run is of mrc-testbed 0.2.0" in capsys.readouterr().err


def test_a_figure_that_nothing_was_measured_of_keeps_its_column():
    rows = [{"una_psn": 1, "next_psn": 2, "lost": 0, "srtt_ns": srtt_ns} for srtt_ns in (None, 7_000)]
    console = Console(record=True, width=100)
    console.print(*_tables({"qps": rows}))
    last = [line.split()[-1] for line in console.export_text().splitlines() if line]
    assert last[1:] == ["srtt", "-", "\N{MICRO SIGN}s"]
