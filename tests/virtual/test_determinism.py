"""The same seed gives the same result folder, byte for byte, whoever compiled the programs and however."""

import shutil
from pathlib import Path

import pytest
from library_build import build
from runs import FILES, SCENARIOS, contents, plan_of, run

from mrc_agents.abi import TraceKind
from mrc_testbed.campaign.plan import plan_variants
from mrc_testbed.explain.trace import Tracer
from mrc_testbed.scenario.spec.load import load_scenario

OPTIMISED = pytest.mark.slow("compiles for ten seconds")
COMPILERS = [
    pytest.param("clang", "-O0", id="clang-O0"),
    pytest.param("cc", "-O3", id="cc-O3", marks=OPTIMISED),
    pytest.param("clang", "-O2", id="clang-O2", marks=OPTIMISED),
]
QUICK = [str(each.values[0]) for each in FILES if not each.marks]
EVERYTHING = [TraceKind(kind) for kind in range(TraceKind.KINDS)]
PLANS = ["nic-port-down.yaml", "incast-credits.yaml"]


@pytest.mark.parametrize("file", [*PLANS, "all-reduce-flap.yaml"])
def test_a_run_repeats_and_no_trace_changes_it(file: str, tmp_path: Path) -> None:
    tracer = Tracer(EVERYTHING, windows={})  # looks at each frame and QP, and keeps none
    first = contents(run(plan_of(file), tmp_path / "first"))
    assert first == contents(run(plan_of(file), tmp_path / "second", tracer=tracer))
    assert "series.csv" in first


@pytest.mark.slow("each scenario file twice")
@pytest.mark.parametrize("file", QUICK)
def test_no_trace_changes_a_run(file: str, tmp_path: Path) -> None:
    loaded = load_scenario(SCENARIOS / file)
    variants = [run.plan for run in plan_variants(loaded, seed=None).runs] if loaded.spec.variants else None
    for number, plan in enumerate(variants or [plan_of(file)]):
        plain = contents(run(plan, tmp_path / f"plain-{number}"))
        tracer = Tracer(EVERYTHING, windows={})
        assert plain == contents(run(plan, tmp_path / f"traced-{number}", tracer=tracer))


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
