"""Rounds on one live lab: faults over a training job, in the manner of Jepsen, and what they leave behind."""

import logging
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from ctypes import Structure, c_uint32
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol

from mrc_agents.abi import IcrcMode, LosslessSettings, NicControl, QueuePool
from mrc_agents.bpf.libbpf import open_map_in
from mrc_agents.bpf.maps import ArrayMap, MappedArray
from mrc_agents.nic.client import AgentClient
from mrc_testbed.bundle.bundle import SUFFIX, write_bundle
from mrc_testbed.document.one_step import latest_of
from mrc_testbed.errors import TestbedError
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.port_fault import is_healthy
from mrc_testbed.faults.attendance import status_under_faults
from mrc_testbed.faults.ledger import Ledger
from mrc_testbed.scenario.execution import FinishedRun, execute
from mrc_testbed.scenario.measure.verdict import Status, Verdict
from mrc_testbed.scenario.run.live import LiveLab, live_world
from mrc_testbed.scenario.run.protocols import Clock
from mrc_testbed.scenario.run.stage import lab_for_run
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.soak.document import Values, as_text, plan_of, scenario_document
from mrc_testbed.soak.draw import COLLECTIVE_BYTES, RETRY_LIMIT, SoakFabric, draw_faults, leave_out
from mrc_testbed.soak.invariants import STALL_NS, Failure, Reach
from mrc_testbed.soak.soaking import UNLIMITED, Control, Soak
from mrc_testbed.soak.universe import Judged
from mrc_testbed.soak.violation import Violation, write_failing
from mrc_testbed.topology.forwarding import FIB_STRIDE, fib_entries
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.units import parse_duration_ns
from mrc_testbed.workloads.collective import COLLECTIVE_KINDS

SETTLE_NS: Final = 10_000_000_000
"""After a round, at most: agents that were started again look at their ports, the last frames arrive."""
_LOOK_NS: Final = 250_000_000

FAULTS_MS: Final = 3000
"""From time 0; all faults are within."""
RECOVERY_MS: Final = 5000
"""From the last fault to the end of the job, at least: a step takes a third of a second."""
_TOPOLOGY: Final[Values] = {
    "planes": 2,
    "t0": 2,
    "t1": 4,
    "hosts_per_t0": 2,
    "port_rate": "25Mbit",
    "nic": {"retry_limit": RETRY_LIMIT, "icrc": "on"},
}
LAB: Final = TopologySpec.model_validate(_TOPOLOGY)
FABRIC: Final = SoakFabric(LAB.numbering, has_flow_control=False)

Say = Callable[[str], None]

_log = logging.getLogger(__name__)

_INVARIANTS: Final = {
    "wrong_bytes": "bytes",
    "qp_errors": "qp",
    "operations(job)": "stuck",
    "interruption(job)": "stall",
}
"""Names of the invariants of universes that expectations of rounds stand for, by their first word."""


class _Route(Structure):
    _fields_ = (("value", c_uint32),)


State = dict[str, object]
"""The value of each part, by its name."""


def look(lab: Lab) -> State:
    """The state of a lab between two rounds."""
    return _maps(lab) | _agents(lab)


def left_behind(lab: Lab, before: State, clock: Clock) -> list[str]:
    """One sentence for each part that is not as *before*, once the lab has had time to settle."""
    deadline_ns = clock.now_ns() + SETTLE_NS
    while (found := _left(lab, before)) and clock.now_ns() < deadline_ns and clock.interruption() is None:
        clock.wait_until_ns(clock.now_ns() + _LOOK_NS)
    return found


def _left(lab: Lab, before: State) -> list[str]:
    active = [f"fault {fault_id} is active" for fault_id in Ledger(lab.paths.faults).entries()]
    changed = [
        f"{name} is {now}, it was {before.get(name)}"
        for name, now in look(lab).items()
        if now != before.get(name)
    ]
    return [*active, *status_under_faults(lab.name).problems, *changed]


