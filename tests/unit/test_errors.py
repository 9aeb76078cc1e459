"""The exception tree: exit codes are a public promise."""

import re

import pytest

from mrc_testbed import errors


@pytest.mark.parametrize(
    ("name", "exit_code"),
    [
        ("TestbedError", 1),
        ("UsageError", 2),
        ("PreflightError", 3),
        ("CleanupError", 6),
        ("FabricError", 1),
        ("AgentError", 1),
        ("FaultError", 1),
        ("Interrupted", 130),
    ],
)
def test_error_has_its_documented_exit_code(name: str, exit_code: int) -> None:
    error = getattr(errors, name)("what went wrong", hint="fix it")
    assert isinstance(error, errors.TestbedError)
    assert (error.exit_code, str(error), error.hint) == (exit_code, "what went wrong", "fix it")


def test_tree_at_the_head_of_the_module_is_the_tree_of_the_classes() -> None:
    drawn = dict(re.findall(r"(\w+) +(\d+)  ", errors.__doc__ or ""))
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    tree = [value for value in classes if issubclass(value, errors.TestbedError)]
    assert drawn == {value.__name__: str(value.exit_code) for value in tree}


@pytest.mark.parametrize(
    ("name", "ending"),
    [("planse", "; did you mean 'planes'?"), ("PLANES", "; did you mean 'planes'?"), ("zebra", "")],
)
def test_the_nearest_name_is_suggested_or_none(name: str, ending: str) -> None:
    assert errors.did_you_mean(name, ["planes", "t0", "t1"]) == ending


def test_suggestion_takes_any_iterable() -> None:
    assert errors.closest_name("p0-t0-9", (f"p0-t0-{index}" for index in range(2))) == "p0-t0-1"
