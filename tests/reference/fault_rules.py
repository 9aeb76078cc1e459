"""The effect of faults on frames that leave a port, in plain Python: the reference of link_fault.h."""

from dataclasses import dataclass, field

from mrc_agents.abi import FaultAction, FaultRule, TrafficClass

_64_BITS = (1 << 64) - 1


def seeded_draw(seed: int, sequence: int) -> int:
    """The sequence-th 32-bit number of a seed: finaliser of SplitMix64."""
    x = sequence * 0x9E3779B97F4A7C15 + (seed << 32 | seed) & _64_BITS
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _64_BITS
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _64_BITS
    return (x ^ x >> 31) >> 32


@dataclass
class ReferenceRule:
    """A rule and its account."""

    rule: FaultRule
    met: int = 0
    hit: int = 0
    hit_data: int = 0
    is_in_burst: bool = False

    def meets(self, traffic_class: TrafficClass, entropy: int | None) -> bool:
        """Return True if the rule is about such a frame."""
        if not self.rule.classes >> traffic_class & 1:
            return False
        if not self.rule.ev_mask:
            return True
        return entropy is not None and entropy & self.rule.ev_mask == self.rule.ev_value

    def hits(self, traffic_class: TrafficClass) -> int | None:
        """Number of the first draw if it hits the next frame that matches, else None."""
        sequence = self.met * 4
        self.met += 1
        chance = self.rule.burst_chance_q32 if self.is_in_burst else self.rule.chance_q32
        if self.rule.burst_begins_q32:
            turn = self.rule.burst_ends_q32 if self.is_in_burst else self.rule.burst_begins_q32
            if seeded_draw(self.rule.seed, sequence + 1) < turn:
                self.is_in_burst = not self.is_in_burst
        if seeded_draw(self.rule.seed, sequence) >= chance:
            return None
        self.hit += 1
        self.hit_data += traffic_class == TrafficClass.DATA
        return sequence


@dataclass
class ReferenceFaults:
    """The rules of a port, by index; a frame meets all of them, whatever each does."""

    rules: dict[int, ReferenceRule] = field(default_factory=dict)

    def send(
        self,
        frame: bytes,
        begin: int,
        traffic_class: TrafficClass,
        entropy: int | None,
        *,
        has_icrc: bool = True,
    ) -> bytes | None:
        """The frame at the far end; None when it is lost.

        Args:
            frame: as it would leave.
            begin: offset of the first byte behind its BTH.
            traffic_class: its class.
            entropy: its EV; None when it carries none.
            has_icrc: whether its end would tell a flipped bit.
        """
        is_lost = False
        arriving = int.from_bytes(frame[begin:], "little")
        room_bits = 8 * (len(frame) - begin)
        for _, each in sorted(self.rules.items()):
            if not each.meets(traffic_class, entropy):
                continue
            sequence = each.hits(traffic_class)
            if sequence is None:
                continue
            if each.rule.action in {FaultAction.DOWN, FaultAction.LOSE}:
                is_lost = True
            if each.rule.action == FaultAction.CORRUPT and has_icrc:
                bits = each.rule.flipped_bits
                first = seeded_draw(each.rule.seed, sequence + 2) * (room_bits - bits + 1) >> 32
                arriving ^= ((1 << bits) - 1) << first
        if is_lost:
            return None
        return frame[:begin] + arriving.to_bytes(len(frame) - begin, "little")