def _maps(lab: Lab) -> State:
    """Rates, faults and flow control of ports, routes of switches, frames in queues."""
    found: State = {}
    with ExitStack() as opened:
        descriptor = partial(open_map_in, opened, lab.paths.fabric_pins)
        lossless = MappedArray(descriptor("lossless_settings"), LosslessSettings)
        for port in lab.clos.ports():
            found |= _fields(f"port {port.name}", lab.port_table[port.id])
            found[f"health of port {port.name}"] = is_healthy(lab, port.id)
        for port_id, settings in enumerate(lossless):
            found |= _fields(f"flow control of port {port_id}", settings)
        fib = ArrayMap(descriptor("fib"), _Route)
        for node in lab.clos.nodes():
            if node.is_switch:
                keys = [node.id * FIB_STRIDE + entry.key for entry in fib_entries(lab.clos, node)]
                found[f"routes of {node.name}"] = [fib.read(key).value for key in keys]
        if lab.spec.is_shaped:
            found["number of frames in queues"] = ArrayMap(descriptor("queue_pool"), QueuePool).read(0).used
    return found


def _fields(of: str, entry: Structure) -> State:
    """A copy of the fields of an entry of a map."""
    values = {name: getattr(entry, name) for name, *_ in entry._fields_}
    return {
        f"{name} of {of}": value if isinstance(value, int) else bytes(value).hex(":")
        for name, value in values.items()
    }


def _agents(lab: Lab) -> State:
    """Ports, iCRC and denied paths of NICs, and QPs: none is left. An agent that fails has a state too."""
    found: State = {}
    for host in lab.clos.hosts():
        with ExitStack() as opened:
            control = MappedArray(
                open_map_in(opened, lab.paths.node_pins(host.name), "nic_control"), NicControl
            )[0]
            found[f"ports up at {host.name}"] = f"{control.port_up_mask:b}"
            found[f"iCRC of {host.name}"] = IcrcMode(control.icrc_mode).name
            found[f"limit of silence of {host.name}"] = control.heartbeat_limit_ns
            try:
                agent = opened.enter_context(AgentClient(lab.paths.agent_socket(host.name)))
                found[f"denied paths of {host.name}"] = agent.denied_paths()
                found[f"number of QPs at {host.name}"] = len(agent.list_qps())
            except TestbedError as error:
                found[f"agent of {host.name}"] = error.message
    return found


def draw_round(seed: int) -> Values:
    """The Scenario document of that number."""
    draw = random.Random(seed)
    job: Values = {
        "name": "job",
        "kind": "training",
        "hosts": draw.sample(FABRIC.hosts, len(FABRIC.hosts)),
        "collective": draw.choice(COLLECTIVE_KINDS),
        "compute": draw.choice(["10ms", "50ms", "100ms"]),
        "size": f"{draw.choice([*COLLECTIVE_BYTES, 262144])}B",
        "warmup": "500ms",
        "duration": f"{FAULTS_MS + RECOVERY_MS}ms",
    }
    spec: Values = {
        "seed": seed,
        "topology": _TOPOLOGY,
        "transport": {"kind": "mrc"},
        "workloads": [job],
        "faults": [],
    }
    document = scenario_document(f"round-{seed}", spec)
    while not spec["faults"]:
        spec["faults"] = draw_faults(draw, FABRIC, FAULTS_MS, draw.randint(1, 5))
        for fault in spec["faults"]:
            if fault.pop("until", None):
                fault["for"] = f"{FAULTS_MS * 1000 - _us(fault['at'])}us"
        leave_out(document)
    spec["expect"] = _invariants(document)
    return document


def _invariants(document: Values) -> list[str]:
    """A collective that loses an agent ends by right: then memory and lab alone have to be in order."""
    plan, faults = plan_of(document), document["spec"]["faults"]
    reach = Reach(plan)
    if reach.killed:
        return ["wrong_bytes == 0"]
    last = max(faults, key=lambda fault: _us(fault["at"]) + _us(fault["for"]))
    found = ["wrong_bytes == 0", "qp_errors == 0", f"operations(job) after {last['id']} >= 1"]
    if all(reach.leaves_path(flow) for workload in plan.workloads for flow in workload.flows):
        found.append(f"interruption(job) <= {STALL_NS // 10**6}ms")
    return found


def _us(text: str) -> int:
    return parse_duration_ns(text) // 1000


class SoakedLab(Protocol):
    """A lab that is up, for one round after another."""

    def run(self, plan: Plan, source: str, runs: Path) -> FinishedRun:
        """Runs a round, its results below the folder *runs*."""

    def left_behind(self) -> list[str]:
        """One sentence for each part of the lab that is not as before the first round."""


Stage = Callable[[], AbstractContextManager[SoakedLab]]
"""A new lab, for as long as the context lasts."""


