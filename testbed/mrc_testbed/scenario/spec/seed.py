"""One seed per purpose, from the seed of a run. Pure."""

import hashlib


def derive_seed(run_seed: int, *names: str) -> int:
    """64 bits for one purpose, independent of those for any other.

    Args:
        run_seed: of the run.
        names: the purpose, such as a fault's id and what is drawn.
    """
    text = "/".join((str(run_seed), *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
