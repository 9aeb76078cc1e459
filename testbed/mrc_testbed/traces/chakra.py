"""Chakra execution traces: a rank's graph as a file of protobuf messages, each behind its length. Pure.

The first message is a GlobalMetadata, the others are Nodes. Numbers of fields, types of nodes and kinds of
collectives are those of et_def.proto of MLCommons' Chakra. Groups come as PyTorch records them, in a node
`## process_group:init ##`; a step begins with a node `ProfilerStep#3`. Attribute duration_ns, which is ours,
is exact where the schema has microseconds.
"""

import json
import re
from collections.abc import Mapping
from typing import Final, get_args

from mrc_testbed.errors import UsageError
from mrc_testbed.traces.graph import (
    NODES_MAX,
    Compute,
    GroupCall,
    GroupCallKind,
    Message,
    RankTrace,
    StepMark,
    TraceNode,
    Work,
)
from mrc_testbed.traces.protobuf import (
    Value,
    delimited,
    field,
    read_delimited,
    read_fields,
    read_packed,
    signed,
)

_VERSION: Final = "0.0.4"
_GROUPS: Final = "## process_group:init ##"
_GROUP_LIST: Final = re.compile(r"\[\s*\{.*\}\s*\]", re.DOTALL)
_STEP: Final = re.compile(r"ProfilerStep#(\d{1,9})")
_DURATION_NS_MAX: Final = 10**18

_METADATA, _COMPUTE, _SEND, _RECEIVE, _COLLECTIVE = 1, 4, 5, 6, 7
_BARRIER: Final = 9
_KINDS: Final[dict[int, GroupCallKind]] = {
    **dict(enumerate(get_args(GroupCallKind)[:8])),
    8: "reduce-scatter",  # REDUCE_SCATTER_BLOCK
    _BARRIER: "barrier",
}
_NUMBER_OF: Final = {kind: number for number, kind in reversed(_KINDS.items())}

Attributes = Mapping[str, int | str]


def decode(data: bytes, source: str, *, with_ctrl_deps: bool = True) -> RankTrace:
    """Decode the file of a rank.

    Args:
        source: names it in messages.
        with_ctrl_deps: False: only data_deps are dependencies, as where ctrl_deps are call stacks.

    Raises:
        UsageError: names the file and the node at fault.
    """
    nodes: list[TraceNode] = []
    groups: dict[str, tuple[int, ...]] = {}
    where = "at its beginning"
    try:
        messages = read_delimited(data)
        next(messages, None)
        for message in messages:
            fields = list(read_fields(message))
            latest: dict[int, Value] = {1: 0, 2: b"", 3: 0, 6: 0, 7: 0, 8: b"", **dict(fields)}
            node_id, *_ = numbers = [int(latest[number] or 0) for number in (1, 3, 6, 7)]
            where = f"node {node_id}"
            after = [value for number, value in fields if number == 5 or (number == 4 and with_ctrl_deps)]
            nodes.append(_node(numbers, after, fields, _text(latest[2])))
            if nodes[-1].name == _GROUPS:
                groups |= _declared_groups(_text(latest[8]))
            where = f"behind node {node_id}"
            if len(nodes) > NODES_MAX:
                raise ValueError(f"more than {NODES_MAX} nodes")  # noqa: TRY301 - one place names the node
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise UsageError(f"{source}: {where}: {error}; expected a Chakra execution trace") from error
    if not nodes:
        raise UsageError(f"{source}: it has no node; expected a Chakra execution trace")
    return RankTrace(tuple(nodes), groups)


def _node(numbers: list[int], after: list[Value], fields: list[tuple[int, Value]], name: str) -> TraceNode:
    node_id, node_type, start_us, duration_us = numbers
    attributes = dict(_attribute(value) for number, value in fields if number == 10)
    duration_ns = _whole(attributes, "duration_ns", signed(duration_us) * 1000)
    if not 0 <= duration_ns <= _DURATION_NS_MAX:
        raise ValueError(f"a duration of {duration_ns} ns")
    return TraceNode(
        id=node_id,
        name=name,
        work=_work(name, node_type, attributes),
        after=tuple(each for value in after for each in read_packed(value)),
        start_ns=signed(start_us) * 1000,
        duration_ns=duration_ns,
    )


