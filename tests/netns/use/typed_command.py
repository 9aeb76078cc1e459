"""mrc-testbed as a user types it, on the lab of the module."""

import json
from typing import Any

import pytest
from golden_documents import check_document

from mrc_testbed.cli.app import run


class Command:
    """mrc-testbed on the lab of the module."""

    def __init__(self, lab_name: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._lab_name = lab_name
        self._capsys = capsys
        self.stderr = ""

    def __call__(self, *arguments: str, status: int = 0) -> str:
        """Its output on stdout."""
        assert run(["-n", self._lab_name, *arguments]) == status, self._capsys.readouterr().err
        out, self.stderr = self._capsys.readouterr()
        return out

    def json(self, *arguments: str, status: int = 0) -> dict[str, Any]:
        """The JSON document it prints, which has the shape of its golden file."""
        found: dict[str, Any] = json.loads(self("-o", "json", *arguments, status=status))
        check_document(found["kind"], found)
        return found
