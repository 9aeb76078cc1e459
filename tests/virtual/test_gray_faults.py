"""Gray faults of every kind are named from link probes, in virtual time; quiet labs have nothing named."""

import pytest

from benchmarks.gray_faults import KINDS, draw, virtual_parts


@pytest.mark.parametrize("seed", range(len(KINDS)), ids=KINDS)
def test_a_gray_fault_is_named_and_nothing_else(seed: int) -> None:
    drawn = draw(seed)
    [part] = virtual_parts(drawn, seed, is_quiet=False)
    assert part.names == (drawn.part,)
    assert virtual_parts(drawn, seed, is_quiet=True) == ()
