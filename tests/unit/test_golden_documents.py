"""Documents that need no lab have the shapes of their golden files; and every kind of document has one."""

import json
import re
import tempfile

import golden_documents
import pytest
from golden_documents import GOLDEN, check_document, fits, merge, shape
from size import document_kinds

from mrc_testbed.cli.app import run
from mrc_testbed.fabric import known_labs, ownership
from mrc_testbed.installation import ROOT

SCENARIO = str(ROOT / "scenarios" / "nic-port-down.yaml")
CAMPAIGN = str(ROOT / "scenarios" / "campaigns" / "loss-ratio.yaml")
COMMANDS = {
    "Validation": ["validate", SCENARIO],
    "Plan": ["run", SCENARIO, "--dry-run"],
    "CampaignPlan": ["campaign", "run", CAMPAIGN, "--dry-run"],
    "LabPlan": ["up", "--dry-run"],
    "LabList": ["status"],
    "Inspection": ["inspect"],
    "Graph": ["graph"],
    "EvPath": ["ev", "explain", "h0", "h5", "0x00000000"],
    "EvSet": ["ev", "list", "h0", "h5"],
    "FabricSize": ["size", "131072"],
    "FaultKinds": ["fault", "kinds"],
    "StackExport": ["observe", "export", "exported"],
    "ScenarioList": ["scenarios", "list"],
    "ScenariosCopied": ["scenarios", "copy", "t0-t1-flap"],
}
ELSEWHERE = {
    "Schema": "a schema itself: docs/reference/scenario.md is made of it",
    **dict.fromkeys(("HostPrepared", "ImageBuilt"), "Ansible's changes to the machine"),
    **dict.fromkeys(("DashboardsPushed", "DashboardsChecked", "DashboardsRemoved"), "needs a Grafana"),
    "RunAnnotated": "needs a Grafana",
    **dict.fromkeys(("StackUp", "StackStatus", "StackRemoved", "Alerts"), "needs Prometheus"),
}
"""Kinds of documents without a golden file, and why."""


@pytest.fixture(autouse=True)
def no_lab(monkeypatch, tmp_path):
    """No lab of this machine is seen."""
    monkeypatch.setattr(ownership, "namespace_names", list)
    monkeypatch.setattr(known_labs, "claimed_labs", frozenset)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent")
    monkeypatch.chdir(tmp_path)
    with tempfile.TemporaryDirectory(prefix="mrc-") as short:  # enough for the path of a socket
        monkeypatch.setenv("MRC_TESTBED_STATE_DIR", short)
        yield


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_document_has_its_shape(kind, capsys):
    assert run([*COMMANDS[kind], "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kind"] == kind
    check_document(kind, found)


def test_every_kind_of_document_has_a_golden_file():
    kinds = document_kinds(ROOT)
    assert len(kinds) > 30
    golden = {path.stem for path in GOLDEN.glob("*.json") if re.match("[A-Z]", path.stem)}
    assert golden | set(ELSEWHERE) == kinds
    assert not golden & set(ELSEWHERE)


@pytest.mark.parametrize(
    ("one", "other", "merged"),
    [
        ({"a": 1}, {"a": None}, {"a": "number"}),
        ({"a": []}, {"a": [1.5]}, {"a": ["number"]}),
        ({"a": {}}, {"a": {"b": 1}}, {"a": {"b": "number"}}),
        ([{"a": None}, {"a": "x"}], [], [{"a": "text"}]),
        ({"a": 1, "b": 1}, {"a": 1}, {"a": "number", "b?": "number"}),
        ({"f(a)": 1}, {"f(b)": None}, {"*": "number"}),
        ([{"a": 1}], [{"b": 1}], [{"a": "number"}, {"b": "number"}]),
    ],
)
def test_two_documents_fit_the_shape_that_they_are_merged_to(one, other, merged):
    assert merge(shape(one), shape(other)) == merged
    assert fits(merged, shape(one))
    assert fits(merged, shape(other))


@pytest.mark.parametrize(
    ("golden", "found"),
    [
        ({"a": 1, "b": 1}, {"b": 1}),
        ({"a": 1}, {"a": 1, "b": 1}),
        ({"a": 1}, {"a": "1"}),
        ({"a": True}, {"a": 1}),
        ({"a": {"b": 1}}, {"a": 1}),
        ({"a": [1]}, {"a": ["x"]}),
        ({"f(a)": 1}, {"f(a)": "x"}),
        ({"a": [{"b": 1, "c": 1}]}, {"a": [{"b": 1}]}),
        ({"schema_version": 1}, {"schema_version": 2}),
    ],
)
def test_another_shape_is_found(monkeypatch, tmp_path, golden, found):
    monkeypatch.setattr(golden_documents, "GOLDEN", tmp_path)
    monkeypatch.delenv("GOLDEN", raising=False)
    (tmp_path / "X.json").write_text(json.dumps(shape(golden)))
    check_document("X", golden)
    with pytest.raises(AssertionError):
        check_document("X", found)
