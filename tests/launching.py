"""`mrc-testbed launch` as a user types it."""

import pytest

from mrc_testbed.cli.app import run


class Launch:
    """`launch` on a lab."""

    def __init__(self, lab_name: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        self._lab_name = lab_name
        self._capfdbinary = capfdbinary

    def __call__(self, *arguments: str) -> tuple[int, list[str], str]:
        """Status, sorted lines of stdout, and stderr."""
        status = run(["-n", self._lab_name, "launch", *arguments])
        out, err = self._capfdbinary.readouterr()
        return status, sorted(out.decode().splitlines()), err.decode()
