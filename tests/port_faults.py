"""Faults of a port without a ledger, for tests of what is below the faults."""

from mrc_agents.abi import FaultAction, FaultRule
from mrc_testbed.fabric.port_fault import ALL_CLASSES, DOWN_RULE, FaultedMaps, clear_rule, set_rule


def write_port_fault(
    maps: FaultedMaps, port_id: int, *, is_down: bool = False, loss_q32: int = 0, loss_seed: int = 0
) -> None:
    """Makes an egress port behave so from the next frame on, by its first two rules; healthy by default.

    Args:
        maps: of the lab.
        port_id: whose outgoing frames are concerned.
        is_down: all of them are lost.
        loss_q32: chance of each to be lost, times 2**32.
        loss_seed: 32 bits that fix which.
    """
    lossy = FaultRule(action=FaultAction.LOSE, classes=ALL_CLASSES, chance_q32=loss_q32, seed=loss_seed)
    for index, rule, is_wanted in ((0, DOWN_RULE, is_down), (1, lossy, loss_q32 > 0)):
        if is_wanted:
            set_rule(maps, port_id, index, rule)
        else:
            clear_rule(maps, port_id, index)
