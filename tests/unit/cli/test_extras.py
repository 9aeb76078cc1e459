"""Packages of extras: what is said where they are missing, and that each belongs to an extra."""

import ast
import re
import sys
from pathlib import Path

import pytest
from core_only import PROJECT, ROOT, absent_packages, brought_by, commands, python
from packaging.requirements import Requirement

from mrc_testbed.cli import report
from mrc_testbed.errors import FabricError, PreflightError
from mrc_testbed.extras import from_extra

EXTRAS = PROJECT["optional-dependencies"]
IMPORTED = {
    "lab": {"ansible_runner", "docker", "mininet", "requests"},
    "observe": {"grafana_client", "niquests", "prometheus_client"},
    "data": {"pandas", "pyarrow"},
    "figures": {"matplotlib"},
    "cluster": {"dask", "distributed"},
}
"""Packages that the code imports of each extra, or of those that it brings."""

OTHERS = """\
import mrc_testbed.fabric.runtime_choice as choice
from mrc_testbed.errors import PreflightError
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.fabric.state import RuntimeName

assert choice.engine_labs() == frozenset()
paths = lab_paths("lab")
assert choice.known_runtime(paths, None).name is RuntimeName.NETNS
chosen = choice.choose_runtime(paths, None)
assert chosen.runtime.name is RuntimeName.NETNS
print(chosen.note)
modules = "hostprep.image mininet_net fabric.fabric_node observe.container observe.grafana_api results"
for module in modules.split():
    try:
        __import__(f"mrc_testbed.{module}")
    except PreflightError as error:
        print(error.message)
"""


def test_a_missing_package_is_an_error_that_names_its_extra() -> None:
    with pytest.raises(PreflightError) as caught, from_extra("lab"):
        import there_is.no_such  # type: ignore[import-not-found]  # noqa: F401, PLC0415
    assert caught.value.message == "the Python package there_is is missing; it comes with mrc-testbed[lab]"
    assert caught.value.hint == "install mrc-testbed[lab] in place of mrc-testbed"
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("name", ["mrc_testbed.no_such", "mrc_agents.no_such"])
def test_a_missing_module_of_ours_is_a_bug(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such"), from_extra("lab"):
        __import__(name)


def test_any_other_error_stays_as_it_is() -> None:
    with pytest.raises(ImportError, match="cannot import name"), from_extra("lab"):
        from json import no_such  # type: ignore[attr-defined]  # noqa: F401, PLC0415


def test_extras_in_code_are_those_of_the_project() -> None:
    assert EXTRAS["all"] == [f"mrc-testbed[{','.join(name for name in EXTRAS if name != 'all')}]"]
    assert _imported() == IMPORTED
    assert EXTRAS.keys() - {"all"} == IMPORTED.keys()
    assert [name for name in IMPORTED if not IMPORTED[name] <= brought_by(EXTRAS[name])] == []


def test_what_is_imported_comes_with_the_core_or_an_extra() -> None:
    everywhere = {
        name.partition(".")[0]
        for path in (ROOT / "testbed").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in _names(node)
    }
    assert everywhere & absent_packages() <= set().union(*IMPORTED.values())


def test_no_requirement_is_in_core_and_extra() -> None:
    listed = [*PROJECT["dependencies"], *(each for name in IMPORTED for each in EXTRAS[name])]
    names = [Requirement(each).name for each in listed]
    assert len(names) == len(set(names))


def test_a_command_says_in_one_line_what_to_install(tmp_path: Path) -> None:
    kept = next((ROOT / "tests/unit/campaign/kept").glob("*campaign*.tar.zst"))
    pushing, exporting, writing = commands(
        [
            "observe dashboards check --grafana-url http://127.0.0.1:9",
            f"campaign export {kept} --into tables --format parquet",
            f"campaign export {kept} --into tables",
        ],
        tmp_path,
        MRC_TESTBED_GRAFANA_TOKEN="token",  # noqa: S106 - none
    )
    for ended, package, name in ((pushing, "grafana_client", "observe"), (exporting, "pandas", "data")):
        assert (ended.status, ended.stdout) == (3, "")
        assert ended.stderr == (
            f"error: the Python package {package} is missing; it comes with mrc-testbed[{name}]\n"
            f"hint:  install mrc-testbed[{name}] in place of mrc-testbed\n"
        )
    assert writing.status == 0


@pytest.mark.parametrize("command", ["up --observe", "observe up", "observe metrics"])
def test_without_its_extra_nothing_is_observed_and_no_lab_made(mrc_testbed, command, monkeypatch):
    made = []
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("mrc_testbed.fabric.lab.up", lambda *_, **__: made.append("lab"))
    monkeypatch.setattr("mrc_testbed.observe.stack.up", lambda *_, **__: made.append("stack"))
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    finished = mrc_testbed(*command.split())
    assert (finished.status, finished.stdout, made) == (3, "", [])
    assert "prometheus_client is missing; it comes with mrc-testbed[observe]" in finished.stderr


def test_the_demo_of_a_lab_runs_without_exporter(mrc_testbed, monkeypatch):
    def run_plan(*_, **__):
        raise FabricError("it ran")

    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(report, "run_plan", run_plan)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    finished = mrc_testbed("demo")
    assert finished.status == 1
    assert finished.stderr.splitlines()[1:] == [
        "the demo exports no metrics: the Python package prometheus_client is missing;"
        " it comes with mrc-testbed[observe]",
        "error: it ran",
    ]


def test_labs_need_no_docker_though_an_engine_listens(tmp_path: Path) -> None:
    said = python(OTHERS, tmp_path, DOCKER_HOST="tcp://127.0.0.1:9").splitlines()
    missing = "the Python package {} is missing; it comes with mrc-testbed[{}]"
    assert said == [
        f"runtime netns: {missing.format('docker', 'lab')}",
        missing.format("docker", "lab"),
        missing.format("mininet", "lab"),
        missing.format("mininet", "lab"),
        missing.format("docker", "lab"),
        missing.format("grafana_client", "observe"),
        missing.format("pandas", "data"),
    ]


def _imported() -> dict[str, set[str]]:
    """Packages that stand in a `with from_extra(...)` of each name."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "testbed").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.With) and (name := _extra_of(node)):
                names = {name for inner in ast.walk(node) for name in _names(inner)}
                found.setdefault(name, set()).update(each.partition(".")[0] for each in names)
    return found


def _extra_of(node: ast.With) -> str | None:
    match = re.fullmatch(r"from_extra\('(\w+)'\)", ast.unparse(node.items[0].context_expr))
    return match and match[1]


def _names(node: ast.AST) -> list[str]:
    """Modules that a statement imports."""
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom(level=0):
            return [str(node.module)]
        case ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=str(name))]):
            return [name]
    return []
