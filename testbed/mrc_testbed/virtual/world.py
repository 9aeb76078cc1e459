"""A run in virtual time: what runner and faults work on, what results say of the lab, and the run itself."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from mrc_agents.abi import VirtualPayload
from mrc_agents.bpf.virtual import VirtualRuntime
from mrc_agents.clock import monotonic_ns
from mrc_testbed.errors import FaultError
from mrc_testbed.fabric.link_probes import LinkProbeCounts
from mrc_testbed.fabric.nic_data_plane import expect_heartbeat
from mrc_testbed.fabric.process import ProcessIdentity, own_identity
from mrc_testbed.fabric.ranks import Write
from mrc_testbed.faults.controller import FaultController
from mrc_testbed.faults.effects import HostRequests, IcrcChecked
from mrc_testbed.faults.fault import FaultEvent, ScheduledFault
from mrc_testbed.faults.ledger import Entry
from mrc_testbed.faults.map_target import MapTarget, deny_paths
from mrc_testbed.faults.traffic import RawLoad, frame_of
from mrc_testbed.metrics.cpu_use import CpuReading
from mrc_testbed.metrics.reader import LabReader
from mrc_testbed.metrics.take_reading import take_reading
from mrc_testbed.probing.avoidance import paths_around
from mrc_testbed.scenario.execution import FinishedRun, execute
from mrc_testbed.scenario.measure.recovery import Recovery
from mrc_testbed.scenario.run.live import LiveSampler, RunFaults
from mrc_testbed.scenario.run.nic_listeners import NicListeners
from mrc_testbed.scenario.run.protocols import Clock
from mrc_testbed.scenario.run.runner import World
from mrc_testbed.scenario.run.signal_clock import catching_signals
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.virtual.connection import VirtualConnection
from mrc_testbed.virtual.engine import VirtualEngine, virtual_transport
from mrc_testbed.virtual.lab import VirtualLab, virtual_lab
from mrc_testbed.virtual.limits import check_programs

_NS_PER_S: Final = 10**9


class VirtualTarget(MapTarget):
    """The lab that faults change in virtual time, all of it at once."""

    def __init__(self, lab: VirtualLab) -> None:
        super().__init__(lab, lab.clos)
        self._lab = lab
        self._loads: dict[str, list[_Load]] = {}

    def set_carrier(self, port_id: int, *, is_up: bool) -> None:
        """Brings the port's interface up or down; its agent, and that of the peer, are notified."""
        self._lab.runtime.set_carrier(port_id, is_up=is_up)
        for end_id in (port_id, self.clos.port(port_id).peer_id):
            self._lab.carriers[end_id] = is_up
            node = self.clos.port(end_id).node
            if not node.is_switch:
                self._lab.agent(node.name).on_carrier(end_id, is_up=is_up)

    def set_running(self, host: str, *, is_running: bool) -> None:
        """Lets the agent of a host run, or stand still; its NIC goes on."""
        agent = self._lab.agent(host)
        if not is_running:
            agent.freeze()
        expect_heartbeat(self._lab, host, is_expected=is_running)
        if is_running:
            agent.thaw()

    def kill_agent(self, host: str) -> None:
        """Kills the NIC agent of a host, if it runs; its QPs are gone."""
        self._lab.agent(host).kill()

    def ask_hosts(self, requests: HostRequests) -> dict[str, str]:
        """Hosts that could not be reached, with the reason; all others have done what was asked for."""
        denied = paths_around(self.clos, requests.drained)
        allowed = paths_around(self.clos, requests.freed)
        reasons = {}
        for host in self.clos.hosts():
            paths, freed = denied.get(host.index, ()), allowed.get(host.index, ())
            if host.name in requests.absent and (paths or freed or host.name in requests.revived):
                reasons[host.name] = f"{host.name} stands still"
                continue
            if host.name in requests.revived:
                self._lab.agent(host.name).start()
            if paths or freed:
                with closing(VirtualConnection(self._lab, host.name)) as agent:
                    deny_paths(agent, paths, freed)
        return reasons

    def start_load(self, fault: ScheduledFault) -> None:
        """Lets the background traffic of a fault flow."""
        if fault.fault_id in self._loads:
            raise FaultError(f"background traffic of {fault.fault_id!r} flows already")
        loads = [_Load(self._lab, load, frame_of(self.clos, load)) for load in fault.loads]
        self._loads[fault.fault_id] = loads
        for load in loads:
            self._lab.set_alarm(load, load.on_time())

    def stop_load(self, fault_id: str) -> dict[int, int]:
        """Frames sent by port id, now that the background traffic of a fault flows no more."""
        loads = self._loads.pop(fault_id, [])
        for load in loads:
            self._lab.set_alarm(load, None)
        return {load.port_id: load.sent for load in loads}


