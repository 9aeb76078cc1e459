"""Whatever is killed, the next command leaves the machine as it was."""

import pytest
from kill_walk import CASES, walk_apart

pytestmark = [pytest.mark.root, pytest.mark.timeout(3600)]
MOMENTS = 30


@pytest.mark.parametrize("name", CASES)
def test_a_killed_command_leaves_nothing_after_the_next(name: str) -> None:
    assert walk_apart(name, MOMENTS)
