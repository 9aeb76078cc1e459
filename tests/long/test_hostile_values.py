"""Every value of a ready scenario replaced by a hostile one: the file is judged, nothing breaks or hangs."""

from pathlib import Path

import pytest
import yaml
from hostile_trees import READY, places, with_change

from mrc_testbed.cli.app import run

TEXTS = ("0B", "0s", "0%", "999999999GiB", "9000000000s", "", "\x1b[2J")
VALUES: tuple[object, ...] = (0, -1, 2**31, 2**63, *TEXTS, [], {}, None)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("tree", READY, ids=lambda tree: tree["metadata"]["name"])
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_hostile_value_in_any_place_is_judged(
    tree: dict[str, object], value: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "hostile.yaml"
    for place in places(tree["spec"]):
        path.write_text(yaml.safe_dump(with_change(tree, ("spec", *place), value)))
        status = run(["validate", str(path)])
        said = "".join(capsys.readouterr())
        assert status in (0, 2), (place, said)
        assert "bug of mrc-testbed" not in said, place
