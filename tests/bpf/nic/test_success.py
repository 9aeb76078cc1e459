"""A completion with success means that exactly these bytes stand in the peer's memory."""

from random import Random

import pytest
from two_nics import Replacement, TwoNics

from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec

FABRIC = Clos(TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=1))
LIVES = 300


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=[pytest.mark.slow("once more"), pytest.mark.ci])])
def test_what_completes_stands_in_memory_whatever_comes_late_twice_or_again(seed: int) -> None:
    with TwoNics(FABRIC, (0, 1), Random(seed)) as nics:
        replacement = Replacement(nics)
        for _ in range(LIVES):
            replacement.live()
    account = replacement.account
    assert (account.wrong_bytes, account.failed) == (0, 0)
    assert account.completed + account.abandoned == LIVES
    assert account.completed > LIVES // 3
    assert account.abandoned > LIVES // 10
    assert account.restarts
