"""The time that a step of a program computes in virtual time, which does not measure it."""

from pathlib import Path
from typing import Final

from mrc_testbed.errors import UsageError
from mrc_testbed.units import parse_duration_ns

COMPUTE_VARIABLE: Final = "MRC_TORCH_COMPUTE"
"""Which mrc-torch reads."""

UNDECLARED: Final = "compute: virtual time does not measure how long a step computes"
HOW_TO_DECLARE: Final = "give a time, such as 100ms, or the file that `python -m mrc_torch.profile` writes"


def declared_compute(workload: str, text: str | None) -> str:
    """The time that a step computes, as mrc-torch reads it: ns, or the path of a profile."""
    if text is None:
        raise UsageError(f"workload {workload}: {UNDECLARED}", hint=HOW_TO_DECLARE)
    path = Path(text)
    if path.is_file():
        return str(path.resolve())
    try:
        return str(parse_duration_ns(text))
    except UsageError as error:
        raise UsageError(f"workload {workload}: compute: there is no such file; {error.message}") from error
