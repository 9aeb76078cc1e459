"""Files of a kind: what `load` and `validate` give when all is well, and errors that come from elsewhere."""

import os
from pathlib import Path

import pytest
from document_models import Direction, Flap, Loss, Spec, Topology

from mrc_testbed.document.envelope import Kind, Metadata, json_schema, load, validate, validate_values
from mrc_testbed.document.problem import Problem
from mrc_testbed.errors import UsageError

TEXT = """
apiVersion: mrc-testbed/v1
kind: Scenario
metadata: {name: t0-t1-flap, description: links flap, paper: Fig. 9d, tags: [flap, paper]}
spec:
  topology: {planes: 4, t0: 2, port_rate: 50Mbit}
  faults:
    - {kind: link-flap, every: 1s, down: 200ms, for: 8s, direction: a-to-b}
    - {kind: loss, ratio: 5%}
  labels: {a: 1}
"""


def test_valid_file_becomes_a_spec() -> None:
    document = load(TEXT, Kind.SCENARIO)
    assert document.kind is Kind.SCENARIO
    assert document.path is None
    assert document.metadata == Metadata(
        name="t0-t1-flap", description="links flap", paper="Fig. 9d", tags=("flap", "paper")
    )
    flap = Flap.model_validate(
        {
            "kind": "link-flap",
            "every": 10**9,
            "down": 2 * 10**8,
            "for": 8 * 10**9,
            "direction": Direction.A_TO_B,
        }
    )
    assert validate(document, Spec) == Spec(
        topology=Topology(planes=4, t0=2, port_rate=50_000_000),
        faults=(flap, Loss(kind="loss", ratio=0.05)),
        labels={"a": 1},
    )


def test_file_of_any_kind_can_be_asked_for() -> None:
    assert load(TEXT).kind is Kind.SCENARIO
    assert load(TEXT, "Scenario").kind is Kind.SCENARIO


def test_another_kind_is_refused_by_name() -> None:
    said = r"^<text>:3: kind: must be Topology, found 'Scenario', which is for `mrc-testbed run`$"
    with pytest.raises(UsageError, match=said):
        load(TEXT, Kind.TOPOLOGY)


def test_file_keeps_its_path(tmp_path: Path) -> None:
    path = tmp_path / "flap.yaml"
    path.write_text(TEXT)
    assert load(path).path == path


def test_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "absent.yaml"
    with pytest.raises(UsageError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: cannot be read: {os.strerror(2)}"


def test_folder_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder, not a regular file"):
        load(tmp_path)


def test_file_that_is_not_utf8_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"a: 1\nb: caf\xe9\n")
    with pytest.raises(UsageError) as caught:
        load(path)
    assert str(caught.value) == f"{path}:2: not UTF-8 text"


def test_metadata_alone_is_checked_with_its_place() -> None:
    document = load(TEXT.replace("t0-t1-flap", "T0 flap"))
    with pytest.raises(UsageError, match=r"^<text>:4: metadata.name: must match .*, found 'T0 flap'$"):
        _ = document.metadata


def test_later_stages_report_problems_with_lines_too() -> None:
    document = load(TEXT)
    problems = [
        Problem(("spec", "faults", 1, "select"), "no link matches plane 9"),
        Problem(("spec", "topology", "planes"), "too many for this machine"),
    ]
    assert str(document.usage_error(problems)) == (
        "<text>:6: spec.topology.planes: too many for this machine\n"
        "<text>:9: spec.faults[1].select: no link matches plane 9"
    )


def test_long_lists_of_problems_are_cut() -> None:
    document = load(TEXT)
    error = document.usage_error(Problem(("spec", str(number)), "wrong") for number in range(25))
    assert len(str(error).splitlines()) == 21
    assert str(error).endswith("<text>: and 5 more")


def test_values_from_the_command_line_are_checked_without_lines() -> None:
    assert validate_values(
        {"planes": 4, "t0": 2, "port_rate": "1Gbit"}, Topology, "command line"
    ) == Topology(planes=4, t0=2, port_rate=10**9)
    with pytest.raises(UsageError) as caught:
        validate_values({"planes": 0, "t0": 2, "port_rate": 5}, Topology, "command line")
    assert str(caught.value).splitlines() == [
        "command line: planes: must be at least 1, found 0",
        "command line: port_rate: '5' is not a rate: it has no unit; write it like 100Mbit "
        "(units: bit, kbit, Mbit, Gbit)",
    ]


def test_json_schema_describes_the_whole_file() -> None:
    schema = json_schema(Kind.SCENARIO, Spec)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["required"] == ["apiVersion", "kind", "metadata", "spec"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["apiVersion"]["const"] == "mrc-testbed/v1"
    assert schema["properties"]["kind"]["const"] == "Scenario"
    assert "for" in schema["$defs"]["Flap"]["properties"]
