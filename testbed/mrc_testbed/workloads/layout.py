"""Pure: how a flow's memory is divided, what each batch over it carries, what must be found there afterwards.

The target's region has two halves of `slots` slots. A batch writes one half, once or several times; the next
batch writes the other half while the first is compared, so that bytes written during a long run are checked
too. The source's region has two slots more than a half:

    source   | 0 | 1 | 2 | 3 | 4 | 5 |           slots = 4; a batch cycles through 5 of these, from 0 or 1 on
    target   | 0 | 1 | 2 | 3 | 0 | 1 | 2 | 3 |
               `--- half 0 --' `--- half 1 --'

Message i of a batch is read from source slot base + i % 5 and written to target slot i % 4. As 5 and 4 are
coprime, each pass over a half carries other bytes than the one before, and so does the next batch on
that half because its base differs. A message that is lost or misplaced leaves bytes that do not match.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from mrc_agents.abi import Limit
from mrc_testbed.errors import UsageError
from mrc_testbed.units import format_size_bytes
from mrc_testbed.workloads.flow import Flow

PAGE_BYTES: Final = 4096
"""Regions begin on a page."""

BATCH_BYTES_MAX: Final = 4 << 20
"""A half need not be larger: a batch then takes tens of milliseconds at the rates of a shaped lab."""

SLOTS_MAX: Final = 4096
"""Slots of a half at most: more would make batches of tiny messages long."""

_REACH_BYTES: Final = Limit.PSN_RING * Limit.PMTU_MAX
"""No two packets that are this far apart in a QP's stream are ever under way together."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes that lie side by side at both ends."""

    remote_offset: int  # where they must be found, from the start of the target's region
    local_offset: int  # where they came from, from the start of the source's region
    length: int  # how many, in bytes


@dataclass(frozen=True, slots=True)
class Layout:
    """The division of a flow's two regions."""

    size_bytes: int  # of a message, hence of a slot
    slots: int  # of a half; at least 1
    halves: int  # 2, or 1 where memory is short; then nothing is sent while a batch is compared

    @property
    def local_bytes(self) -> int:
        """Length of the source's region."""
        return (self.slots + 2) * self.size_bytes

    @property
    def remote_bytes(self) -> int:
        """Length of the target's region."""
        return self.halves * self.slots * self.size_bytes

    @property
    def local_slots(self) -> int:
        """Source slots that a batch cycles through."""
        return self.slots + 1

    def depth(self, wanted: int) -> int:
        """Messages that may be outstanding, at most *wanted*: never two whose packets may meet on one slot.

        The network swaps packets; of two messages on one slot either's bytes could remain.
        """
        return wanted if self.slots * self.size_bytes >= _REACH_BYTES else min(wanted, self.slots)

    def batch_offsets(self, batch: int) -> tuple[int, int]:
        """(source offset, target offset) at which batch number *batch* begins, in bytes."""
        base = batch // self.halves % 2
        half = batch % self.halves
        return base * self.size_bytes, half * self.slots * self.size_bytes

    def expected(self, batch: int, messages: int) -> Iterator[ByteRange]:
        """The intervals expected in the half of batch number *batch* after its first *messages* messages."""
        local_start, remote_start = self.batch_offsets(batch)
        passes, slots_of_last = divmod(messages, self.slots)
        for message, slot, count in (
            (passes * self.slots, 0, slots_of_last),
            ((passes - 1) * self.slots + slots_of_last, slots_of_last, self.slots - slots_of_last),
        ):
            if message < 0 or (passes == 0 and slot):
                continue
            first = message % self.local_slots
            until_wrap = min(count, self.local_slots - first)
            for done, source, length in ((0, first, until_wrap), (until_wrap, 0, count - until_wrap)):
                if length:
                    yield ByteRange(
                        remote_start + (slot + done) * self.size_bytes,
                        local_start + source * self.size_bytes,
                        length * self.size_bytes,
                    )


def plan_layout(size_bytes: int, flows: Iterable[Flow], memory_bytes: Mapping[str, int]) -> Layout:
    """The roomiest layout that lets all *flows* have their regions.

    Args:
        size_bytes: of a message.
        memory_bytes: memory of each NIC that this workload may use, by host.
    """
    pairs = [(flow.source, flow.target) for flow in flows]
    sending, receiving = Counter(source for source, _ in pairs), Counter(target for _, target in pairs)
    hosts = list(dict.fromkeys((*sending, *receiving)))
    wanted_slots = min(SLOTS_MAX, max(1, BATCH_BYTES_MAX // size_bytes))
    for halves in (2, 1):
        slots = min(
            wanted_slots,
            *(_slots_that_fit(size_bytes, sending[h], receiving[h], halves, memory_bytes[h]) for h in hosts),
        )
        if slots >= 1:
            return Layout(size_bytes, slots, halves)
    least = Layout(size_bytes, 1, 1)
    tightest = min(hosts, key=lambda h: memory_bytes[h] / (sending[h] * 3 + receiving[h]))
    need = sending[tightest] * (least.local_bytes + PAGE_BYTES) + receiving[tightest] * (
        least.remote_bytes + PAGE_BYTES
    )
    raise UsageError(
        f"messages of {format_size_bytes(size_bytes)} need {format_size_bytes(need)} of memory at "
        f"{tightest}, which has {format_size_bytes(memory_bytes[tightest])} for them",
        hint="make `size` smaller, use fewer QPs, or give the NICs more memory (topology: nic: memory)",
    )


def _slots_that_fit(size_bytes: int, sending: int, receiving: int, halves: int, memory_bytes: int) -> int:
    regions = sending + receiving
    free_bytes = memory_bytes - regions * PAGE_BYTES - sending * 2 * size_bytes
    return free_bytes // ((sending + receiving * halves) * size_bytes)
