"""Pure composition of faults: from the set of active faults to what each port must do.

A fault is never applied as a difference. Every change recomputes the ports it touches from the whole set that
is active, so overlapping faults cannot wipe one another and clearing the last one restores zero exactly.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

LOSS_ALL_Q32: Final = 1 << 32
"""Drop probability 1 in the 32-bit fixed point of the port table."""

_MIX_MULTIPLIER: Final = 0x9E3779B97F4A7C15
_MASK_64: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class PortEffect:
    """What a fault does to the frames that leave one port.

    Attributes:
        port_id: egress port of the impaired direction.
        is_down: nothing gets through.
        loss_ratio: chance of a frame to be dropped, 0 to 1.
    """

    port_id: int
    is_down: bool = False
    loss_ratio: float = 0.0


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault with every name bound: what it does, to which ports.

    Attributes:
        fault_id: name by which it is cleared and shown in events and metrics.
        kind: the kind the user wrote, such as `link-down`.
        seed: seeds the random drops.
        links: names of the links concerned, for people.
        effects: what happens in the data plane.
        carrier_ports: switch-side ports whose interface goes down, so that the NIC at the far end really
            loses its carrier.
    """

    fault_id: str
    kind: str
    seed: int
    links: tuple[str, ...]
    effects: tuple[PortEffect, ...]
    carrier_ports: tuple[int, ...] = ()

    def ports(self) -> frozenset[int]:
        """Ports whose data plane the fault touches."""
        return frozenset(effect.port_id for effect in self.effects)


@dataclass(frozen=True, slots=True)
class PortSetting:
    """What the port table holds for one egress port; the default is a healthy port.

    Attributes:
        is_down: drop everything.
        loss_q32: drop probability times 2**32, at most 2**32.
        loss_seed: 32 bits that fix which frames are dropped.
    """

    is_down: bool = False
    loss_q32: int = 0
    loss_seed: int = 0


def compose(active: Iterable[Fault], port_id: int) -> PortSetting:
    """The setting of a port under all faults of *active*: down wins, losses combine as 1 - (1-a)(1-b).

    The result depends on the set only, not on the order in which its members came.
    """
    is_down = False
    delivered = 1.0
    seed = 0
    for fault in sorted(active, key=lambda fault: fault.fault_id):
        for effect in fault.effects:
            if effect.port_id != port_id:
                continue
            is_down = is_down or effect.is_down
            if effect.loss_ratio > 0.0:
                delivered *= 1.0 - effect.loss_ratio
                seed ^= mix_seed(fault.seed, port_id)
    return PortSetting(is_down=is_down, loss_q32=loss_q32(1.0 - delivered), loss_seed=seed)


def compose_carriers(active: Sequence[Fault], carrier_ports: Iterable[int]) -> dict[int, bool]:
    """Port id to whether its interface is to be up: it is when no active fault names the port."""
    down = {port_id for fault in active for port_id in fault.carrier_ports}
    return {port_id: port_id not in down for port_id in carrier_ports}


def loss_q32(ratio: float) -> int:
    """*ratio* (0 to 1) as a fraction of 2**32; a positive ratio never becomes zero."""
    if ratio <= 0.0:
        return 0
    return max(1, min(LOSS_ALL_Q32, round(ratio * LOSS_ALL_Q32)))


def mix_seed(seed: int, port_id: int) -> int:
    """A 32-bit seed for one port: equal seeds drop different frames on different ports.

    Source: the finaliser of SplitMix64, as loss_draw() of the data plane.
    """
    word = (seed + (port_id + 1) * _MIX_MULTIPLIER) & _MASK_64
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK_64
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK_64
    return (word ^ (word >> 31)) >> 32
