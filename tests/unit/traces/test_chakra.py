"""Files of Chakra: what protobuf reads of ours, what we read of others, and what is refused."""

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st
from made_traces import CPU, call, node, rank, receive, send

from mrc_testbed.errors import UsageError
from mrc_testbed.traces import chakra
from mrc_testbed.traces.chakra import decode, encode
from mrc_testbed.traces.graph import GroupCall, StepMark
from mrc_testbed.traces.protobuf import delimited, field, read_delimited

SCHEMA = {
    "AttributeProto": {
        "name": (1, "string"),
        "int32_val": (7, "int32"),
        "int64_val": (9, "int64"),
        "uint32_val": (11, "uint32"),
        "uint64_val": (13, "uint64"),
        "sint64_val": (17, "sint64"),
        "bool_val": (27, "bool"),
        "string_val": (29, "string"),
        "double_val": (3, "double"),
    },
    "GlobalMetadata": {"version": (1, "string"), "attr": (2, "*AttributeProto")},
    "IOInfo": {"values": (1, "string")},
    "Node": {
        "id": (1, "uint64"),
        "name": (2, "string"),
        "type": (3, "int32"),
        "ctrl_deps": (4, "*uint64"),
        "data_deps": (5, "*uint64"),
        "start_time_micros": (6, "uint64"),
        "duration_micros": (7, "uint64"),
        "inputs": (8, "IOInfo"),
        "attr": (10, "*AttributeProto"),
    },
}
"""Numbers and types of fields in et_def.proto of MLCommons' Chakra, as far as traces have them."""


def messages():
    """The classes that protobuf makes of the schema, by name."""
    file = descriptor_pb2.FileDescriptorProto(name="et.proto", package="et", syntax="proto3")
    for message, fields in SCHEMA.items():
        described = file.message_type.add(name=message)
        for name, (number, kind) in fields.items():
            label, one = 3 if kind.startswith("*") else 1, kind.lstrip("*")
            if one in SCHEMA:
                described.field.add(name=name, number=number, label=label, type=11, type_name=f".et.{one}")
            else:
                of = descriptor_pb2.FieldDescriptorProto.Type.Value(f"TYPE_{one.upper()}")
                described.field.add(name=name, number=number, label=label, type=of)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = (pool.FindMessageTypeByName(f"et.{name}") for name in SCHEMA)
    return {each.name: message_factory.GetMessageClass(each) for each in found}


MESSAGES = messages()
TRACE = rank(
    node(0, StepMark(3)),
    node(1, CPU, 0, us=1234),
    node(2, call("all-reduce", 1 << 20, "dp"), 1, us=77),
    node(3, call("broadcast", 77, root=2), 2),
    node(4, send(3, tag=-1), 1, 2),
    node(5, receive(3, tag=9), 1),
    node(6, call("barrier", 0)),
    dp=(0, 1, 5),
)


def test_what_is_written_is_read():
    found = decode(encode(TRACE), "f")
    assert found.nodes[1:] == TRACE.nodes
    assert found.groups == TRACE.groups


def test_protobuf_reads_what_is_written():
    head, groups, *nodes = read_delimited(encode(TRACE))
    assert MESSAGES["GlobalMetadata"].FromString(head).version
    assert '"pg_name": "dp", "ranks": [0, 1, 5]' in MESSAGES["Node"].FromString(groups).inputs.values
    read = [MESSAGES["Node"].FromString(each) for each in nodes]
    assert [each.type for each in read] == [1, 4, 7, 7, 5, 6, 7]
    assert [each.name for each in read][:2] == ["ProfilerStep#3", "Compute"]
    assert [list(each.data_deps) for each in read] == [list(each.after) for each in TRACE.nodes]
    assert (read[1].duration_micros, read[2].duration_micros) == (1234, 77)
    attributes = [{each.name: each for each in one.attr} for one in read]
    assert attributes[2]["comm_size"].int64_val == 1 << 20
    assert attributes[2]["pg_name"].string_val == "dp"
    assert attributes[3]["comm_type"].int64_val == 5
    assert (attributes[4]["comm_dst"].int64_val, attributes[4]["comm_tag"].int64_val) == (3, -1)
    assert not attributes[5]["is_cpu_op"].bool_val


