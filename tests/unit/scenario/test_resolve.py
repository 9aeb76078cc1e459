from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenario_text import FLAP, HEAD, scenario

from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.plan import dump_plan, load_plan
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.scenario.spec.resolve_faults import derive_seed
from mrc_testbed.scenario.spec.timeline import (
    ChangeFault,
    EndWarmup,
    StartWorkload,
    StopWorkload,
    build_timeline,
    format_plan,
)
from mrc_testbed.transport.congestion import CongestionControl

PLAN_42_LINKS = ("p0-t0-0:4~p0-t1-0:0", "p0-t0-1:4~p0-t1-0:1")
PLAN_42_PERIODS = (
    (1_010_016_363, 1_210_016_363),
    (1_525_771_328, 1_725_771_328),
    (2_016_305_814, 2_216_305_814),
    (2_571_610_845, 2_771_610_845),
)
PLAN_42_SEED = 13595247095698949786
DRY_RUN = """\
scenario   trial, seed 42
fabric     4 planes x (2 T0 + 2 T1), 8 hosts, unshaped
transport  mrc, 32 EVs per QP, fixed window of 64 packets
run        500ms of warm-up, then until 4s

workload   main: sendrecv, messages of 1MiB, for 4s; h0 > h4 and 7 more
fault      flap1: link-flap on p0-t0-0:4~p0-t1-0:0, p0-t0-1:4~p0-t1-0:1
             1.010016363s to 1.210016363s
             1.525771328s to 1.725771328s
             2.016305814s to 2.216305814s
             2.571610845s to 2.771610845s
expect     goodput(main) during flap1 >= 75% of goodput(main) before flap1
expect     detect(flap1) < 100ms
expect     wrong_bytes == 0
expect     qp_errors == 0
"""
HELD = scenario(
    "  faults:\n    - {id: f, at: 100ms, until: cleared, kind: link-down, select: {links: h0:0}}\n"
)

SEEDS = st.integers(min_value=0, max_value=2**63 - 1)


@given(SEEDS)
def test_the_same_seed_gives_the_same_plan(seed: int) -> None:
    assert resolve(load_scenario(FLAP), seed=seed) == resolve(load_scenario(FLAP), seed=seed)


def test_seeds_choose_links_and_times() -> None:
    plans = [resolve(load_scenario(FLAP), seed=seed) for seed in range(12)]
    assert len({plan.faults[0].links for plan in plans}) > 3
    assert len({plan.faults[0].periods for plan in plans}) == 12


def test_the_plan_of_seed_42_is_this_one_on_every_machine() -> None:
    """A plan that drifts with a Python or library version would make old results irreproducible."""
    fault = resolve(load_scenario(FLAP)).faults[0]
    assert fault.links == PLAN_42_LINKS
    assert fault.periods == PLAN_42_PERIODS
    assert fault.seed == PLAN_42_SEED


@given(SEEDS, st.integers(1, 100), st.integers(1, 100), st.integers(0, 100))
def test_occurrences_stay_apart_and_inside_their_fault(
    seed: int, every_ms: int, down_share: int, jitter_share: int
) -> None:
    down_us = every_ms * 1000 * down_share // 100 or 1
    room = 100 - down_share
    text = FLAP.replace(
        "every: 500ms, down: 200ms, jitter: 20%",
        f"every: {every_ms}ms, down: {down_us}us, jitter: {jitter_share * room // 100}%",
    )
    fault = resolve(load_scenario(text), seed=seed).faults[0]
    edges = [edge for period in fault.periods for edge in period if edge is not None]
    assert edges == sorted(edges)
    assert all(end is not None and end > start for start, end in fault.periods)
    assert edges[0] >= 1_000_000_000
    assert edges[-1] <= 3_000_000_000


def test_a_second_fault_changes_nothing_about_the_first() -> None:
    select = "{links: {plane: 1}, pick: random}"
    other = f"    - {{id: gray, at: 2s, for: 1s, kind: loss, ratio: 5%, select: {select}}}\n"
    alone = resolve(load_scenario(FLAP)).faults
    joined = resolve(load_scenario(FLAP.replace("  expect:", other + "  expect:"))).faults
    assert joined[0] == alone[0]
    assert joined[0].seed != joined[1].seed


def test_seeds_for_different_purposes_differ() -> None:
    assert len({derive_seed(1, "a"), derive_seed(2, "a"), derive_seed(1, "b"), derive_seed(1, "a", "b")}) == 4


