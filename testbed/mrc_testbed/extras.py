"""Packages that only some features need: the extras of pyproject.toml."""

from collections.abc import Iterator
from contextlib import contextmanager

from mrc_testbed.errors import PreflightError


@contextmanager
def from_extra(name: str) -> Iterator[None]:
    """Turn a missing package, imported inside, into an error that names the extra which brings it.

    Raises:
        PreflightError: a package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in {"", "mrc_testbed", "mrc_agents"}:
            raise
        raise PreflightError(
            f"the Python package {package} is missing; it comes with mrc-testbed[{name}]",
            hint=f"install mrc-testbed[{name}] in place of mrc-testbed",
        ) from error
