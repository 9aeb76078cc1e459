"""The faults of a port of a live lab: the rules of writing them while frames pass."""

from ctypes import addressof, memset, sizeof
from typing import Final, Protocol

from mrc_agents.abi import (
    FaultAccount,
    FaultAccounts,
    FaultAction,
    FaultRule,
    PortEntry,
    PortFault,
    TrafficClass,
)
from mrc_agents.bpf.maps import MappedArray

CERTAIN_Q32: Final = 1 << 32
"""Chance 1 in the 32-bit fixed point of the rules."""

_MASK_64: Final = (1 << 64) - 1

ALL_CLASSES: Final = (1 << TrafficClass.COUNT) - 1


DOWN_RULE: Final = FaultRule(action=FaultAction.DOWN, classes=ALL_CLASSES, chance_q32=CERTAIN_Q32)
"""All frames are lost."""


class FaultedMaps(Protocol):
    """The maps that hold faults: a lab's, or those of a test's bench."""

    @property
    def port_table(self) -> MappedArray[PortEntry]:
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
    """Remove a rule; returns what it matched and hit until now. With the last one the port is as new."""
    fault = maps.port_fault[port_id]
    if not any(rule.action for number, rule in enumerate(fault.rule) if number != index):
        maps.port_table[port_id].is_faulted = 0
    live = fault.rule[index]
    live.action = FaultAction.NONE
    account = read_account(maps, port_id, index)
    memset(addressof(live), 0, sizeof(live))
    return account


def read_account(maps: FaultedMaps, port_id: int, index: int) -> FaultAccount:
    """The account of the rule that acts there; all zero when no frame has matched it yet."""
    account = FaultAccount.from_buffer_copy(maps.fault_accounts[port_id].rule[index])
    return account if account.id == maps.port_fault[port_id].rule[index].id else FaultAccount()


def acts(rule: FaultRule, now_ns: int) -> bool:
    """Return True if a rule acts at *now_ns* of CLOCK_MONOTONIC, by fault_acts() of the data plane."""
    if not rule.action or (rule.end_ns and now_ns >= rule.end_ns):
        return False
    if not rule.every_ns:
        return True
    age_ns = (now_ns - rule.begin_ns) & _MASK_64
    start_ns = outage_start_ns(rule.flap_seed, age_ns // rule.every_ns, rule.every_ns, rule.late_ns)
    return start_ns <= age_ns < start_ns + rule.down_ns


def outage_start_ns(seed: int, period: int, every_ns: int, late_ns: int) -> int:
    """When the outage of a flap's period begins, in ns since the flap began.

    Args:
        seed: 32 bits.
        period: number of the period, from 0.
        every_ns: length of a period.
        late_ns: the outage begins up to this long after its period.
    """
    draw = seeded_draw(seed, period)
    return period * every_ns + (((late_ns >> 8) * draw & _MASK_64) >> 24)


def seeded_draw(seed: int, sequence: int) -> int:
    """The sequence-th 32-bit number of a 32-bit seed, as the function of the data plane has it."""
    return mixed(sequence * 0x9E3779B97F4A7C15 + (seed << 32 | seed))


def mixed(word: int) -> int:
    """32 bits of the finaliser of SplitMix64."""
    word &= _MASK_64
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK_64
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK_64
    return (word ^ (word >> 31)) >> 32


def is_healthy(maps: FaultedMaps, port_id: int) -> bool:
    """Return True if no trace of any fault is left at the port."""
    blank = bytes(sizeof(PortFault))
    return not maps.port_table[port_id].is_faulted and bytes(maps.port_fault[port_id]) == blank
