"""The extent of Hypothesis's search: the same examples every time, or new ones in the long run."""

from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

QUICK: Final = "quick"
LONG: Final = "long"
_CORPUS: Final = Path(__file__).parent / "corpus"
_LONG_FACTOR: Final = 25

# A health check judges how fast this machine is, or what fixtures a test has: neither is the program's fault.
_UNCHECKED: Final = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture)


def register_profiles() -> None:
    """Makes both profiles known and loads the quick one; `--hypothesis-profile=long` loads the other."""
    settings.register_profile(
        QUICK,
        deadline=None,
        derandomize=True,
        database=None,
        max_examples=40,
        suppress_health_check=_UNCHECKED,
    )
    settings.register_profile(
        LONG,
        deadline=None,
        database=DirectoryBasedExampleDatabase(_CORPUS),
        max_examples=40 * _LONG_FACTOR,
        print_blob=True,
        suppress_health_check=_UNCHECKED,
    )
    settings.load_profile(QUICK)


def examples(count: int) -> int:
    """*count* examples, or many times as many in the long run; for `settings(max_examples=...)`."""
    return count * (_LONG_FACTOR if settings.get_current_profile_name() == LONG else 1)
