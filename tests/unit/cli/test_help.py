"""Help that teaches: every command shows itself, with examples, within 80 columns."""

import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from functools import cache
from importlib import import_module

import pytest
from core_only import commands as without_extras

from mrc_testbed.cli.app import run
from mrc_testbed.cli.commands import ALIASES, LISTED, OBSERVE
from mrc_testbed.cli.fault import adders, example
from mrc_testbed.cli.options import COMMANDS, OBSERVE_COMMANDS
from mrc_testbed.faults.interactive import parse_fault
from mrc_testbed.faults.spec import KINDS
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec

WIDTH = 78

NAMES = [
    *(f"bench {kind}" for kind in ("all-gather", "all-reduce", "all-to-all", "broadcast", "incast")),
    *(f"bench {kind}" for kind in ("permutation", "reduce-scatter", "sendrecv", "training")),
    *(f"bench {kind}" for kind in ("write-bw", "write-lat")),
    *(f"bundle {verb}" for verb in ("create", "open")),
    *(f"campaign {verb}" for verb in ("baseline", "check", "export", "list", "report", "resume", "run")),
    *(f"campaign {verb}" for verb in ("merge", "show", "shrink", "soak", "stats")),
    *("capture", "check", "compare", "demo", "doctor", "down"),
    *(f"ev {verb}" for verb in ("allow", "deny", "explain", "list", "probe")),
    "exec",
    *(f"fault add {kind}" for kind in KINDS),
    *(f"fault {verb}" for verb in ("clear", "kinds", "list", "reveal")),
    *("graph", "inspect", "launch", "logs"),
    *(f"observe {verb}" for verb in ("alerts", "down", "export", "metrics", "open")),
    *(f"observe {verb}" for verb in ("status", "up")),
    *(f"observe dashboards {verb}" for verb in ("annotate", "check", "push", "remove")),
    *("probe links", "replay", "report", "restart", "run", "serve"),
    *("scenarios copy", "scenarios list"),
    *("setup host", "setup image", "shell", "size", "status", "top", "up", "validate", "why"),
]


def application(listed):
    for each in listed:
        import_module(f"mrc_testbed.cli.{each.module}")
    return OBSERVE_COMMANDS if listed is OBSERVE else COMMANDS


def commands(app, prefix=""):
    for each in app.registered_commands:
        yield f"{prefix}{each.name}", each
    for group in app.registered_groups:
        made = {"observe": application(OBSERVE), "add": adders(KINDS)}
        inner = made.get(group.name) or group.typer_instance
        yield from commands(inner, f"{prefix}{group.name} ")


@cache
def all_commands():
    return dict(commands(application(LISTED)))


def test_the_commands_are_these():
    """A command that is listed works; one that is not there yet is not listed."""
    assert sorted(all_commands()) == sorted(NAMES)


@pytest.mark.parametrize("listed", [LISTED, OBSERVE], ids=["all", "observe"])
def test_a_group_lists_each_command_with_the_first_paragraph_of_its_help(listed):
    app = application(listed)
    helps = {each.name: each.callback.__doc__ for each in app.registered_commands}
    helps |= {
        each.name: each.typer_instance.info.help for each in app.registered_groups if each.typer_instance
    }
    firsts = {
        name: " ".join(inspect.cleandoc(text or "").split("\n\n")[0].split()) for name, text in helps.items()
    }
    assert {each.name: each.summary for each in listed} == firsts


@pytest.mark.parametrize("table", [LISTED, OBSERVE], ids=["all", "observe"])
def test_each_module_registers_the_commands_that_are_said_to_be_its(table):
    made = application(table)
    groups = {each.name: each.typer_instance for each in made.registered_groups}
    modules = {each.name: each.callback.__module__ for each in made.registered_commands}
    for listed in table:
        module = import_module(f"mrc_testbed.cli.{listed.module}")
        if listed.name in groups:
            assert module.app is groups[listed.name]
        else:
            assert modules[listed.name] == module.__name__


def test_the_version_is_printed(mrc_testbed):
    finished = mrc_testbed("--version")
    assert finished.status == 0
    assert re.fullmatch(r"mrc-testbed \S+, Python 3\.\S+, Linux \S+ \S+\n", finished.stdout)


