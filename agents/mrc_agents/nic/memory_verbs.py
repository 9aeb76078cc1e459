"""Verbs about memory: regions, and test patterns in them."""

from mrc_agents.nic.nic_state import NicState
from mrc_agents.nic.pattern import count_wrong, fill
from mrc_agents.nic.verb import verb


class MemoryVerbs(NicState):
    @verb
    def register_memory(self, length: int) -> dict[str, int]:
        """A new zeroed region: its offset in the NIC's memory, length in bytes, and R_Key.

        Args:
            length: bytes, as far as the NIC's memory has room.
        """
        region = self._regions.register(length)
        return {"offset": region.offset, "length": region.length, "r_key": region.r_key}

    @verb
    def deregister_memory(self, r_key: int) -> None:
        """Invalidates an R_Key.

        Args:
            r_key: of a region.
        """
        self._regions.deregister(r_key)

    @verb
    def fill(self, offset: int, length: int, seed: int) -> None:
        """Writes the test pattern of *seed* into registered memory.

        Args:
            offset: in the NIC's memory; all of it inside one region.
            length: bytes.
            seed: any number.
        """
        fill(self._regions.check(offset, length), length, seed)

    @verb
    def verify(self, offset: int, length: int, seed: int) -> int:
        """Number of bytes that differ from the test pattern of *seed*.

        Args:
            offset: in the NIC's memory; all of it inside one region.
            length: bytes.
            seed: as it was given to `fill`.
        """
        return count_wrong(self._regions.check(offset, length), length, seed)
