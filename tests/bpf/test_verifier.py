"""The instructions that the running kernel's verifier processes in each program leave enough to spare."""

import pytest

from tests.kernels import budget

pytestmark = pytest.mark.root


@pytest.mark.parametrize("kind", budget.SPECS)
@pytest.mark.parametrize("program", budget.PROGRAMS)
def test_a_quarter_of_the_kernels_limit_is_left(program: str, kind: str) -> None:
    assert 0 < budget.verified_instructions(program, kind) < budget.BUDGET