def test_help_of_a_fault_fits_a_screen(mrc_testbed):
    finished = mrc_testbed("fault", "add", "loss", "--help")
    assert len(finished.stdout.splitlines()) <= 30
    assert "--ratio" in finished.stdout
    assert not any(other in finished.stdout for other in ("--every", "--burst", "--rate", "--node"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_of_a_fault_is_one(kind):
    arguments = shlex.split(example(kind))[4:]
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    place = options.pop(f"--{KINDS[kind].selects}")
    given = {
        name.removeprefix("--"): int(text) if text.isdecimal() else text for name, text in options.items()
    }
    fault = parse_fault(kind, place, given, ())
    assert fault.choose(resolve_topology(TopologySpec()), 1)[0]


def test_a_bundle_is_created_without_the_word(mrc_testbed):
    for words in (
        ["bundle", "nothing"],
        ["bundle", "create", "nothing"],
        ["bundle", "--into", "f", "nothing"],
    ):
        finished = mrc_testbed(*words)
        assert finished.status == 2
        assert "nothing" in finished.stderr


@pytest.mark.parametrize("words", [["-n", "up", "status", "-h"], ["status", "-n", "up", "-h"]])
def test_a_value_that_looks_like_a_command_is_none(mrc_testbed, words):
    assert "Usage: mrc-testbed status" in mrc_testbed(*words).stdout


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("be", ["bench"]),
        ("bench w", ["write-bw", "write-lat"]),
        ("bench all-", ["all-reduce", "all-gather", "all-to-all"]),
        ("bench all-reduce --dtype f", ["float32", "float64"]),
        ("bench training --collective b", ["broadcast"]),
        ("bench incast h", [f"h{index}" for index in range(8)]),
        ("bench write-bw h", [f"h{index}" for index in range(8)]),
        ("exec p3-t1", ["p3-t1-0", "p3-t1-1"]),
        ("run t0-t", ["t0-t1-flap"]),
        ("campaign run campaigns/l", ["campaigns/loss-ratio"]),
        ("validate paper/p2", ["paper/p2p"]),
        ("scenarios copy p2p paper/a", ["paper/all", "paper/allreduce", "paper/alltoall"]),
        ("fault add nic-p", ["nic-port-down"]),
        ("fault add loss --link h7:3", ["h7:3~p3-t0-1:3"]),
    ],
)
def test_tab_completes_commands_kinds_and_names(monkeypatch, capsys, line, offered):
    monkeypatch.setenv("_MRC_TESTBED_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"mrc-testbed {line}")
    monkeypatch.setenv("COMP_CWORD", str(len(f"x {line}x".split()) - 1))
    with pytest.raises(SystemExit):  # typer ends the process that a shell asks
        run([])
    assert capsys.readouterr().out.split() == offered


def test_the_completion_script_names_the_program(monkeypatch, capsys):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    with pytest.raises(SystemExit, match="0"):  # typer ends the process
        run(["--show-completion", "bash"])
    assert "complete -o default -F _mrc_testbed_completion mrc-testbed" in capsys.readouterr().out


@pytest.mark.parametrize("name", [*NAMES, *ALIASES])
def test_help_of_each_command(mrc_testbed, name):
    finished = mrc_testbed(*name.split(), "--help")
    assert finished.status == 0
    assert f"Usage: mrc-testbed {name}" in finished.stdout
    assert "--output" in finished.stdout
    assert finished.stderr == ""


@pytest.mark.parametrize(("name", "command"), sorted(all_commands().items()))
def test_help_texts_fit_a_terminal(name, command):
    text = inspect.cleandoc(command.callback.__doc__)
    assert [line for line in text.splitlines()[1:] if len(line) > WIDTH] == []


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"doctor", "setup host", "setup image", "fault list"}))
def test_commands_with_arguments_have_examples(name):
    command = all_commands()[name]
    assert re.search(r"Examples?\[/bold\]", command.callback.__doc__)


def test_the_overview_fits_a_terminal_and_reports_the_exit_statuses(mrc_testbed):
    finished = mrc_testbed("--help")
    assert finished.status == 0
    for words in ("0 done", "3 machine not ready", "7 result UNTRUSTED", "130 interrupted"):
        assert words in finished.stdout
    assert all(len(line) <= 80 for line in finished.stdout.splitlines())


def test_without_a_command_the_overview_is_shown(mrc_testbed):
    finished = mrc_testbed()
    assert finished.status == 2
    assert "Usage: mrc-testbed" in finished.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["upp"], "No such command 'upp'. Did you mean 'up'?"),
        (["up", "--runtme", "netns"], "No such option: --runtme"),
        (["fault", "ad"], "No such command 'ad'"),
        (["up", "--runtime", "podman"], "'podman' is not one of 'docker', 'netns'"),
        (["ev", "list", "h0"], "Missing argument 'TO'"),
    ],
)
def test_a_wrong_command_line_says_what_and_where_to_look(mrc_testbed, arguments, message):
    finished = mrc_testbed(*arguments)
    assert finished.status == 2
    assert finished.stdout == ""
    assert message in finished.stderr
    assert "--help" in finished.stderr


