"""The one clock of all Python code."""

import time

import pytest

from mrc_agents import clock


def test_it_is_that_of_the_machine_unless_simulated() -> None:
    before = time.monotonic_ns()
    assert before <= clock.monotonic_ns() <= time.monotonic_ns()


def fail_at_17() -> None:
    with clock.simulated(lambda: 17):
        raise LookupError(clock.monotonic_ns())


def test_a_simulation_sets_it_until_it_ends_however_it_ends() -> None:
    with pytest.raises(LookupError, match="17"):
        fail_at_17()
    before = time.monotonic_ns()
    assert before <= clock.monotonic_ns()


def test_simulations_nest() -> None:
    with clock.simulated(lambda: 1):
        with clock.simulated(lambda: 2):
            assert clock.monotonic_ns() == 2
        assert clock.monotonic_ns() == 1


def test_a_pause_of_the_machine_counts_as_one_step_of_a_timeout() -> None:
    now_ns = 0
    with clock.simulated(lambda: now_ns):
        timeout = clock.Timeout(2_500_000_000)
        now_ns += 60_000_000_000  # before the wait
        assert timeout.next_step_ns() == 1_000_000_000
        now_ns += 400_000_000  # something came
        assert timeout.next_step_ns() == 1_000_000_000
        now_ns += 60_000_000_000
        assert timeout.next_step_ns() == 1_000_000_000
        now_ns += 1_000_000_000
        assert timeout.next_step_ns() == 100_000_000
        now_ns += 100_000_000
        assert timeout.next_step_ns() == 0
