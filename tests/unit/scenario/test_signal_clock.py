import signal
import threading
import time

import pytest

from mrc_testbed import signals
from mrc_testbed.scenario.run.signal_clock import catching_signals

FAR_NS = 3600 * 10**9


def signal_main_thread(number: int) -> None:
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, number)


def test_a_signal_ends_the_wait() -> None:
    with catching_signals() as clock:
        sender = threading.Timer(0.05, signal_main_thread, [signal.SIGTERM])
        sender.start()
        begun_ns = clock.now_ns()
        clock.wait_until_ns(begun_ns + FAR_NS)
        sender.join()
        assert clock.now_ns() - begun_ns < FAR_NS
        assert clock.interruption() == "SIGTERM"


def test_a_signal_that_does_not_reach_the_sleeping_call_ends_the_wait() -> None:
    """As one that comes just before select(2) sleeps."""
    with catching_signals() as clock:
        sender = threading.Timer(0.05, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM))
        sender.start()
        clock.wait_until_ns(clock.now_ns() + FAR_NS)
        sender.join()
        assert clock.interruption() == "SIGTERM"


def test_once_interrupted_nothing_waits_any_more() -> None:
    with catching_signals() as clock:
        signal.raise_signal(signal.SIGINT)
        clock.wait_until_ns(clock.now_ns() + FAR_NS)
        assert clock.interruption() == "SIGINT"


def test_the_deadline_ends_the_wait() -> None:
    with catching_signals() as clock:
        deadline_ns = clock.now_ns() + 20_000_000
        clock.wait_until_ns(deadline_ns)
        assert time.monotonic_ns() >= deadline_ns
        assert clock.interruption() is None


def test_a_deadline_in_the_past_returns_at_once() -> None:
    with catching_signals() as clock:
        clock.wait_until_ns(clock.now_ns() - 1)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second signal counts however soon it comes."""
    monkeypatch.setattr(signals, "FORCE_AFTER_NS", 0)


def test_a_second_signal_at_once_is_the_same_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """As timeout(1) sends it: to its child, and to the group of both."""
    monkeypatch.setattr(signals, "FORCE_AFTER_NS", FAR_NS)
    forced: list[str] = []
    with catching_signals(lambda: forced.append("now")) as clock:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert (clock.interruption(), forced) == ("SIGTERM", [])


@pytest.mark.usefixtures("at_once")
def test_the_second_signal_goes_to_the_handler_of_before() -> None:
    with catching_signals() as clock:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert clock.interruption() == "SIGINT"


@pytest.mark.usefixtures("at_once")
def test_only_the_second_signal_forces() -> None:
    forced = []
    with catching_signals(lambda: forced.append("now")) as clock:
        signal.raise_signal(signal.SIGINT)
        assert (clock.interruption(), forced) == ("SIGINT", [])
        signal.raise_signal(signal.SIGTERM)
        assert (clock.interruption(), forced) == ("SIGINT", ["now"])


def test_handlers_are_given_back() -> None:
    caught = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in caught]
    with catching_signals():
        assert not set(before) & {signal.getsignal(number) for number in caught}
    assert [signal.getsignal(number) for number in caught] == before
