"""The process group of the backend: tensors become buffers of libmrc_coll."""

import atexit
import functools
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor

from mrc_torch import futures
from mrc_torch.failure import NAME, failed, refused
from mrc_torch.followers import Follower
from mrc_torch.library import CallAtEnd, CollectiveError, LiveCollectives, Reduction, Type, buffers
from mrc_torch.rank import is_virtual
from mrc_torch.reports import following, now_ns, trace, trace_start
from mrc_torch.steps import STEPS
from mrc_torch.untraced import untraced
from mrc_torch.virtual import VirtualCollectives, engine
from mrc_torch.work import BACKWARD, MrcWork

_TYPES: Final = {
    torch.float32: Type.F32,
    torch.float64: Type.F64,
    torch.float16: Type.F16,
    torch.bfloat16: Type.BF16,
    torch.int8: Type.I8,
    torch.uint8: Type.U8,
    torch.bool: Type.U8,
    torch.int32: Type.I32,
    torch.int64: Type.I64,
}
_REDUCTIONS: Final = (
    (dist.ReduceOp.SUM, Reduction.SUM),
    (dist.ReduceOp.AVG, Reduction.SUM),
    (dist.ReduceOp.PRODUCT, Reduction.PRODUCT),
    (dist.ReduceOp.MIN, Reduction.MIN),
    (dist.ReduceOp.MAX, Reduction.MAX),
    (dist.ReduceOp.BAND, Reduction.AND),
    (dist.ReduceOp.BOR, Reduction.OR),
    (dist.ReduceOp.BXOR, Reduction.XOR),
)
_OF_BITS: Final = (Reduction.AND, Reduction.OR, Reduction.XOR)
_OF_BOOL: Final = {Reduction.SUM: Reduction.MAX, Reduction.PRODUCT: Reduction.MIN}
_POINT_TO_POINT: Final = 1 << 63
_FOLLOWS: Final = 1 << 62
"""Bits of an operation's number; others count up from 0."""

Call = tuple[Any, ...]
"""Name of an operation of libmrc_coll, and its arguments behind the number."""


@dataclass
class _Process:
    """Engine of this process, and the names of the groups that use it."""

    engine: LiveCollectives | VirtualCollectives | None = None
    groups: set[str] = field(default_factory=set)


_PROCESS: Final = _Process()


def create(options: Any) -> "MrcProcessGroup":
    """The group that torch.distributed asks for; all its ranks call this.

    Raises:
        DistBackendError: there is no NIC, or a rank cannot be reached.
    """
    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    own = ranks[options.group_rank]
    timeout: timedelta = options.timeout
    try:
        if _PROCESS.engine is None:
            _PROCESS.engine = engine() if is_virtual() else LiveCollectives(own)
            atexit.register(_leave)
            _watch_process()
        _PROCESS.engine.meet(ranks, options.store, _ms(timeout))
    except CollectiveError as error:
        raise failed(f"rank {own}", str(error)) from error
    _PROCESS.groups.add(options.group_id)
    return MrcProcessGroup(_PROCESS.engine, ranks, options.group_rank, options.group_id, timeout)


@functools.cache
def _watch_process() -> None:
    def wait(is_done: Callable[[], bool], call_at_end: CallAtEnd) -> None:
        if _PROCESS.engine and not is_done():
            _PROCESS.engine.expect_future(is_done, call_at_end)

    futures.watch(wait)
    os.register_at_fork(after_in_child=_forget)


def _leave() -> None:
    if _PROCESS.engine:
        _PROCESS.engine.close()
        _PROCESS.engine = None
        atexit.unregister(_leave)


def _forget() -> None:
    """Leave the peers to the parent, in a child of fork()."""
    _PROCESS.engine = None
    _PROCESS.groups.clear()


def _ms(time: timedelta) -> int:
    return int(time.total_seconds() * 1000)