def test_what_others_write_is_read():
    """As the converter of PyTorch's traces does: zeros left out, attributes of several types."""
    made = MESSAGES["Node"]
    first = made(name="## process_group:init ##", type=1)
    first.inputs.values = r"[[{\"pg_name\": \"1\", \"ranks\": [0, 2]}, {\"pg_name\": \"0\", \"ranks\": []}]]"
    second = made(id=1, name="nccl:all_reduce", type=7, ctrl_deps=[0], data_deps=[0])
    second.attr.add(name="comm_size", uint64_val=4096)
    second.attr.add(name="pg_name", string_val="1")
    second.attr.add(name="is_cpu_op", bool_val=False)
    third = made(id=2, name="c10d::allreduce_", type=7, duration_micros=55)
    fourth = made(id=3, name="gemm", type=4, ctrl_deps=[1, 2])
    fourth.attr.add(name="is_cpu_op", int32_val=0)
    fourth.attr.add(name="tensor_loc", double_val=0.5)
    fifth = made(id=4, name="send", type=5)
    for name, value in (("comm_size", 9), ("comm_dst", 3), ("comm_tag", 4)):
        fifth.attr.add(name=name, sint64_val=value)
    data = b"".join(
        delimited(message.SerializeToString()) for message in (made(), first, second, third, fourth, fifth)
    )
    found = decode(data, "f")
    assert [each.work for each in found.nodes] == [
        None,
        GroupCall("all-reduce", "1", 4096),
        None,  # the CPU's part, which has no size
        type(CPU)("device"),
        send(3, 9, 4),
    ]
    assert found.groups == {"1": (0, 2)}
    assert found.nodes[3].after == (1, 2)


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (field(1, 9) + field(3, 12), "node 9: node type 12 is none of 1 to 7"),
        (field(1, 9), "node 9: node type 0 is none of 1 to 7"),
        (
            field(1, 9) + field(3, 7) + field(10, field(1, "comm_type") + field(9, 99)),
            "node 9: there is no comm_type 99",
        ),
        (
            field(1, 9) + field(3, 7) + field(10, field(1, "comm_size") + field(9, -5)),
            "node 9: comm_size is -5",
        ),
        (
            field(1, 9) + field(3, 7) + field(10, field(1, "comm_size") + field(29, "big")),
            "node 9: comm_size is 'big'; expected a whole number",
        ),
        (field(1, 9) + field(3, 4) + field(7, -5), "node 9: a duration of -5000 ns"),
        (
            field(1, 9)
            + field(2, "## process_group:init ##")
            + field(3, 1)
            + field(8, field(1, '[{"ranks":')),
            None,
        ),
        (b"\x0b", "behind node 6: field 1 of wire type 3 is no protobuf"),
    ],
)
def test_a_node_that_is_none_is_named(message, complaint):
    data = encode(TRACE) + delimited(message)
    if complaint is None:
        assert decode(data, "f").groups == TRACE.groups
        return
    with pytest.raises(UsageError) as caught:
        decode(data, "f")
    assert caught.value.message == f"f: {complaint}; expected a Chakra execution trace"


def decoded(data):
    """The nodes in data; None: it is refused, by the name of its file."""
    try:
        return decode(data, "f").nodes
    except UsageError as error:
        if not error.message.startswith("f: "):
            raise
        return None


def test_a_file_that_is_truncated_is_read_only_behind_a_node():
    data = encode(TRACE)
    whole = [found[1:] for length in range(len(data) + 1) if (found := decoded(data[:length]))]
    assert whole == [TRACE.nodes[:count] for count in range(len(TRACE.nodes) + 1)]


def test_too_many_nodes_are_refused(monkeypatch):
    monkeypatch.setattr(chakra, "NODES_MAX", 9)
    with pytest.raises(UsageError, match="f: behind node 0: more than 9 nodes"):
        decode(encode(TRACE) + delimited(field(3, 1)) * 2, "f")


@given(st.binary(max_size=60))
def test_any_bytes_are_a_trace_or_refused(data):
    assert decoded(data) != ()
    assert decoded(delimited(b"") + delimited(data)) != ()