class _Load:
    """The frames of one load, one after the other at its rate."""

    def __init__(self, lab: VirtualLab, load: RawLoad, frame: bytes) -> None:
        self._lab = lab
        self._frame = frame
        self._begun_ns = monotonic_ns()
        self._rate_bps = load.rate_bps
        self.port_id = load.port_id
        self.sent = 0

    def on_time(self) -> int | None:
        """Sends the frame that is due; when the next is."""
        self._lab.runtime.load(self.port_id, self._frame)
        self.sent += 1
        return self._begun_ns + self.sent * len(self._frame) * 8 * _NS_PER_S // self._rate_bps


RUNTIME: Final = "virtual"


class MemoryLedger:
    """The interface of a Ledger for an injector."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def worker(self) -> ProcessIdentity:
        """The calling process; nobody asks."""
        return own_identity()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Do nothing: there is no other process."""
        yield

    def entries(self) -> dict[str, Entry]:
        return dict(self._entries)

    def write(self, entry: Entry) -> None:
        """Stores *entry*, in place of an older one with the same fault id."""
        self._entries[entry.fault.fault_id] = entry

    def remove(self, fault_id: str) -> None:
        self._entries.pop(fault_id, None)

    def record(self, event: dict[str, Any]) -> None:
        """A run's own record has the event."""

    def wait_while_changed(self, fault_id: str, deadline_ns: int) -> None:
        """Do nothing: no other process changes an entry."""


class VirtualLabView:
    """The lab as the results describe it, in virtual time; nobody else can look at it."""

    name = RUNTIME
    runtime = RUNTIME

    def announced(self, plan: Plan, folder: Path) -> AbstractContextManager[None]:
        """Do nothing: nobody is notified."""
        del plan, folder
        return nullcontext()

    def show_recovery(self, recoveries: Sequence[Recovery]) -> None:
        """Do nothing: there is no exporter."""


SayTime = Callable[[int, int | None], object]
"""Called with the time that a run has simulated and, if that is known, the time it takes, in ns."""


