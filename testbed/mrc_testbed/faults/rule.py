"""The rule of one fault for frames that leave one port, as the data plane has it. Pure.

The numbers are those of struct mrc_fault_rule (mrc_agents/include/mrc/fault_abi.h), which says how chances
are drawn.
"""

from dataclasses import dataclass
from typing import Final, Literal

from mrc_agents.abi import FaultAction, FaultRule, TrafficClass
from mrc_testbed.fabric.port_fault import CERTAIN_Q32, mixed
from mrc_testbed.faults.schedule import Schedule
from mrc_testbed.units import format_duration_ns, format_ratio

Action = Literal["down", "lose", "corrupt", "duplicate", "delay", "reorder"]
Traffic = Literal["all", "data", "control"]

LOSING_ACTIONS: Final = frozenset({"down", "lose", "corrupt"})
"""Actions that leave the receiver nothing that it can use."""

QUEUE_ACTIONS: Final = frozenset({"duplicate", "delay", "reorder"})
"""These take room and time at the port, hence a shaped fabric."""

EV_MASK_ALL: Final = 0xFFFF_FFFF

FLAP_PLACE: Final = -1
"""In place of a port in `mix_seed`: the outages of a flap are the same at all its ports."""

_CLASSES: Final[dict[str, int]] = {
    "all": 1 << TrafficClass.CONTROL | 1 << TrafficClass.DATA,
    "data": 1 << TrafficClass.DATA,
    "control": 1 << TrafficClass.CONTROL,
}
_MIX_MULTIPLIER: Final = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameRule:
    """An action on the frames that match."""

    action: Action  # what is done to a frame that is hit
    ratio: float = 1.0  # chance of a frame to be hit, 0 to 1
    burst_ratio: float = 0.0  # the chance while a burst lasts
    # burst_begins, burst_ends: chances that a burst begins or ends with a frame; 0: there are none
    burst_begins: float = 0.0
    burst_ends: float = 0.0
    traffic: Traffic = "all"  # frames of other classes are left alone
    ev: int | None = None  # frames with other EVs, compared under `ev_mask`, are left alone; None: all EVs
    ev_mask: int = EV_MASK_ALL  # bits of the EV that are compared
    time_ns: int = 0  # of delay and reorder: how much later the frame arrives
    jitter_ns: int = 0  # of delay: up to this much less or more
    flipped_bits: int = 0  # of corrupt: neighbouring bits flipped

    @property
    def needs_queue(self) -> bool:
        """Return True if it works at ports with a rate only."""
        return self.action in QUEUE_ACTIONS

    @property
    def mean_ratio(self) -> float:
        """Share of frames hit in the long run, bursts included."""
        if not self.burst_begins:
            return self.ratio
        in_burst = self.burst_begins / (self.burst_begins + self.burst_ends)
        return in_burst * self.burst_ratio + (1.0 - in_burst) * self.ratio


def as_abi(rule: FrameRule, seed: int, schedule: Schedule) -> FaultRule:
    """The rule as the data plane takes it, but for its id.

    Args:
        seed: 32 bits, from `mix_seed`.
    """
    flap = schedule.flap
    timing = {
        "end_ns": schedule.end_ns or 0,
        "begin_ns": schedule.begin_ns,
        "flap_seed": flap.seed if flap else 0,
        "every_ns": flap.every_ns if flap else 0,
        "down_ns": flap.down_ns if flap else 0,
        "late_ns": flap.late_ns if flap else 0,
    }
    return FaultRule(
        action=FaultAction[rule.action.upper()],
        seed=seed,
        classes=_CLASSES[rule.traffic],
        ev_value=0 if rule.ev is None else rule.ev & rule.ev_mask,
        ev_mask=0 if rule.ev is None else rule.ev_mask,
        chance_q32=chance_q32(rule.ratio),
        burst_chance_q32=chance_q32(rule.burst_ratio),
        burst_begins_q32=chance_q32(rule.burst_begins),
        burst_ends_q32=chance_q32(rule.burst_ends),
        time_ns=rule.time_ns,
        jitter_ns=rule.jitter_ns,
        flipped_bits=rule.flipped_bits,
        **timing,
    )


def chance_q32(ratio: float) -> int:
    """*ratio* (0 to 1) as a fraction of 2**32; a positive ratio never becomes zero."""
    if ratio <= 0.0:
        return 0
    return max(1, min(CERTAIN_Q32, round(ratio * CERTAIN_Q32)))


def mix_seed(seed: int, port_id: int) -> int:
    """A 32-bit seed for one port: equal seeds hit different frames on different ports."""
    return mixed(seed + (port_id + 1) * _MIX_MULTIPLIER)


def describe_rule(rule: FrameRule) -> str:
    """The difference to others of its action, such as `5% of data`; empty when there is none."""
    words = []
    if rule.action not in {"down", "delay"}:
        words.append(format_ratio(float(f"{rule.mean_ratio:.3g}")))
    if rule.burst_begins:
        words.append(f"in bursts of {1 / rule.burst_ends:.3g} packets")
    if rule.traffic != "all":
        words.append(f"of {rule.traffic}")
    if rule.ev is not None:
        one = f"of EV 0x{rule.ev:08x}"
        words.append(one if rule.ev_mask == EV_MASK_ALL else f"of EVs 0x{rule.ev >> 16:04x}....")
    if rule.time_ns:
        words.append(f"by {format_duration_ns(rule.time_ns)}")
    if rule.jitter_ns:
        words.append(f"+-{format_duration_ns(rule.jitter_ns)}")
    return " ".join(words)
