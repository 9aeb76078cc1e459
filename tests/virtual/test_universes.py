"""Small random universes with fixed numbers; `python -m tests.universes --seeds N` makes more."""

import pytest

from tests.universes.universe import run_universe


@pytest.mark.parametrize("seed", range(1, 31))
def test_every_message_arrives_and_nothing_is_left(seed: int) -> None:
    assert run_universe(seed).failures == ()


def test_a_universe_repeats() -> None:
    assert run_universe(3) == run_universe(3)
