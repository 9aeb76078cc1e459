"""Link probes on a real fabric: they come back, and broken links are found among sound ones."""

import json

import pytest
from golden_documents import check_document
from waiting import poll_until

from mrc_testbed.cli.app import run
from mrc_testbed.fabric.link_probes import LinkProbeCounts, link_probes_running
from mrc_testbed.fabric.live import Lab
from mrc_testbed.faults.interactive import LabFaults, parse_fault
from mrc_testbed.metrics.collector import LabCollector, open_reader
from mrc_testbed.metrics.exposition import Samples
from mrc_testbed.metrics.histogram import Histogram
from mrc_testbed.probing.localisation import Diagnosis, localise
from mrc_testbed.topology.probe_path import PathOutcome, probe_paths, since

JUDGED_PER_PATH = 100
LAG_ROUNDS = 50  # of the fastest rounds here, as many as fit into the time-out
UPLINK, HOST_LINK = "p1-t0-0:2~p1-t1-0:0", "h3:0~p0-t0-1:1"


def judged(counts: LinkProbeCounts, at_least: int = JUDGED_PER_PATH) -> list[PathOutcome]:
    """The outcome of so many probes on every path that are sent from now on."""
    await_judged(counts, LAG_ROUNDS + 1)
    return await_judged(counts, at_least)


def await_judged(counts: LinkProbeCounts, at_least: int) -> list[PathOutcome]:
    """The outcome of so many probes on every path that are judged from now on."""
    before = counts.read()

    def judged() -> list[PathOutcome]:
        between = list(since(counts.read(), before))
        return between if min(each.passed + each.failed for each in between) >= at_least else []

    return poll_until(judged, interval_s=0.02)


def diagnose(live: Lab) -> Diagnosis:
    with LinkProbeCounts(live.paths, live.clos) as counts:
        return localise(live.clos, judged(counts))


def inject(live: Lab, kind: str, links: str, **fields: str) -> None:
    faults = LabFaults(live.name)
    try:
        faults.add(parse_fault(kind, links, {"id": "f1", "until": "cleared", **fields}, ()), seed=1)
    finally:
        faults.close()


def suspects(live: Lab, diagnosis: Diagnosis) -> set[str]:
    return {live.clos.link(link).name for link in diagnosis.suspects}


def test_every_host_probes_every_link_it_is_to(live: Lab) -> None:
    with LinkProbeCounts(live.paths, live.clos) as counts:
        paths = [outcome.path for outcome in counts.read()]
    assert paths == [path for host in live.clos.hosts() for path in probe_paths(live.clos, host.index)]
    diagnosis = diagnose(live)
    assert diagnosis.health.keys() == {link.id for link in live.clos.links()}
    assert suspects(live, diagnosis) == set()
    assert all(health.probes >= JUDGED_PER_PATH for health in diagnosis.health.values())


def test_command_says_what_is_broken(live: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    inject(live, "link-down", UPLINK)
    status = run(["probe", "links", "-n", live.name, "--duration", "1s", "-o", "json"])
    found = json.loads(capsys.readouterr().out)
    assert status == 0
    check_document("LinkHealth", found)
    assert [row["link"] for row in found["suspects"]] == [UPLINK]
    assert [part["names"] for part in found["parts"]] == [[UPLINK]]
    assert len(found["links"]) == live.clos.numbering.link_count
    assert found["interval_ns"] == 5_000_000


def test_a_t1_that_loses_little_is_named_without_a_look_at_what_was_injected(
    live: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    def named(*words: str) -> list[list[str]]:
        run([*words, "-n", live.name, "-o", "json"])
        found = json.loads(capsys.readouterr().out)
        rows = found.get("parts") or [row for row in found["findings"] if row["kind"] == "suspect"]
        return [row["names"] for row in rows]

    inject(live, "loss", "p1-t1-1:*", ratio="5%")
    ledger, away = live.paths.faults, live.paths.faults.with_name("away")
    before = named("probe", "links", "--duration", "2s")
    ledger.rename(away)
    try:
        assert named("probe", "links", "--duration", "2s") == named("check") == before == [["p1-t1-1"]]
    finally:
        away.rename(ledger)


def test_what_is_found_can_be_denied(live: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    inject(live, "link-down", UPLINK)
    assert run(["probe", "links", "-n", live.name, "--duration", "1s", "--deny"]) == 0
    assert "denied" in capsys.readouterr().out
    denied = {host.name: live.agent(host.name).call("denied_paths") for host in live.clos.hosts()}
    try:
        assert denied["h0"] == denied["h1"] == [{"plane": 1, "uplink": 0, "peer_host": None}]
        towards = [{"plane": 1, "uplink": 0, "peer_host": peer} for peer in (0, 1)]
        assert denied["h2"] == denied["h3"] == towards
    finally:
        for host, paths in denied.items():
            for path in paths:
                live.agent(host).call("allow_path", **path)


def test_probes_of_a_command_end_with_it_or_go_on_as_the_topology_has_them(live: Lab) -> None:
    with LinkProbeCounts(live.paths, live.clos) as counts:
        with link_probes_running(live, 2_000_000) as probing:
            assert (probing.interval, probing.timeout) == (2_000_000, 100_000_000)
            judged(counts, at_least=20)
        judged(counts, at_least=20)


def test_metrics_count_probes_and_name_the_suspect(live: Lab) -> None:
    reader = open_reader(live.name)
    collector = LabCollector(reader, live.paths)
    try:
        first: Samples = {}
        collector.collect(first)
        inject(live, "link-down", UPLINK)
        diagnose(live)
        second: Samples = {}
        collector.collect(second)
    finally:
        collector.close()
    before, after = (
        {at: value for at, value in samples["mrc_link_probes_total"] if not isinstance(value, Histogram)}
        for samples in (first, second)
    )
    assert before.keys() == after.keys()
    labels = (live.name, "1", "h0", UPLINK)
    assert after[*labels, "failed"] >= before[*labels, "failed"] + JUDGED_PER_PATH
    sound = (live.name, "1", "h0", live.clos.host_link(0, 1).name)
    assert after[*sound, "passed"] >= before[*sound, "passed"] + JUDGED_PER_PATH
    suspects = {labels[-1] for labels, value in second["mrc_link_probe_suspect"] if value}
    assert suspects == {UPLINK}
    assert len(second["mrc_link_probe_suspect"]) == live.clos.numbering.link_count