def test_sendrecv_pairs_every_host_with_the_one_shift_places_on() -> None:
    plan = resolve(load_scenario(FLAP))
    pairs = [(flow.source, flow.target) for flow in plan.workloads[0].flows]
    assert pairs == [(f"h{host}", f"h{(host + 4) % 8}") for host in range(8)]


@pytest.mark.parametrize(
    ("hosts", "pairs"),
    [
        ("from: h0, to: h4", ["h0>h4"]),
        ("from: h0, to: [h4, h5]", ["h0>h4", "h0>h5"]),
        ("from: [h1, h0], to: h4", ["h1>h4", "h0>h4"]),
        ("from: [h0, h1], to: [h5, h4]", ["h0>h5", "h1>h4"]),
    ],
)
def test_hosts_pair_up(hosts: str, pairs: list[str]) -> None:
    text = HEAD + f"  workloads: [{{name: main, kind: write-bw, {hosts}, size: 1MiB, duration: 1s}}]\n"
    plan = resolve(load_scenario(text))
    assert [f"{flow.source}>{flow.target}" for flow in plan.workloads[0].flows] == pairs


def test_qps_come_from_the_workload_or_else_from_the_transport() -> None:
    workloads = (
        "  transport: {qps: 3}\n  workloads:\n"
        "    - {name: own, kind: write-bw, from: h0, to: h4, size: 1MiB, duration: 1s, qps: 2}\n"
        "    - {name: theirs, kind: write-bw, from: h1, to: h4, size: 1MiB, duration: 1s}\n"
        "    - {name: ping, kind: write-lat, from: h2, to: h3, size: 2B, duration: 1s}\n"
    )
    plan = resolve(load_scenario(HEAD + workloads))
    assert [len(workload.flows) for workload in plan.workloads] == [2, 3, 1]
    assert [flow.qp_index for flow in plan.workloads[1].flows] == [0, 1, 2]


def test_transport_defaults_are_those_of_the_topology() -> None:
    topology = "  topology: {planes: 2, nic: {evs: 64, window_packets: 32}}\n"
    plan = resolve(load_scenario(scenario(topology)))
    assert (plan.transport.evs, plan.transport.congestion) == (64, CongestionControl("fixed", 32))
    plan = resolve(load_scenario(scenario(topology + "  transport: {evs: 16, window: 8}\n")))
    assert (plan.transport.evs, plan.transport.congestion) == (16, CongestionControl("fixed", 8))


def test_congestion_control_is_nscc_where_ports_have_a_rate_unless_a_window_is_given() -> None:
    shaped = "  topology: {port_rate: 100Mbit}\n"
    chosen = resolve(load_scenario(scenario(shaped))).transport.congestion
    assert isinstance(chosen, CongestionControl)
    assert (chosen.algorithm, chosen.window_packets) == ("nscc", 27)
    fixed = resolve(load_scenario(scenario(shaped + "  transport: {window: 8}\n"))).transport.congestion
    assert fixed == CongestionControl("fixed", 8)
    profile = "  transport: {cc_profile: {max_cwnd: 20000}}\n"
    chosen = resolve(load_scenario(scenario(shaped + profile))).transport.congestion
    assert isinstance(chosen, CongestionControl)
    assert (chosen.algorithm, chosen.settings) == ("nscc", {"max_cwnd": 20000})
    assert chosen.describe() == "nscc, window of up to 10 packets"


@pytest.mark.parametrize(
    ("topology", "transport", "message"),
    [
        ("{}", "{cc: nscc}", "cc: nscc needs ports with a rate"),
        (
            "{port_rate: 100Gbit}",
            "{}",
            "cc: nscc assumes idle RTTs of 1us or more, and here it is 748ns: lower port_rate",
        ),
        ("{port_rate: 100Mbit}", "{cc: nscc, window: 8}", "window: it is for cc: fixed"),
        ("{port_rate: 100Mbit}", "{cc: fixed, cc_profile: {gamma: 0.5}}", "cc_profile: the window is fixed"),
        ("{port_rate: 100Mbit}", "{cc_profile: {gama: 0.5}}", "there is no gama"),
        ("{port_rate: 100Mbit}", "{cc_profile: {gamma: 1.5}}", "gamma is 1.5, expected 0 to 1"),
    ],
)
def test_congestion_control_that_does_not_fit_is_refused(topology: str, transport: str, message: str) -> None:
    text = scenario(f"  topology: {topology}\n  transport: {transport}\n")
    with pytest.raises(UsageError) as refusal:
        resolve(load_scenario(text))
    assert message in refusal.value.message
    assert "transport" in refusal.value.message


