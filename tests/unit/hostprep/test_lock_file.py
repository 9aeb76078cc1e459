"""requirements.lock: complete, hashed, and silent about where packages come from."""

import re
import tomllib

from mrc_testbed.installation import ROOT

LOCK = (ROOT / "requirements.lock").read_text()
PINS = dict(re.findall(r"^([a-z0-9][a-z0-9.-]*)==(\S+)", LOCK, re.MULTILINE))


def test_no_host_is_named() -> None:
    assert "://" not in LOCK
    assert "index" not in LOCK


def test_every_pin_has_a_hash() -> None:
    blocks = re.split(r"^(?=[a-z0-9])", LOCK, flags=re.MULTILINE)[1:]
    assert len(blocks) >= len(PINS) > 50
    assert not [block.splitlines()[0] for block in blocks if "--hash=sha256:" not in block]


def test_every_dependency_of_every_extra_and_group_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    lists = *(extras[name] for name in extras if name != "all"), *project["dependency-groups"].values()
    wanted = [*project["project"]["dependencies"], *(entry for each in lists for entry in each)]
    names = {re.split(r"[<>=!~\[ ]", requirement)[0].lower() for requirement in wanted}
    assert names - PINS.keys() == set()