@dataclass(slots=True)
class LiveSoak(Soak):
    """The state of a soak of a lab; its universes are rounds."""

    untrusted: int = 0  # rounds in which the machine was late, so that their expectations count for nothing


def soak_lab(
    found: LiveSoak,
    seeds: Iterable[int],
    into: Path,
    stage: Stage,
    control: Control = UNLIMITED,
) -> None:
    """Run the rounds of numbers, and keep those that fail. A lab that is not as before is replaced.

    Args:
        found: the state, which says what was found also after an error.
        into: folder for what fails; made when something does.
        control: of the rounds; once it is stopped, the one under way counts for nothing.
    """
    lab, is_stopped = None, control.is_stopped
    with ExitStack() as labs:
        for seed in seeds:
            if is_stopped() or control.is_over():
                break
            lab = labs.enter_context(stage()) if lab is None else lab
            with TemporaryDirectory(prefix="mrc-testbed-soak-") as scratch:
                done = _carry_out(lab, draw_round(seed), Path(scratch), is_stopped)
                left = [] if is_stopped() else lab.left_behind()
                if is_stopped() or done.status is Status.INTERRUPTED:
                    break
                failures = (*done.failures, *(Failure("fault", text) for text in left))
                if failures:
                    found.failed.append(Judged(seed, failures, 0, 0))
                    found.violations.append(_keep(draw_round(seed), failures, done.folder, into))
            found.universes += 1
            found.untrusted += not done.is_trusted
            control.report()
            if left or done.status is Status.ERROR:
                labs.close()
                lab = None


@dataclass(frozen=True, slots=True)
class _Done:
    """A round that was carried out: results, and invariants that do not hold."""

    folder: Path
    status: Status
    is_trusted: bool
    failures: tuple[Failure, ...]


def _carry_out(lab: SoakedLab, document: Values, runs: Path, is_stopped: Callable[[], bool]) -> _Done:
    """Run a round; an exception is a failure of its own kind, once there are results."""
    plan = plan_of(document)
    try:
        finished = lab.run(plan, as_text(document), runs)
    except Exception as error:
        results = latest_of(runs / plan.scenario)
        if is_stopped() or not results.is_dir():
            raise
        _log.exception("%s", plan.scenario)
        return _Done(results, Status.ERROR, True, (Failure(type(error).__name__, str(error)),))
    verdict = finished.result.verdict
    return _Done(finished.folder, verdict.status, verdict.is_trusted, tuple(_unmet(plan, verdict)))


def _unmet(plan: Plan, verdict: Verdict) -> Iterator[Failure]:
    """Expectations that do not hold, in a run that is to be believed."""
    if not verdict.is_trusted:
        return
    if verdict.status is Status.ERROR:
        yield Failure("ending", verdict.reason)
    is_killing = bool(Reach(plan).killed)  # then the collective fails as a whole
    for outcome in verdict.outcomes:
        if outcome.answer == "failed" and (outcome.is_written or not is_killing):
            yield Failure(_INVARIANTS.get(outcome.text.split()[0], "qp"), f"{outcome.text}: {outcome.reason}")


def _keep(document: Values, failures: tuple[Failure, ...], results: Path, into: Path) -> Violation:
    """The violation of a round: its scenario file with what was found, its results in a bundle."""
    seed = document["spec"]["seed"]
    path = into / f"{failures[0].invariant}-{document['metadata']['name']}.yaml"
    write_failing(path, document, failures)
    return Violation(seed, failures, path, write_bundle(results, path.with_name(f"{path.stem}{SUFFIX}")))


def live_stage(name: str, runtime: str | None, clock: Clock, progress: Say) -> Stage:
    """Labs of this machine.

    Args:
        runtime: of its nodes; None: as `up` chooses.
    """

    @contextmanager
    def stage() -> Iterator[SoakedLab]:
        with lab_for_run(LAB, name=name, runtime=runtime, progress=progress) as lab:
            before = look(lab)

            class _Lab:
                def run(self, plan: Plan, source: str, runs: Path) -> FinishedRun:
                    with live_world(lab, plan, clock) as world:
                        finished = execute(plan, source, world, LiveLab(lab), runs, progress)
                    verdict = finished.result.verdict
                    progress(f"{plan.scenario}: {verdict.status.value}: {verdict.reason}")
                    return finished

                def left_behind(self) -> list[str]:
                    return left_behind(lab, before, clock)

            yield _Lab()

    return stage