def _hashed(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")


def _checked(tensor: Tensor) -> Tensor:
    """A contiguous tensor with those elements: *tensor* itself if it is one."""
    if tensor.device.type != "cpu":
        raise refused(f"a tensor on {tensor.device}: the NIC has memory of the CPU only")
    if tensor.layout != torch.strided:
        raise refused(f"a tensor of layout {tensor.layout}")
    return tensor.detach().contiguous()


def _bytes(tensor: Tensor | None) -> tuple[int, int] | None:
    return None if tensor is None else (tensor.data_ptr(), tensor.numel() * tensor.element_size())


@untraced
class MrcProcessGroup(dist.ProcessGroup):  # type: ignore[misc]
    """Ranks that do collectives together; methods are those that torch.distributed calls."""

    def __init__(
        self,
        engine: LiveCollectives | VirtualCollectives,
        ranks: Sequence[int],
        rank: int,
        name: str,
        timeout: timedelta,
    ) -> None:
        super().__init__(rank, len(ranks))
        self._engine = engine
        self._group = engine.group(ranks, _hashed(f"{name} {ranks}"))
        self._index = rank
        self._ranks = ranks
        self._name = name
        self._description = ""
        self._timeout = timeout
        self._numbers = count()
        self._messages: Counter[tuple[int, int, int]] = Counter()

    # ---- what torch asks about a group

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def _get_backend(self, device: torch.device) -> "MrcProcessGroup":
        if device.type != "cpu":
            raise RuntimeError(f"{NAME}: no backend for {device}")  # as torch expects of all groups
        return self

    def getBackendName(self) -> str:  # noqa: N802
        return NAME

    def getSize(self) -> int:  # noqa: N802
        return len(self._ranks)

    def getRank(self) -> int:  # noqa: N802
        return self._index

    def getGroupName(self) -> str:  # noqa: N802
        return self._name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        self._name = name

    def getGroupDesc(self) -> str:  # noqa: N802
        return self._description

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        self._description = description

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the time-out of operations that begin later."""
        self._timeout = timeout

    def shutdown(self) -> None:
        """End the group; with the last one the process takes leave of its peers."""
        _PROCESS.groups.discard(self._name)
        if not _PROCESS.groups:
            _leave()

    abort = shutdown

    # ---- reductions

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> MrcWork:
        return self._all_reduce("all_reduce", tensors, opts)

    def _all_reduce(self, name: str, tensors: list[Tensor], opts: Any, root: int | None = None) -> MrcWork:
        reduction = opts.reduceOp if opts else dist.ReduceOp.SUM
        flat = [_checked(each) for each in tensors]
        calls = [self._reduce("all_reduce", each, each.numel(), reduction) for each in flat]

        def finish() -> None:
            for tensor, each in zip(tensors, flat, strict=True):
                self._average(each, reduction)
                _copy_back(tensor, each)

        return self._start(name, calls, finish, tensors, flat, opts, data=flat, peer=root)

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any = None) -> MrcWork:
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: list[Tensor], opts: Any) -> MrcWork:
        """All-reduce of which the root keeps the result."""
        own = tensors if self._index == opts.rootRank else [each.clone() for each in tensors]
        return self._all_reduce("reduce", own, opts, opts.rootRank)

    def _reduce_scatter_base(self, output: Tensor, given: Tensor, opts: Any = None) -> MrcWork:
        reduction = opts.reduceOp if opts else dist.ReduceOp.SUM
        work = _checked(given).clone().reshape(-1)
        chunk = work.view(self.getSize(), -1)[self._index]
        call = self._reduce("reduce_scatter", work, chunk.numel(), reduction)

        def finish() -> None:
            self._average(chunk, reduction)
            output.copy_(chunk.view(output.shape))

        return self._start("reduce_scatter", [call], finish, output, work, opts, data=[work])

    reduce_scatter_single = reduce_scatter_tensor = _reduce_scatter_base

    def reduce_scatter(self, outputs: list[Tensor], given: list[list[Tensor]], opts: Any = None) -> MrcWork:
        ((output,), (parts,)) = outputs, given
        if any(part.numel() != output.numel() for part in parts):
            raise refused("reduce_scatter of parts of different sizes")
        return self._reduce_scatter_base(output, torch.cat([part.reshape(-1) for part in parts]), opts)

    def reduce_scatter_tensor_coalesced(
        self, outputs: list[Tensor], given: list[Tensor], opts: Any = None
    ) -> MrcWork:
        return _last(self._reduce_scatter_base(*each, opts) for each in zip(outputs, given, strict=True))

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    # ---- data that moves

    def broadcast(self, tensors: list[Tensor], opts: Any = None) -> MrcWork:
        root = opts.rootRank if opts else 0
        flat = [_checked(each) for each in tensors]
        calls = [
            self._exchange([each] * self.getSize(), [])
            if self._index == root
            else self._exchange([], self._only(root, each))
            for each in flat
        ]
        return self._start(
            "broadcast", calls, _copies(tensors, flat), tensors, flat, opts, data=flat, peer=root
        )

    def allgather(self, outputs: list[list[Tensor]], given: list[Tensor], opts: Any = None) -> MrcWork:
        flat = [_checked(each) for each in given]
        parts = [[_checked(each) for each in each_list] for each_list in outputs]
        calls = []
        for own, received in zip(flat, parts, strict=True):
            received[self._index].copy_(own.view(received[self._index].shape))
            calls.append(self._exchange([own] * self.getSize(), received))
        finish = [_copies(*pair) for pair in zip(outputs, parts, strict=True)]
        kept = flat, parts
        return self._start("all_gather", calls, lambda: _all(finish), outputs, kept, opts, data=flat)

    def allgather_coalesced(
        self, outputs: list[list[Tensor]], given: list[Tensor], opts: Any = None
    ) -> MrcWork:
        """Gather several tensors; the outputs are by rank, then by tensor."""
        return self.allgather([list(each) for each in zip(*outputs, strict=True)], given, opts)

    def _allgather_base(self, output: Tensor, given: Tensor, opts: Any = None) -> MrcWork:
        whole = _checked(output)
        own = whole.view(-1).view(self.getSize(), -1)[self._index]
        own.copy_(_checked(given).reshape(-1))
        call = ("all_gather", whole.data_ptr(), own.numel() * own.element_size())
        finish = _copies([output], [whole])
        return self._start("all_gather", [call], finish, output, whole, opts, data=[own])

    all_gather_single = allgather_into_tensor = _allgather_base

    def allgather_into_tensor_coalesced(
        self, outputs: list[Tensor], given: list[Tensor], opts: Any = None
    ) -> MrcWork:
        return _last(self._allgather_base(*each, opts) for each in zip(outputs, given, strict=True))

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def gather(self, outputs: list[list[Tensor]], given: list[Tensor], opts: Any) -> MrcWork:
        flat = [_checked(each) for each in given]
        root = opts.rootRank
        if self._index != root:
            calls = [self._exchange(self._only(root, each), []) for each in flat]
            return self._start("gather", calls, lambda: None, outputs, flat, opts, data=flat, peer=root)
        parts = [[_checked(each) for each in each_list] for each_list in outputs]
        for own, received in zip(flat, parts, strict=True):
            received[self._index].copy_(own)
        calls = [self._exchange([], received) for received in parts]
        finish = [_copies(*pair) for pair in zip(outputs, parts, strict=True)]
        kept = flat, parts
        return self._start("gather", calls, lambda: _all(finish), outputs, kept, opts, data=flat, peer=root)

    def scatter(self, outputs: list[Tensor], given: list[list[Tensor]], opts: Any) -> MrcWork:
        flat = [_checked(each) for each in outputs]
        root = opts.rootRank
        if self._index == root:
            parts = [[_checked(each) for each in each_list] for each_list in given]
            for own, sent in zip(flat, parts, strict=True):
                own.copy_(sent[self._index])
            calls = [self._exchange(sent, []) for sent in parts]
        else:
            parts = []
            calls = [self._exchange([], self._only(root, each)) for each in flat]
        kept = flat, parts
        return self._start(
            "scatter", calls, _copies(outputs, flat), outputs, kept, opts, data=flat, peer=root
        )

    def alltoall(self, outputs: list[Tensor], given: list[Tensor], opts: Any = None) -> MrcWork:
        flat = [_checked(each) for each in outputs]
        sent = [_checked(each) for each in given]
        flat[self._index].copy_(sent[self._index].view(flat[self._index].shape))
        call = self._exchange(sent, flat)
        kept = flat, sent
        return self._start("all_to_all", [call], _copies(outputs, flat), outputs, kept, opts, data=sent)

    def alltoall_base(
        self,
        output: Tensor,
        given: Tensor,
        output_splits: list[int],
        input_splits: list[int],
        opts: Any = None,
    ) -> MrcWork:
        size = self.getSize()
        outputs = list(output.split(output_splits) if output_splits else output.chunk(size))
        parts = list(given.split(input_splits) if input_splits else given.chunk(size))
        return self.alltoall(outputs, parts, opts)

    all_to_all_single = alltoall_base

    def barrier(self, opts: Any = None) -> MrcWork:
        token = torch.zeros(1, dtype=torch.uint8)
        call = self._reduce("all_reduce", token, 1, dist.ReduceOp.SUM)
        return self._start("barrier", [call], lambda: None, None, token, opts)

    # ---- point to point

    def send(self, tensors: list[Tensor], peer: int, tag: int = 0) -> MrcWork:
        """Send; ends when the data is on its way, and later changes of the tensor do not matter."""
        flat = [_checked(each) for each in tensors]
        calls = [self._exchange(self._only(peer, each), []) for each in flat]
        numbers = (self._message(self._index, peer, tag) for _ in flat)
        return self._start(
            "send", calls, lambda: None, tensors, flat, None, numbers, data=flat, peer=peer, tag=tag
        )

    def recv(self, tensors: list[Tensor], peer: int, tag: int = 0) -> MrcWork:
        """Receive what that rank sends with that tag."""
        flat = [_checked(each) for each in tensors]
        calls = [self._exchange([], self._only(peer, each)) for each in flat]
        numbers = (self._message(peer, self._index, tag) for _ in flat)
        finish = _copies(tensors, flat)
        return self._start("recv", calls, finish, tensors, flat, None, numbers, data=flat, peer=peer, tag=tag)

    def recv_anysource(self, _tensors: list[Tensor], _tag: int = 0) -> MrcWork:
        """Refuse: slots belong to a pair of ranks."""
        raise refused("recv from any source; name the source")

    def _next_number(self) -> int:
        branch = futures.current_branch()
        if branch is None:
            return next(self._numbers)
        return _hashed(branch.next_name()) % _FOLLOWS | _FOLLOWS

    def _message(self, source: int, target: int, tag: int) -> int:
        key = source, target, tag
        text = f"{key} {self._messages[key]}"
        self._messages[key] += 1
        return _hashed(text) | _POINT_TO_POINT

    # ---- operations of libmrc_coll

    def _reduce(self, operation: str, tensor: Tensor, length: int, wanted: Any) -> Call:
        reduction = next((ours for theirs, ours in _REDUCTIONS if wanted == theirs), None)
        if reduction is None:
            raise refused(f"reduction {getattr(wanted, 'op', wanted).name}")
        if tensor.is_complex() and reduction is Reduction.SUM:
            tensor, length = torch.view_as_real(tensor), 2 * length
        if tensor.dtype not in _TYPES:
            raise refused(f"reduction of {tensor.dtype}")
        if reduction in _OF_BITS and tensor.is_floating_point():
            raise refused(f"reduction {reduction.name} of {tensor.dtype}")
        if tensor.dtype == torch.bool:
            reduction = _OF_BOOL.get(reduction, reduction)
        return operation, tensor.data_ptr(), length, _TYPES[tensor.dtype], reduction

    def _average(self, tensor: Tensor, wanted: Any) -> None:
        if wanted == dist.ReduceOp.AVG:
            is_real = tensor.is_floating_point() or tensor.is_complex()
            tensor.div_(self.getSize(), rounding_mode=None if is_real else "trunc")

    def _only(self, peer: int, tensor: Tensor) -> list[Tensor | None]:
        if peer == self._index:
            raise refused("a message to oneself")
        if peer not in range(self.getSize()):
            raise refused(f"rank {peer} in a group of {self.getSize()}")
        return [tensor if index == peer else None for index in range(self.getSize())]

    def _exchange(self, out: Sequence[Tensor | None], into: Sequence[Tensor | None]) -> Call:
        nothing = [None] * self.getSize()
        sides = (buffers([_bytes(each) for each in side or nothing]) for side in (out, into))
        return ("exchange", *(array for side in sides for array in side))

    def _start(
        self,
        name: str,
        calls: Sequence[Call],
        finish: Callable[[], None],
        result: Any,
        kept: Any,
        opts: Any,
        numbers: Iterator[int] | None = None,
        *,
        data: Sequence[Tensor] = (),
        peer: int | None = None,
        tag: int = 0,
    ) -> MrcWork:
        """Start operations that make up one of torch's.

        Args:
            name: of torch's, for messages.
            calls: each gets a number of its own.
            finish: called when all have ended well.
            kept: what must not be freed before they end.
            opts: of torch, which may have a time-out.
            numbers: of the operations, where they are not the next ones of the group.
            data: of this rank, for a trace.
            peer: the other rank of the group, or the root, for a trace.
            tag: of a message, for a trace.
        """
        if _PROCESS.engine is not self._engine:
            why = "this process has left its peers, or is a child of a rank"
            raise failed(f"{name} on rank {self._ranks[self._index]}", why)
        started: list[int] = []
        work = MrcWork(result, lambda: self._engine.expect(started))
        if not calls:
            work.end(None)
            work.follow()
            return work
        errors: list[str | None] = []

        def end(error: str | None, _kept: Any = (kept, calls)) -> Iterable[Follower]:
            errors.append(error)
            if len(errors) < len(calls):
                return ()
            trace("end", work.branch.operation, now_ns())
            if why := next(filter(None, errors), None):
                work.end(failed(f"{name} on rank {self._ranks[self._index]}", why))
            else:
                try:
                    finish()
                except Exception as raised:  # noqa: BLE001 - of the caller's tensors: the caller's to see
                    work.end(raised)
                else:
                    work.end(None)
            return [following(work.branch.operation, work.follow)]

        given = getattr(opts, "timeout", None)
        timeout = given if given and given > timedelta(0) else self._timeout
        size_bytes = sum(each.numel() * each.element_size() for each in data)
        other = None if peer is None else self._ranks[peer]
        work.branch.operation = trace_start(name, self._name, self._ranks, size_bytes, other, tag)
        BACKWARD.note(work.branch.operation)
        for operation, *arguments in calls:
            number = self._next_number() if numbers is None else next(numbers)
            work.branch.name = work.branch.name or f"{self._name} {number}"
            STEPS.sent_bytes += self._sent_bytes(operation, arguments)
            started.append(
                self._engine.start(operation, end, self._group, number, *arguments, timeout_ms=_ms(timeout))
            )
        return work

    def _sent_bytes(self, operation: str, arguments: Sequence[Any]) -> int:
        """Bytes that this rank sends for an operation of libmrc_coll."""
        size = self.getSize()
        if operation == "exchange":
            return sum(length for index, length in enumerate(arguments[1]) if index != self._index)
        if operation == "all_gather":
            return (size - 1) * int(arguments[1])
        data_bytes = int(arguments[1]) * int(arguments[2].bytes)
        return (
            (size - 1) * data_bytes if operation == "reduce_scatter" else 2 * (size - 1) * data_bytes // size
        )


def _copy_back(tensor: Tensor, flat: Tensor) -> None:
    if tensor.data_ptr() != flat.data_ptr():
        tensor.copy_(flat)


def _copies(tensors: Sequence[Tensor], flat: Sequence[Tensor]) -> Callable[[], None]:
    def copy() -> None:
        for tensor, each in zip(tensors, flat, strict=True):
            _copy_back(tensor, each)

    return copy


def _all(functions: Sequence[Callable[[], None]]) -> None:
    for each in functions:
        each()


def _last(works: Iterable[MrcWork]) -> MrcWork:
    """The work that ends behind all others: where one of them fails, so does what was started later."""
    *others, last = works
    last.ahead = [each.branch.operation for each in others]
    return last
