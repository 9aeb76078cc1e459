"""The same seed gives the same result folder, byte for byte, whoever compiled the programs and however."""

import shutil
from pathlib import Path

import pytest
from library_build import build
from runs import contents, plan_of, run

OPTIMISED = pytest.mark.slow("compiles for ten seconds")
COMPILERS = [
    pytest.param("cc", "-O0 -g", id="cc-O0"),
    pytest.param("cc", "-O3 -g", id="cc-O3", marks=OPTIMISED),
    pytest.param("clang", "-O2 -g", id="clang-O2", marks=[OPTIMISED, pytest.mark.ci]),
]
PLANS = ["nic-port-down.yaml", "incast-credits.yaml"]


@pytest.mark.parametrize("file", [*PLANS, "all-reduce-flap.yaml"])
def test_a_run_repeats(file: str, tmp_path: Path) -> None:
    first, second = (contents(run(plan_of(file), tmp_path / name)) for name in ("first", "second"))
    assert first == second
    assert "series.csv" in first


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    first, second = (
        contents(run(plan_of("gray-loss.yaml", seed=seed), tmp_path / str(seed))) for seed in (1, 2)
    )
    assert first["series.csv"] != second["series.csv"]


@pytest.mark.parametrize(("compiler", "flags"), COMPILERS)
def test_no_compiler_changes_a_run(compiler: str, flags: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    library = build(tmp_path, compiler, flags)
    for file in PLANS:
        plan = plan_of(file)
        assert contents(run(plan, tmp_path / "shipped")) == contents(run(plan, tmp_path / "other", library))
