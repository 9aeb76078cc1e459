"""Processes of a program's ranks in virtual time, and how it is known that none of them computes.

A rank computes in no virtual time but what it declares, and reports when it waits (rank_channel.py). One that
waits in the machine for what others do is known by its processes: they rest. Output and reports are passed on
when no rank runs, rank by rank: in which order the machine ran them does not show.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from selectors import EVENT_READ
from typing import Final

from mrc_agents.clock import machine_ns
from mrc_testbed.fabric.ranks import Rank, Report, RunningRanks, Write
from mrc_testbed.scenario.run.protocols import Clock
from mrc_testbed.virtual.rank_channel import (
    CHANNEL_VARIABLE,
    ChannelError,
    GoOn,
    Outside,
    RankChannel,
    Received,
    Shared,
    Sleep,
    Start,
    Took,
    Wait,
    Where,
)

_PROC: Final = Path("/proc")
_STATE, _PARENT, _SESSION, _USER, _CHILDREN_SYSTEM = 0, 1, 3, 11, 14
"""Fields of proc_pid_stat(5), counted from behind the command."""

_TICK_NS: Final = 10**9 // os.sysconf("SC_CLK_TCK")
_IDLE_SHARE: Final = 0.01
"""Share of a core: a thread that looks around now and then does nothing."""


@dataclass(slots=True)
class _Activity:
    """Work of the processes of one leader, as of a look."""

    used_ns: int = 0  # CPU time, with that of children that have ended
    turns: list[str] = field(default_factory=list)  # of each thread: for how long it ran, and how often
    is_busy: bool = False  # a thread is running, or waits for a disk


class Stillness:
    """Watches processes, and their children; it knows what they did until the last look.

    Args:
        leaders: pids of the processes, each the leader of a session.
    """

    def __init__(self, leaders: Collection[int]) -> None:
        self._leaders = leaders
        self._since: dict[int, tuple[int, int]] = {}  # when they did something last, and CPU time until then
        self._last: dict[int, _Activity] = {}
        self._resting: set[int] = set()
        self._looked_ns = 0

    def look(self) -> None:
        """Note what they have done since the last look."""
        before, self._last = self._last, self._activities()
        self._looked_ns = machine_ns()
        self._resting.clear()
        for leader, now in self._last.items():
            since_ns, used_ns = self._since.get(leader, (self._looked_ns, 0))
            idle_ns = _IDLE_SHARE * (self._looked_ns - since_ns) + _TICK_NS
            if leader not in before or now.is_busy or now.used_ns - used_ns > idle_ns:
                self._since[leader] = self._looked_ns, now.used_ns
            elif now == before[leader]:
                self._resting.add(leader)

    def still_ns(self, leader: int) -> int:
        """Time for which processes had done nothing at the last look; 0: they have ended."""
        return self._looked_ns - self._since[leader][0] if leader in self._last else 0

    def is_resting(self, leader: int) -> bool:
        """Return True if no thread ran between the last two looks."""
        return leader in self._resting

    def _activities(self) -> dict[int, _Activity]:
        processes = {int(fields[-1]): fields for fields in _stats(_PROC)}
        found: dict[int, _Activity] = {}
        for pid, fields in processes.items():
            leader = self._leader(fields, processes)
            if leader is None:
                continue
            activity = found.setdefault(leader, _Activity())
            activity.used_ns += sum(map(int, fields[_USER : _CHILDREN_SYSTEM + 1])) * _TICK_NS
            for thread in _stats(_PROC / str(pid) / "task"):
                activity.is_busy |= thread[_STATE] in {"R", "D"}
                activity.turns.append(_text(_PROC / thread[-1] / "schedstat") or "")
        return found

    def _leader(self, fields: list[str], processes: dict[int, list[str]]) -> int | None:
        """The leader of a process: of its session, or of the process that started it."""
        if (session := int(fields[_SESSION])) in self._leaders:
            return session
        parent = processes.get(int(fields[_PARENT]))
        return None if parent is None else self._leader(parent, processes)


def _stats(folder: Path) -> Iterator[list[str]]:
    """Fields of all processes or threads in a folder of proc(5), with the number behind them."""
    try:
        numbers = [path.name for path in folder.iterdir() if path.name.isdecimal()]
    except OSError:  # it has ended
        return
    for number in numbers:
        if text := _text(folder / number / "stat"):
            yield [*text.rpartition(") ")[2].split(), number]


def _text(path: Path) -> str | None:
    """None: whose file it is has ended."""
    try:
        return path.read_text()
    except OSError:
        return None


LEAVE_NS: Final = 3_000_000_000
"""Time of this machine for ranks to end by themselves, once their operations have failed."""

REST_NS: Final = 5_000_000
"""Between two looks at a rank that has said that it waits in the machine."""

LOOK_NS: Final = 500_000_000
DOZE_NS: Final = 1_000_000_000
"""Time of this machine without computing, after which a rank is taken to wait in the machine."""

STILL_NS: Final = 10_000_000_000
"""Time of this machine without a word and without computing, after which it is said where ranks wait."""
GIVE_UP_NS: Final = STILL_NS + 60_000_000_000
_ANSWER_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Post:
    """An operation that a rank starts, and its memory."""

    rank: int
    start: Start
    shared: Shared | None

    @property
    def at_ns(self) -> int:
        return self.start.at_ns


@dataclass(frozen=True, slots=True)
class Alarm:
    """The end of a rank's sleep."""

    rank: int
    at_ns: int


