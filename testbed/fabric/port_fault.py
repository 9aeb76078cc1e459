"""What faults do at a port of a live lab: the rules of writing it while frames pass."""

from ctypes import addressof, memset, sizeof
from typing import Final, Protocol

from agents.bpf.maps import MappedArray
from agents.wire_abi import (
    FaultAccount,
    FaultAccounts,
    FaultAction,
    FaultRule,
    Port,
    PortFault,
    TrafficClass,
)

CERTAIN_Q32: Final = 1 << 32
"""Chance 1 in the 32-bit fixed point of the rules."""

ALL_CLASSES: Final = (1 << TrafficClass.COUNT) - 1


DOWN_RULE: Final = FaultRule(action=FaultAction.DOWN, classes=ALL_CLASSES, chance_q32=CERTAIN_Q32)
"""All frames are lost."""


class FaultedMaps(Protocol):
    """The maps that hold faults: a lab's, or those of a test's bench."""

    @property
    def port_table(self) -> MappedArray[Port]:
        """By port id; `is_faulted` says whether port_fault is read at all."""

    @property
    def port_fault(self) -> MappedArray[PortFault]:
        """By port id."""

    @property
    def fault_accounts(self) -> MappedArray[FaultAccounts]:
        """By port id; written by BPF."""


def set_rule(maps: FaultedMaps, port_id: int, index: int, rule: FaultRule) -> None:
    """Lets *rule* act on the frames that leave a port, from the next one on, with an account of its own.

    Args:
        maps: of the lab.
        port_id: the egress port.
        index: which of the port's rules, 0 to FaultLimit.RULES - 1.
        rule: what to do; its id is filled in.
    """
    prepare_rule(maps, port_id, index, rule)
    maps.port_table[port_id].is_faulted = 1


def prepare_rule(maps: FaultedMaps, port_id: int, index: int, rule: FaultRule) -> None:
    """Writes a rule that acts as soon as the port's `is_faulted` is set, which is one store.

    Arguments as those of set_rule().
    """
    live = maps.port_fault[port_id].rule[index]
    live.action = FaultAction.NONE
    for name, _ in FaultRule._fields_:
        if name not in {"action", "id"}:
            setattr(live, name, getattr(rule, name))
    live.id = maps.fault_accounts[port_id].rule[index].id % 0xFFFF_FFFF + 1
    live.action = rule.action


def clear_rule(maps: FaultedMaps, port_id: int, index: int) -> FaultAccount:
    """What a rule met and hit until now that it is taken back; with the last one the port is as new."""
    fault = maps.port_fault[port_id]
    if not any(rule.action for number, rule in enumerate(fault.rule) if number != index):
        maps.port_table[port_id].is_faulted = 0
    live = fault.rule[index]
    live.action = FaultAction.NONE
    account = read_account(maps, port_id, index)
    memset(addressof(live), 0, sizeof(live))
    return account


def read_account(maps: FaultedMaps, port_id: int, index: int) -> FaultAccount:
    """What the rule that acts there has met and hit; all zero when no frame has met it yet."""
    account = FaultAccount.from_buffer_copy(maps.fault_accounts[port_id].rule[index])
    return account if account.id == maps.port_fault[port_id].rule[index].id else FaultAccount()


def is_down(maps: FaultedMaps, port_id: int) -> bool:
    """Whether a rule makes the link of the port look down in its direction."""
    if not maps.port_table[port_id].is_faulted:
        return False
    return any(rule.action == FaultAction.DOWN for rule in maps.port_fault[port_id].rule)


def is_healthy(maps: FaultedMaps, port_id: int) -> bool:
    """Whether nothing of any fault is left at the port."""
    blank = bytes(sizeof(PortFault))
    return not maps.port_table[port_id].is_faulted and bytes(maps.port_fault[port_id]) == blank


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