def test_a_fault_until_cleared_has_no_end() -> None:
    text = scenario(
        "  faults: [{id: f, at: 100ms, until: cleared, kind: link-down, select: {links: h0:0}}]\n"
    )
    assert resolve(load_scenario(text)).faults[0].periods == ((100_000_000, None),)


def test_a_flap_until_cleared_goes_on_to_the_end_of_the_run() -> None:
    rhythm = "kind: link-flap, every: 300ms, down: 100ms"
    text = HELD.replace("kind: link-down", rhythm)
    periods = resolve(load_scenario(text)).faults[0].periods
    assert periods == ((100_000_000, 200_000_000), (400_000_000, 500_000_000), (700_000_000, 800_000_000))


@given(SEEDS)
def test_a_saved_plan_is_read_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    plan = resolve(load_scenario(FLAP), seed=seed)
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    path.write_text(dump_plan(plan))
    assert load_plan(path) == plan


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "not a plan of schema version 3: : Invalid JSON"),
        ("{}", "not a plan of schema version 3: schema_version: Field required"),
        ('{"schema_version": 1}', "not a plan of schema version 3: schema_version: Input should be 3"),
    ],
)
def test_what_is_no_plan_is_refused(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(content)
    with pytest.raises(UsageError) as caught:
        load_plan(path)
    assert caught.value.message.startswith(f"{path}: {reason}")


def test_a_missing_plan_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file or directory"):
        load_plan(tmp_path / "plan.json")


def test_at_one_instant_clearing_comes_first_and_applying_last() -> None:
    faults = (
        "  faults:\n"
        "    - {id: a, at: 200ms, for: 300ms, kind: link-down, select: {links: h0:0}}\n"
        "    - {id: b, at: 500ms, for: 500ms, kind: link-down, select: {links: h0:0}}\n"
    )
    names = [
        (type(action).__name__, action.at_ns, getattr(action, "action", None))
        for action in build_timeline(resolve(load_scenario(scenario(faults))))
    ]
    assert names == [
        ("EndWarmup", 0, None),
        ("StartWorkload", 0, None),
        ("ChangeFault", 200_000_000, "apply"),
        ("ChangeFault", 500_000_000, "clear"),
        ("ChangeFault", 500_000_000, "apply"),
        ("ChangeFault", 1_000_000_000, "clear"),
        ("StopWorkload", 1_000_000_000, None),
    ]


def test_warm_ups_of_different_length_end_together() -> None:
    workloads = (
        "  workloads:\n"
        "    - {name: a, kind: write-bw, from: h0, to: h4, size: 1MiB, duration: 2s, warmup: 300ms}\n"
        "    - {name: b, kind: write-bw, from: h1, to: h4, size: 1MiB, duration: 1s, warmup: 100ms}\n"
    )
    plan = resolve(load_scenario(HEAD + workloads))
    assert plan.start_ns == -300_000_000
    assert build_timeline(plan) == (
        StartWorkload(-300_000_000, "a"),
        StartWorkload(-100_000_000, "b"),
        EndWarmup(0),
        StopWorkload(1_000_000_000, "b"),
        StopWorkload(2_000_000_000, "a"),
    )


def test_an_occurrence_without_an_end_is_not_cleared_by_the_timeline() -> None:
    text = scenario(
        "  faults: [{id: f, at: 100ms, until: cleared, kind: link-down, select: {links: h0:0}}]\n"
    )
    changes = [a for a in build_timeline(resolve(load_scenario(text))) if isinstance(a, ChangeFault)]
    assert [change.action for change in changes] == ["apply"]


def test_dry_run_text() -> None:
    unshaped = FLAP.replace("  topology: {port_rate: 5Mbit}\n", "")
    assert format_plan(resolve(load_scenario(unshaped))) == DRY_RUN


def test_a_clear_ends_a_fault_before_its_time_and_a_flap_between_outages() -> None:
    faults = """
  faults:
    - {id: gray, at: 100ms, until: cleared, kind: loss, ratio: 1%, select: {links: "h0:0"}}
    - {id: flap, at: 100ms, for: 800ms, kind: link-flap, every: 100ms, down: 20ms, select: {links: "h0:1"}}
    - {kind: clear, at: 350ms, faults: [gray, flap]}
"""
    gray, flap = resolve(load_scenario(scenario(faults))).faults
    assert gray.periods == ((100_000_000, 350_000_000),)
    assert [start_ns for start_ns, _ in flap.periods] == [100_000_000, 200_000_000, 300_000_000]