@dataclass(slots=True, eq=False)
class _State:
    """A rank as the simulation knows it."""

    rank: Rank
    channel: RankChannel
    pid: int = 0
    under_way: dict[int, Post] = field(default_factory=dict)  # its operations that have not ended, by id
    # its program (None) and ends that it has not taken, where they wait: for which operations
    waits: dict[int | None, frozenset[int]] = field(default_factory=dict)
    # those whose end was reported to it, and that it has not taken
    ended: set[int] = field(default_factory=set)
    is_outside: bool = False  # its program waits in the machine, as it has said
    is_dozing: bool = False  # it does, as its processes show
    has_ended: bool = False
    place: str | None = None  # of its program, as it has reported

    @property
    def is_running(self) -> bool:
        return not self.has_ended and not self.waits.keys() >= {None, *self.ended}

    @property
    def should_rest(self) -> bool:
        """Return True if its program is likely to wait: it says so, or another thread of it does."""
        return self.is_outside or any(thread is not None and thread < 0 for thread in self.waits)


@dataclass(slots=True)
class _Meeting:
    """An operation, and the ranks that it takes."""

    needed: set[int] = field(default_factory=set)
    started: set[int] = field(default_factory=set)
    ended: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Silence:
    """Ranks run, and none of them says a word."""

    since_ns: int = field(default_factory=machine_ns)
    is_said: bool = False


