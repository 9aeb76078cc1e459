"""Any tree at all is either a model or a list of located problems."""

from document_models import Spec
from hypothesis import given
from hypothesis import strategies as st

from mrc_testbed.document.problem import Tree, format_location
from mrc_testbed.document.validation import check

KEYS = ["topology", "faults", "hosts", "labels", "seed", "loud", "planes", "t0", "port_rate", "kind", "every",
        "down", "for", "direction", "ratio", "loss", "sead", ""]  # fmt: skip
VALUES = ["link-flap", "loss", "5s", "1s", "5%", "5", "100Mbit", "both", "x", "", "lab.yaml", "a" * 100]

scalars = st.sampled_from([*VALUES, None, True, False, 0, 5, -1, 0.5, 17, 10**30])
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=15,
)
faults = st.fixed_dictionaries(
    {"kind": st.sampled_from(["link-flap", "loss", "los"]) | scalars},
    optional=dict.fromkeys(("every", "down", "for", "ratio", "loss", "rati", "direction"), trees),
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "topology": trees,
        "faults": st.lists(faults, max_size=3) | trees,
        "hosts": trees,
        "labels": trees,
        "seed": trees,
        "sead": trees,
    },
)


@given(trees | specs)
def test_any_tree_is_a_model_or_has_problems(tree: Tree) -> None:
    model, problems = check(tree, Spec)
    assert (model is None) == bool(problems)
    for problem in problems:
        assert problem.message
        assert isinstance(format_location(problem.location), str)


@given(specs)
def test_problems_lie_in_the_file_or_name_a_key_that_should(tree: dict[str, Tree]) -> None:
    _, problems = check(tree, Spec)
    for problem in problems:
        *parents, last = problem.location
        node: Tree = tree
        for step in parents:
            assert isinstance(node, dict | list)
            node = node[step]  # type: ignore[index] # int steps in a list, text in a dict
        is_absent_key = problem.message == "required key is missing"
        assert is_absent_key or _holds(node, last)


def _holds(node: Tree, step: str | int) -> bool:
    if isinstance(node, list):
        return isinstance(step, int) and step < len(node)
    return isinstance(node, dict) and step in node


def test_location_with_a_key_that_does_not_print_is_escaped() -> None:
    assert format_location(("spec", "a\x1b[31m", 0, "b")) == "spec.'a\\x1b[31m'[0].b"
