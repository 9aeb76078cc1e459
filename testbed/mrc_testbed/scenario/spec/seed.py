"""One seed per purpose, from the seed of a run. Pure."""

import hashlib


def derive_seed(run_seed: int, *names: str) -> int:
    """64 bits for one purpose, independent of those for any other."""
    text = "/".join((str(run_seed), *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