def _work(name: str, node_type: int, attributes: Attributes) -> Work | None:
    size_bytes = _whole(attributes, "comm_size", 0)
    if size_bytes < 0:
        raise ValueError(f"comm_size is {size_bytes}")
    if step := _STEP.fullmatch(name):
        return StepMark(int(step[1]))
    match node_type:
        case 1:
            return None
        case 2 | 3 | 4:
            return Compute("cpu" if attributes.get("is_cpu_op", 1) else "device")
        case 5 | 6:
            peer = _whole(attributes, "comm_dst" if node_type == _SEND else "comm_src", 0)
            return Message(peer, _whole(attributes, "comm_tag", 0), size_bytes, node_type == _SEND)
        case 7:
            number = _whole(attributes, "comm_type", 0)
            if number not in _KINDS:
                raise ValueError(f"there is no comm_type {number}")
            if "comm_size" not in attributes and number != _BARRIER:  # the CPU's part of one of the device
                return None
            root = _whole(attributes, "root_rank", 0) if "root_rank" in attributes else None
            return GroupCall(_KINDS[number], str(attributes.get("pg_name", "")), size_bytes, root)
        case _:
            raise ValueError(f"node type {node_type} is none of 1 to 7")


def _whole(attributes: Attributes, key: str, default: int) -> int:
    value = attributes.get(key, default)
    if isinstance(value, int):
        return value
    raise ValueError(f"{key} is {value!r}; expected a whole number")


def _attribute(message: Value) -> tuple[str, int | str]:
    """Name and value; an empty text for a value of a type that none of ours has."""
    name = ""
    value: int | str = ""
    for number, raw in read_fields(message if isinstance(message, bytes) else b""):
        match number, raw:
            case 1, bytes():
                name = _text(raw)
            case ((7 | 9), int()):
                value = signed(raw)
            case ((11 | 13 | 27), int()):
                value = raw
            case ((15 | 17), int()):
                value = (raw >> 1) ^ -(raw & 1)
            case 29, bytes():
                value = _text(raw)
    return name, value


def _text(data: Value) -> str:
    return data.decode(errors="replace") if isinstance(data, bytes) else ""


def _declared_groups(text: str) -> dict[str, tuple[int, ...]]:
    """Groups with their ranks, of those that list them: PyTorch leaves the ranks of all out."""
    found = _GROUP_LIST.search(text.replace('\\"', '"'))
    listed = json.loads(found[0]) if found else []
    return {str(each.get("pg_name")): tuple(map(int, each["ranks"])) for each in listed if each.get("ranks")}


def encode(trace: RankTrace) -> bytes:
    """Encode the file of a rank, which `decode` reads."""
    listed = [{"pg_name": name, "ranks": list(ranks)} for name, ranks in trace.groups.items()]
    unused = max((node.id for node in trace.nodes), default=0) + 1
    groups = field(1, unused) + field(2, _GROUPS) + field(3, _METADATA)
    groups += field(8, field(1, json.dumps(listed)))
    return b"".join(map(delimited, [field(1, _VERSION), groups, *map(_encoded, trace.nodes)]))


def _encoded(node: TraceNode) -> bytes:
    name, node_type = node.name, _METADATA
    attributes: dict[str, int | str] = {"duration_ns": node.duration_ns}
    match node.work:
        case StepMark(step=step):
            name = f"ProfilerStep#{step}"
        case Compute(stream=stream):
            node_type = _COMPUTE
            attributes["is_cpu_op"] = stream == "cpu"
        case GroupCall(kind=kind, group=group, size_bytes=size_bytes, root=root):
            node_type = _COLLECTIVE
            attributes |= {"is_cpu_op": False, "comm_type": _NUMBER_OF[kind], "comm_size": size_bytes}
            attributes |= {"pg_name": group} if group else {}
            attributes |= {} if root is None else {"root_rank": root}
        case Message(peer=peer, tag=tag, size_bytes=size_bytes, is_sent=is_sent):
            node_type = _SEND if is_sent else _RECEIVE
            attributes |= {"is_cpu_op": False, "comm_dst" if is_sent else "comm_src": peer}
            attributes |= {"comm_tag": tag, "comm_size": size_bytes}
    return b"".join(
        (
            field(1, node.id) + field(2, name) + field(3, node_type),
            *(field(5, each) for each in node.after),
            field(6, node.start_ns // 1000) + field(7, node.duration_ns // 1000),
            *(field(10, field(1, key) + field(_field_of(value), value)) for key, value in attributes.items()),
        )
    )


def _field_of(value: int | str) -> int:
    """Field of an attribute's value: string_val, bool_val or int64_val."""
    return 29 if isinstance(value, str) else 27 if isinstance(value, bool) else 9
