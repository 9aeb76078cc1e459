"""Rest for what was given back to the NIC, until no CPU can still be using it."""

from collections.abc import Callable

Release = Callable[[], None]


class Grace:
    """The things that rest: who was running when one was given back may still be placing a packet there.

    Args:
        await_runs: returns once the runs of the NIC's programs that had begun have ended.
    """

    def __init__(self, await_runs: Callable[[], None]) -> None:
        # calls its first argument somewhere else and, once that has returned, its second one here; without it
        # each request waits for what rests, in case it is given just that
        self.in_background: Callable[[Callable[[], None], Callable[[], None]], None] | None = None
        self._await_runs = await_runs
        self._resting: list[Release] = []
        self._awaited: list[Release] = []

    def rest(self, release: Release) -> None:
        """Has *release* called when the thing may be used again."""
        self._resting.append(release)
        self._begin()

    def _begin(self) -> None:
        if self.in_background is None or self._awaited or not self._resting:
            return
        awaited = self._awaited = self._resting
        self._resting = []

        def end() -> None:
            _release(awaited)
            self._begin()

        self.in_background(self._await_runs, end)

    def look(self) -> None:
        """Before something is given out: what rests may be that, unless it is taken care of elsewhere."""
        if self.in_background is None:
            self.settle()

    def settle(self) -> bool:
        """Waits for all that rests; whether there was something."""
        if not (self._awaited or self._resting):
            return False
        self._await_runs()
        _release(self._awaited)
        _release(self._resting)
        return True


def _release(things: list[Release]) -> None:
    for release in things:
        release()
    things.clear()