IMPORTS = """
import json, sys
from mrc_testbed.cli.app import run
try:
    for command in json.loads(sys.argv.pop()):
        run(command)
finally:
    print(*sys.modules, file=sys.stderr)
"""


def imported_by(*commands, **environment):
    """Modules that these command lines import together, in a process of their own."""
    finished = subprocess.run(
        [sys.executable, "-c", IMPORTS, json.dumps(commands)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return set(finished.stderr.splitlines()[-1].split())


SLOW = {"docker", "requests", "ansible_runner", "mininet", "numpy", "grafana_client"}
"""Packages that take a tenth of a second or more to import."""


def test_the_overview_imports_no_command():
    found = imported_by(["--help"])
    assert not found & {*SLOW, "yaml", "mrc_agents.abi", "mrc_testbed.document"}
    assert not {name for name in found if name in {f"mrc_testbed.cli.{each.module}" for each in LISTED}}


def test_completing_a_command_imports_none():
    found = imported_by(
        [], _MRC_TESTBED_COMPLETE="complete_bash", COMP_WORDS="mrc-testbed st", COMP_CWORD="1"
    )
    assert "mrc_testbed.cli.commands" in found
    assert not found & {*SLOW, "yaml", "mrc_agents.abi", "mrc_testbed.document", "mrc_testbed.cli.status"}


def test_completing_a_host_imports_no_slow_package():
    found = imported_by(
        [], _MRC_TESTBED_COMPLETE="complete_bash", COMP_WORDS="mrc-testbed ev list h", COMP_CWORD="3"
    )
    assert "mrc_testbed.cli.ev" in found
    assert not found & SLOW


def test_status_imports_neither_scenarios_nor_kinds_of_faults():
    # an engine that answers is asked for labs, by its own library
    found = imported_by(["status"], MRC_TESTBED_STATE_DIR="/nonexistent", DOCKER_HOST="unix:///nonexistent")
    assert "mrc_testbed.cli.status" in found
    slow = {
        "mrc_testbed.scenario",
        "mrc_testbed.workloads",
        "mrc_testbed.faults",
        "mrc_testbed.metrics",
        "rich.markdown",
    }
    assert not found & (SLOW | slow)


def test_no_command_imports_a_slow_package_to_be_parsed():
    names = {each.name for each in LISTED}
    assert not imported_by(*([name, "--help"] for name in sorted(names))) & SLOW
    assert not imported_by(*(["observe", each.name, "--help"] for each in OBSERVE)) & SLOW


RUNS = (
    *("jinja2", "numpy", "psutil", "mrc_testbed.bundle", "mrc_testbed.campaign", "mrc_testbed.soak"),
    *("mrc_testbed.report.page", "mrc_testbed.scenario.run", "mrc_testbed.virtual.world"),
)
NEVER_USED = {
    "fault add --help": ("jinja2", "yaml", "mrc_testbed.fabric.lab", "mrc_testbed.faults.ledger"),
    "fault add loss --help": ("jinja2", "yaml", "mrc_testbed.fabric.lab", "mrc_testbed.faults.ledger"),
    "run --help": RUNS,
    "run --dry-run t0-t1-flap": (*RUNS, "rich.markdown"),
    "validate t0-t1-flap": (*RUNS, "rich.markdown"),
}
"""Command line -> packages and modules that it does without."""


@pytest.mark.parametrize("line", NEVER_USED)
def test_a_command_imports_nothing_that_it_does_not_use(line):
    found = imported_by(line.split())
    assert "mrc_testbed.cli.commands" in found
    assert not [
        name for name in found if f"{name}.".startswith(tuple(f"{each}." for each in NEVER_USED[line]))
    ]


def test_completing_a_scenario_imports_nothing_that_runs_it():
    found = imported_by(
        [], _MRC_TESTBED_COMPLETE="complete_bash", COMP_WORDS="mrc-testbed run t", COMP_CWORD="2"
    )
    assert "mrc_testbed.cli.scenario" in found
    assert not found & set(RUNS)


def test_help_of_every_command_needs_no_extra(tmp_path):
    ended = without_extras([f"{name} --help" for name in NAMES], tmp_path)
    assert [(name, each.stderr) for name, each in zip(NAMES, ended, strict=True) if each.status] == []
