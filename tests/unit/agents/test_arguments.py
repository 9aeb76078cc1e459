"""Arguments of verbs: a wrong name or type is an error that says which and what is accepted."""

from pathlib import Path
from typing import Any

import pytest
from virtual_nic import virtual_nic

from mrc_agents.nic.arguments import check_arguments
from mrc_agents.nic.config import NicSettings
from mrc_agents.nic.verbs import Verbs
from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec

NO_OPS: list[dict[str, Any]] = []


def verb(
    qpn: int,
    evs: list[int],
    kind: str = "ev",
    immediate: int | None = None,
    ops: list[dict[str, Any]] = NO_OPS,
) -> None:
    """A verb."""


def generous(qpn: int, **attributes: int) -> None:
    """One that takes further attributes."""


@pytest.mark.parametrize(
    "arguments",
    [
        {"qpn": 1, "evs": []},
        {"qpn": 1, "evs": [1, 2], "kind": "x", "immediate": None},
        {"qpn": 1, "evs": [], "immediate": 3, "ops": [{"a": 1}]},
    ],
)
def test_what_fits_passes(arguments: dict[str, object]) -> None:
    check_arguments(verb, arguments)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"evs": []}, "qpn: missing; an integer is needed"),
        ({"qpn": 1}, "evs: missing; a list of integers is needed"),
        ({"qpn": "1", "evs": []}, "qpn: '1'; an integer is accepted"),
        ({"qpn": True, "evs": []}, "qpn: True; an integer is accepted"),
        ({"qpn": 1.0, "evs": []}, "qpn: 1.0; an integer is accepted"),
        ({"qpn": 1, "evs": 3}, "evs: 3; a list of integers is accepted"),
        ({"qpn": 1, "evs": ["x"]}, r"evs: \['x'\]; a list of integers is accepted"),
        ({"qpn": 1, "evs": [], "kind": None}, "kind: None; text is accepted"),
        ({"qpn": 1, "evs": [], "immediate": "x"}, "immediate: 'x'; an integer or null is accepted"),
        ({"qpn": 1, "evs": [], "ops": [3]}, r"ops: \[3\]; a list of objects is accepted"),
        ({"qpn": 1, "evs": [], "kin": "x"}, "kin: not an argument.*kind.*known: qpn, evs, kind"),
    ],
)
def test_what_does_not_fit_is_named(arguments: dict[str, object], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        check_arguments(verb, arguments)


def test_further_attributes_have_a_type_too() -> None:
    check_arguments(generous, {"qpn": 1, "other": 2})
    with pytest.raises(UsageError, match="other: 'x'; an integer is accepted"):
        check_arguments(generous, {"qpn": 1, "other": "x"})


def test_every_verb_says_what_it_takes(tmp_path: Path) -> None:
    with virtual_nic(Clos(TopologySpec())) as nic:
        verbs = Verbs(NicSettings("h0"), nic)
    for verb in verbs.table.values():
        with pytest.raises(UsageError, match=r"not an argument|missing|is accepted"):
            check_arguments(verb, {"no_such_argument": None})