class RankProcesses:
    """The processes of a program.

    Args:
        quiet_ns: time of this machine after which a rank that reports nothing is given up.
    """

    def __init__(self, machine: Clock, write: Write, report: Report, quiet_ns: int) -> None:
        self._machine = machine
        self._tell = write
        self._quiet_ns = quiet_ns
        self._states: list[_State] = []
        self._said: list[list[Callable[[], None]]] = []
        self._posts: list[Post | Alarm] = []
        self._alarms = 0  # of ranks that sleep
        self._meetings: defaultdict[tuple[int, int], _Meeting] = defaultdict(_Meeting)
        self._stillness = Stillness([])
        self._channels = ExitStack()
        self._held = ExitStack()
        self._held.push(self._channels)
        self._processes = self._held.enter_context(
            RunningRanks(
                lambda rank, is_error, line: self._keep(rank, partial(write, rank, is_error, line)),
                lambda rank, line: self._keep(rank, partial(report, rank, line)),
            )
        )
        self.error: str | None = None  # why they cannot go on; None: they can

    def start(self, ranks: Sequence[Rank]) -> None:
        """Start them; each inherits its channel."""
        for rank in ranks:
            channel = RankChannel()
            self._channels.callback(channel.close)
            number = channel.near.fileno()
            inherits = replace(
                rank,
                environment={**rank.environment, CHANNEL_VARIABLE: str(number)},
                descriptors=(number,),
            )
            state = _State(rank, channel)
            self._states.append(state)
            self._said.append([])
            self._processes.start([inherits])
            state.pid = self._processes.pids[-1]
            channel.near.close()
            self._processes.selector.register(channel, EVENT_READ, partial(self._listen, state))
        self._stillness = Stillness(self._processes.pids)
        if self._machine.fileno() >= 0:
            self._processes.selector.register(self._machine.fileno(), EVENT_READ, _look_again)
            self._held.callback(self._processes.selector.unregister, self._machine.fileno())

    @property
    def is_over(self) -> bool:
        return all(state.has_ended for state in self._states)

    @property
    def status(self) -> int | None:
        """Exit status of the rank that failed first; 0: all have ended well; None: neither."""
        if self._processes.failure is not None:
            return self._processes.failure.status
        return 0 if self.is_over else None

    @property
    def is_interrupted(self) -> bool:
        return self._machine.interruption() is not None

    @property
    def _may_doze(self) -> bool:
        """Return True if an operation can end, or a rank wake, without those that have not started it."""
        posts = (post.start for state in self._states for post in state.under_way.values())
        return bool(self._alarms) or any(
            start.needed <= self._meetings[start.group, start.number].started for start in posts
        )

    def settle(self) -> bool:
        """Wait until no rank runs; False: there was an interruption, or `error` says why there is no end."""
        if any(state.is_dozing for state in self._states) and not self._may_doze:
            self._awake()
        silence: _Silence | None = None
        while self.error is None:
            running = [state for state in self._states if state.is_running and not state.is_dozing]
            if not running:
                self._drain()  # a rank may say something only now
                if not any(state.is_running and not state.is_dozing for state in self._states):
                    break
                continue
            if self.is_interrupted:
                return False
            should_rest = all(state.should_rest for state in running) and self._may_doze
            look_ns = REST_NS if should_rest else LOOK_NS
            if self._processes.serve(look_ns / 1e9):
                silence = None
            else:
                self._stillness.look()
                if silence is None:
                    silence = _Silence()
                elif all(self._is_asleep(state) for state in running) and self._may_doze:
                    for state in running:
                        state.is_dozing = True
                else:
                    self._judge(silence)
            self._note_ends()
        self._pass_on()
        return self.error is None

    def _is_asleep(self, state: _State) -> bool:
        if state.should_rest:
            return self._stillness.is_resting(state.pid)
        return self._stillness.still_ns(state.pid) >= DOZE_NS

    def _judge(self, silence: _Silence) -> None:
        """Say where ranks wait if none of them computes, and give up if that lasts."""
        quiet_ns = machine_ns() - silence.since_ns
        still_ns = min(self._stillness.still_ns(state.pid) for state in self._states if not state.has_ended)
        running = next(state for state in self._states if state.is_running)
        if quiet_ns >= self._quiet_ns:
            self._fail(
                f"rank {running.rank.number} reported nothing for {quiet_ns / 1e9:.0f} s: {self._places()}"
            )
        elif still_ns < STILL_NS or not any(state.under_way for state in self._states):
            silence.is_said = False
        elif still_ns >= GIVE_UP_NS or not silence.is_said:
            silence.is_said = True
            text = (
                f"no rank has computed for {still_ns / 1e9:.0f} s, and not all of them wait for operations: "
                f"{self._places()}"
            )
            if still_ns >= GIVE_UP_NS:
                self._fail(text)
            else:
                self._tell(running.rank, True, text.encode())

    def _places(self) -> str:
        """Where each rank is that has not ended: its operation, or the line of its program."""
        asked = [state for state in self._states if state.is_running]
        for state in asked:
            state.place = None
            state.channel.send()
        deadline_ns = machine_ns() + _ANSWER_NS
        while any(state.place is None for state in asked) and (left_ns := deadline_ns - machine_ns()) > 0:
            self._processes.serve(left_ns / 1e9)
        waiting = self.waiting()
        texts = {
            state: state.place or "unknown" if state in asked else _names(waiting[state.rank.number])
            for state in self._states
            if not state.has_ended
        }
        return "; ".join(
            f"rank {state.rank.number} ({state.rank.host}) {text}" for state, text in texts.items()
        )

    def take_posts(self) -> list[Post | Alarm]:
        """Operations that ranks have started since the last call, and ends of sleeps."""
        posts, self._posts = self._posts, []
        return posts

    def report_ended(self, rank: int, number: int, at_ns: int, error: str | None) -> None:
        """Report to a rank that an operation has ended, and forget its memory."""
        state = self._states[rank]
        post = state.under_way.pop(number)
        if post.shared is not None:
            post.shared.close()
        state.ended.add(number)
        key = post.start.group, post.start.number
        self._meetings[key].ended.add(rank)
        if self._meetings[key].ended >= self._meetings[key].needed:
            del self._meetings[key]
        self._awake()
        state.channel.send(id=number, at_ns=at_ns, error=error)

    def wake(self, rank: int, now_ns: int) -> None:
        """Let a rank that sleeps go on."""
        self._states[rank].waits.pop(None, None)  # a signal may have ended its sleep
        self._alarms -= 1
        self._awake()
        self._states[rank].channel.send(now_ns=now_ns)

    def _awake(self) -> None:
        """Look at all ranks again: one that goes on may end what another waits for in the machine."""
        for state in self._states:
            state.is_dozing = False

    def waiting(self) -> Mapping[int, Sequence[Start]]:
        """The operations that each rank which has not ended waits for."""
        return {
            state.rank.number: [
                state.under_way[number].start
                for number in sorted(frozenset().union(*state.waits.values()) & state.under_way.keys())
            ]
            for state in self._states
            if not state.has_ended
        }

    def let_end(self) -> None:
        """Give ranks LEAVE_NS to end by themselves: their operations have failed."""
        deadline_ns = machine_ns() + LEAVE_NS
        while not all(self._processes.has_ended(state.rank.number) for state in self._states):
            left_ns = deadline_ns - machine_ns()
            if left_ns <= 0 or self.is_interrupted:
                break
            self._processes.serve(left_ns / 1e9)

    def close(self) -> None:
        """End what still runs, and pass on what it has written."""
        self._held.close()  # ranks end before their channels do
        self._pass_on()
        for state in self._states:
            for post in state.under_way.values():
                if post.shared is not None:
                    post.shared.close()
            state.under_way.clear()

    def _listen(self, state: _State) -> None:
        try:
            for received in state.channel.receive():
                self._take(state, received)
        except ChannelError as error:
            self._fail(f"rank {state.rank.number} is of another version of mrc-torch: {error}")
        if state.channel.is_closed and state.channel.fileno() in self._processes.selector.get_map():
            self._processes.selector.unregister(state.channel)

    def _take(self, state: _State, received: Received) -> None:
        if not isinstance(received.message, Where):
            state.is_dozing = False
        match received.message:
            case Start() as start:
                post = Post(state.rank.number, start, received.shared)
                state.under_way[start.id] = post
                meeting = self._meetings[start.group, start.number]
                meeting.started.add(state.rank.number)
                meeting.needed |= start.needed | meeting.started
                self._posts.append(post)
            case Wait(in_=thread, ids=ids):
                state.waits[thread] = frozenset(ids)
            case GoOn(in_=thread):
                state.waits.pop(thread, None)
            case Took(id=number):
                state.ended.discard(number)
            case Outside():
                state.is_outside = True
            case Sleep(until_ns=until_ns):
                state.is_outside = False
                state.waits[None] = frozenset()
                self._alarms += 1
                self._posts.append(Alarm(state.rank.number, until_ns))
            case Where(place=place):
                state.place = place

    def _note_ends(self) -> None:
        for state in self._states:
            if not state.has_ended and self._processes.has_ended(state.rank.number):
                self._listen(state)  # what it sent before
                state.has_ended = True
        if self._processes.failure is not None:
            self._fail(str(self._processes.failure))

    def _fail(self, why: str) -> None:
        self.error = self.error or why

    def _keep(self, rank: Rank, pass_on: Callable[[], None]) -> None:
        self._said[rank.number].append(pass_on)

    def _drain(self) -> None:
        """Read all that was written before the ranks came to rest."""
        while self._processes.serve(0):
            if self.is_interrupted:
                break
        self._note_ends()

    def _pass_on(self) -> None:
        for said in self._said:
            for each in said:
                each()
            said.clear()


def _names(starts: Sequence[Start]) -> str:
    return f"in {', '.join(dict.fromkeys(start.operation for start in starts))}"


def _look_again() -> None:
    """Do nothing: who waits sees the interruption."""
