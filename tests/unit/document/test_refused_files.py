"""Each file in refused/ beside the exact text a user sees for it."""

from pathlib import Path

import pytest
from document_models import Spec

from mrc_testbed.document.envelope import Kind, load, validate
from mrc_testbed.errors import UsageError

FOLDER = Path(__file__).parent / "refused"
CASES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def message_for(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        validate(load(path, Kind.SCENARIO), Spec)
    return caught.value.message.replace(str(path), path.name)


@pytest.mark.parametrize("case", CASES)
def test_file_is_refused_with_this_text(case: str) -> None:
    expected = (FOLDER / f"{case}.txt").read_text()
    assert message_for(FOLDER / f"{case}.yaml") + "\n" == expected


def test_every_expected_text_has_its_file() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == CASES
