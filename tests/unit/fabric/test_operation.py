"""Operations survive the ledger, and a ledger survives whatever ended its writer."""

from pathlib import Path

import pytest

from mrc_testbed.fabric.plan import (
    BuildLedger,
    BuildOperation,
    OperationKind,
    decode_operation,
    encode_operation,
    read_ledger,
)

ONE_OF_EACH = (
    BuildOperation(OperationKind.PREPARE_PINS),
    BuildOperation(OperationKind.CREATE_NODE, "p0-t0-0"),
    BuildOperation(OperationKind.CREATE_LINK, "h0:0~p0-t0-0:0"),
    BuildOperation(OperationKind.LOAD_FABRIC),
    BuildOperation(OperationKind.LOAD_NIC, "h0"),
    BuildOperation(OperationKind.CONNECT_NODE, "h0"),
    BuildOperation(OperationKind.START_DRAINER),
    BuildOperation(OperationKind.START_AGENT, "h0"),
)
CREATE_H0 = BuildOperation(OperationKind.CREATE_NODE, "h0")
CREATE_H1 = BuildOperation(OperationKind.CREATE_NODE, "h1")


@pytest.mark.parametrize("operation", ONE_OF_EACH)
def test_an_operation_is_read_back_as_it_was_written(operation: BuildOperation) -> None:
    assert decode_operation(encode_operation(operation)) == operation


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        "CreateNode",
        {"operation": "CreateNode"},
        {"operation": "CreateNode", "node": "h0", "more": "x"},
        {"operation": "DeleteEverything"},
        {"operation": ["CreateNode"], "node": "h0"},
        {"operation": "CreateNode", "node": 7},
        {"operation": "CreateNode", "host": "h0"},
        {"operation": "LoadFabric", "node": "h0"},
    ],
)
def test_what_is_no_operation_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="not an operation"):
        decode_operation(value)


def test_a_ledger_keeps_operations_in_order_over_several_openings(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with BuildLedger(path) as ledger:
        ledger.announce(ONE_OF_EACH[:3])
    with BuildLedger(path) as ledger:
        ledger.announce(ONE_OF_EACH[3:])
    assert read_ledger(path) == ONE_OF_EACH


def test_an_announced_operation_is_in_the_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with BuildLedger(path) as ledger:
        ledger.announce([CREATE_H0])
        assert read_ledger(path) == (CREATE_H0,)


@pytest.mark.parametrize("cut_bytes", range(1, 30))
def test_a_line_cut_short_hides_no_other(tmp_path: Path, cut_bytes: int) -> None:
    path = tmp_path / "ledger.jsonl"
    with BuildLedger(path) as ledger:
        ledger.announce([CREATE_H0, CREATE_H1])
    path.write_bytes(path.read_bytes()[:-cut_bytes])
    read = read_ledger(path)
    assert read[0] == CREATE_H0
    assert len(read) == (2 if cut_bytes == 1 else 1)


def test_bytes_that_are_no_text_hide_no_other_line(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b'\xff\xfe\x00\n{"operation": "CreateNode", "node": "h1"}\n')
    assert read_ledger(path) == (CREATE_H1,)


def test_a_missing_ledger_is_empty(tmp_path: Path) -> None:
    assert read_ledger(tmp_path / "ledger.jsonl") == ()