class VirtualClock:
    """The lab's time; waiting lets it pass. The first date and interruptions are the machine's.

    Args:
        machine: source of the date and of interruptions.
        length_ns: how long the run takes; None: as long as its iterations take.
    """

    def __init__(self, lab: VirtualLab, machine: Clock, length_ns: int | None, say_time: SayTime) -> None:
        self._lab = lab
        self._machine = machine
        self._began = machine.utc_now()
        self._length_ns = length_ns
        self._say_time = say_time
        self._start_ns: int | None = None

    def now_ns(self) -> int:
        return self._lab.runtime.now_ns()

    def utc_now(self) -> datetime:
        """The date at which the lab was made, and its time since."""
        return self._began + timedelta(microseconds=self.now_ns() // 1000)

    def wait_until_ns(self, deadline_ns: int) -> None:
        """Lets time pass up to *deadline_ns*, or until a signal came."""
        if self._start_ns is None:
            self._start_ns = self.now_ns()
        start_ns = self._start_ns

        def say() -> bool:
            self._say_time(self.now_ns() - start_ns, self._length_ns)
            return False

        self._lab.run_until(deadline_ns, say)

    def fileno(self) -> int:
        """Readable once a signal came."""
        return self._machine.fileno()

    def interruption(self) -> str | None:
        """Name of the signal that came; None while none did."""
        return self._machine.interruption()


class VirtualFaults(FaultController):
    """The faults of one run; they end with it."""

    _target: VirtualTarget

    def __init__(self, lab: VirtualLab) -> None:
        super().__init__(MemoryLedger(), VirtualTarget(lab), clock_ns=lab.runtime.now_ns)

    def clear(self, fault_id: str, *, wait_ns: int = 0) -> FaultEvent:
        """Clear a fault, and others that waited for a host which is back now."""
        event = super().clear(fault_id, wait_ns=wait_ns)
        self.clear_stale()
        return event

    def close(self) -> None:
        self._target.close()


@contextmanager
def virtual_world(
    plan: Plan,
    machine: Clock,
    runtime: VirtualRuntime | None = None,
    *,
    say_time: SayTime = lambda *_: None,
    show: Write = lambda *_: None,
) -> Iterator[World]:
    """The world of a run, in a lab in virtual time that lasts as long as the context."""
    with planned_lab(plan, machine, runtime) as lab, world_in(lab, plan, machine, say_time, show) as world:
        yield world


def planned_lab(
    plan: Plan, machine: Clock, runtime: VirtualRuntime | None = None, *, shuffles_ties: bool = False
) -> AbstractContextManager[VirtualLab]:
    """A lab as a plan wants it."""
    check_programs(plan)
    return virtual_lab(
        resolve_topology(plan.topology),
        seed=plan.seed,
        payload=payload_of(plan),
        shuffles_ties=shuffles_ties,
        runtime=runtime,
        is_interrupted=lambda: machine.interruption() is not None,
    )


@contextmanager
def world_in(
    lab: VirtualLab,
    plan: Plan,
    machine: Clock,
    say_time: SayTime = lambda *_: None,
    show: Write = lambda *_: None,
) -> Iterator[World]:
    """The world of a run of a plan, in its lab."""
    clos = lab.clos
    with ExitStack() as stack:
        reader = LabReader(RUNTIME, clos, lab.fabric_pins, lab.fabric_pins)
        stack.callback(reader.close)
        nics = stack.enter_context(closing(NicListeners(clos, partial(VirtualConnection, lab))))
        faults = stack.enter_context(closing(VirtualFaults(lab)))
        transport = virtual_transport(lab, plan.transport)
        engine = VirtualEngine(lab, transport, None, nics.is_killed, machine=machine, show=show)
        stack.callback(engine.close)
        probes = None
        if plan.topology.probing is not None:
            probes = stack.enter_context(LinkProbeCounts(lab, clos))
        take = partial(take_reading, reader, lambda time_ns: CpuReading(time_ns, ()))
        sampler = LiveSampler(take, clos, nics, probes, lambda: 0)
        yield World(
            VirtualClock(
                lab, machine, None if plan.end_ns is None else plan.end_ns - plan.start_ns, say_time
            ),
            RunFaults(faults, nics),
            engine,
            sampler,
            is_simulated=True,
            early_frames=lambda: lab.runtime.totals().early_frames,
        )


def payload_of(plan: Plan) -> VirtualPayload:
    """By reference, unless a link damages packets or NICs compute a checksum of them."""
    corrupts = any(isinstance(effect, IcrcChecked) for fault in plan.faults for effect in fault.effects)
    if corrupts or plan.topology.nic.icrc == "on":
        return VirtualPayload.COPY
    return VirtualPayload.REFERENCE


def run_virtually(
    plan: Plan,
    source: str | None,
    runs: Path,
    *,
    force: Callable[[], object] | None = None,
    progress: Callable[[str], None] = lambda _: None,
    say_time: SayTime = lambda *_: None,
) -> FinishedRun:
    """The finished run of *plan*, in a lab that exists for it alone; see `execute`.

    Args:
        source: text of the scenario file, kept with the results.
        force: called at the second signal.
        say_time: called again and again while time passes.
    """
    with ExitStack() as stack:
        machine = stack.enter_context(catching_signals(force))
        world = stack.enter_context(virtual_world(plan, machine, say_time=say_time))
        return execute(plan, source, world, VirtualLabView(), runs, progress)
