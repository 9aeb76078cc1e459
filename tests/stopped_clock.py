"""The machine's clock for runs in virtual time whose dates are always the same."""

from datetime import UTC, datetime


class StoppedClock:
    """No date, no signal; nobody interrupts."""

    def now_ns(self) -> int:
        return 0

    def utc_now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def wait_until_ns(self, deadline_ns: int) -> None:
        raise NotImplementedError

    def fileno(self) -> int:
        return -1

    def interruption(self) -> str | None:
        return None
