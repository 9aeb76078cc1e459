"""A rank that trains as scripts do, and prints digests of what came out: training_ranks.py BACKEND CASE..."""

import asyncio
import faulthandler
import hashlib
import itertools
import multiprocessing
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks as ddp_hooks
from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.fsdp import fully_shard
from torch.distributed.nn import functional
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

STEPS = 4
WIDTH = 40


def layers(count: int = 3) -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(*(each for _ in range(count) for each in (nn.Linear(WIDTH, WIDTH), nn.Tanh())))


def train(
    model: nn.Module, steps: int = STEPS, skipped: int | None = None, optimizer: Any = None
) -> list[Tensor]:
    """Parameters after some steps on what this rank draws; one of them is skipped, as a GradScaler does."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for step in range(steps):
        loss = model(torch.randn(8, WIDTH, generator=generator)).square().mean()
        (loss * float("nan") if step == skipped else loss).backward()
        if step != skipped:
            optimizer.step()
        optimizer.zero_grad()
    return list(model.parameters())


def hooks(bucket_mib: float = 25) -> list[Tensor]:
    """PowerSGD: what follows an all-reduce starts others, and waits for them."""
    model = DistributedDataParallel(layers(), bucket_cap_mb=bucket_mib)
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return train(model)


def hooks_of_several_buckets() -> list[Tensor]:
    """Operations that follow one bucket do not meet those of another, in whichever order buckets end."""
    return hooks(0.01)


def sharded() -> list[Tensor]:
    """FSDP2 of layers whose shards are of different lengths."""
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(WIDTH, 251), nn.ReLU(), nn.Linear(251, 10))
    for each in (model[0], model[2], model):
        fully_shard(each, mesh=mesh)
    return [each.full_tensor() for each in train(model)]


def sums() -> list[Tensor]:
    """Random numbers, of lengths at which gloo's chunks are not those of the ranks."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    found = []
    for length in (1, 53, 1001, 65_537, 777_777):
        whole = torch.randn(length * dist.get_world_size(), generator=generator)
        part = torch.empty(length)
        dist.reduce_scatter_single(part, whole)
        dist.all_reduce(whole)
        found += [part, whole]
    return found


def skipped() -> list[Tensor]:
    return train(DistributedDataParallel(layers()), skipped=1)


def uneven() -> list[Tensor]:
    """Ranks with more and with fewer steps."""
    model = DistributedDataParallel(layers(1))
    with Join([model]):
        return train(model, 1 if dist.get_rank() % 2 else 0)


def compiled() -> list[Tensor]:
    return train(torch.compile(DistributedDataParallel(layers()), backend="eager"))


def futures() -> list[Tensor]:
    data = torch.arange(1000.0) / (dist.get_rank() + 3)
    first = dist.all_reduce(data, async_op=True).get_future()
    half = first.then(lambda done: done.value()[0] / 2)
    then = half.then(lambda done: dist.all_reduce(done.value(), async_op=True).get_future().wait())
    return [then.wait()[0]]


def chained() -> list[Tensor]:
    """Even ranks add callbacks before an operation ends, odd ranks after it."""
    rank, size, store = dist.get_rank(), dist.get_world_size(), dist.distributed_c10d._get_default_store()

    def again(done: Any) -> Any:
        return dist.all_reduce(done.value()[0] / 2, async_op=True).get_future().wait()

    if rank % 2:
        store.wait([f"chained {each}" for each in range(0, size, 2)])
    first = dist.all_reduce(torch.arange(1000.0) / (rank + 3), async_op=True).get_future()
    if rank % 2:
        first.wait()
    last = first.then(again).then(again)
    if not rank % 2:
        store.set(f"chained {rank}", "")
    return list(last.wait())


def pipeline() -> list[Tensor]:
    """A stage per rank, and a loss on the last."""
    rank, size = dist.get_rank(), dist.get_world_size()
    stage = PipelineStage(layers(1), rank, size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=size, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.SGD(stage.submod.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(9)
    for _ in range(STEPS):
        given, wanted = torch.randn(2, 8, WIDTH, generator=generator)
        schedule.step(*([given] if rank == 0 else []), **({"target": wanted} if rank == size - 1 else {}))
        optimizer.step()
        optimizer.zero_grad()
    return list(stage.submod.parameters())


def saved() -> list[Tensor]:
    """A checkpoint that a thread writes, and that is read with other shards."""
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else ""]
    dist.broadcast_object_list(folder)
    path = Path(folder[0])
    rows = distribute_tensor(torch.arange(64.0).view(8, 8), mesh, [Shard(0)])
    dcp.async_save({"rows": rows}, checkpoint_id=path).result()
    state = {"rows": distribute_tensor(torch.zeros(8, 8), mesh, [Shard(1)])}
    dcp.load(state, checkpoint_id=path)
    return [state["rows"].full_tensor()]


def default_hooks() -> list[Tensor]:
    """Hooks that change what a bucket is sent as."""
    found = []
    plain, compressed = ddp_hooks.allreduce_hook, ddp_hooks.fp16_compress_hook
    for hook in (plain, compressed, ddp_hooks.fp16_compress_wrapper(plain)):
        model = DistributedDataParallel(layers(), bucket_cap_mb=0.01)
        model.register_comm_hook(None, hook)
        found += train(model)
    return found


def local_steps() -> list[Tensor]:
    """Post-local SGD: an average of models every other step."""
    model = DistributedDataParallel(layers())
    state = post_localSGD_hook.PostLocalSGDState(None, dist.new_subgroups(2)[0], start_localSGD_iter=2)
    model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
    averager = PeriodicModelAverager(period=2, warmup_steps=2)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    return train(model, optimizer=PostLocalSGDOptimizer(inner, averager))


def zero() -> list[Tensor]:
    model = DistributedDataParallel(layers())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
    found = train(model, optimizer=optimizer)
    optimizer.consolidate_state_dict(0)
    return found


def functions() -> list[Tensor]:
    """torch.distributed.nn.functional: collectives with gradients."""
    rank, size = dist.get_rank(), dist.get_world_size()
    given = torch.arange(12.0, requires_grad=True)
    own = given * (rank + 1)
    found = [
        functional.all_reduce(own.clone()),
        *functional.all_gather(own),
        functional.broadcast(own.clone(), 1),
        functional.reduce_scatter(torch.zeros(12), [own * each for each in range(size)]),
        *functional.all_to_all([torch.zeros(12) for _ in range(size)], [own + each for each in range(size)]),
    ]
    torch.stack(found).sum().backward()
    return [*found, given.grad if given.grad is not None else own]


def shards() -> list[Tensor]:
    """DTensor: every placement to every other, and a model in tensor parallel inside FSDP2."""
    size = dist.get_world_size()
    mesh = dist.init_device_mesh("cpu", (size,))
    found = []
    for source, target in itertools.permutations((Shard(0), Shard(1), Replicate()), 2):
        whole = torch.arange(6.0 * 7 * size).view(6, -1)
        found.append(distribute_tensor(whole, mesh, [source]).redistribute(mesh, [target]).full_tensor())
    square = dist.init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("data", "tensor"))
    model = layers(2)
    parallelize_module(model, square["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=square["data"])
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    return [*found, *(each.full_tensor() for each in train(model))]


def forked() -> list[Tensor]:
    """A child trains a model of its own."""
    found = train(DistributedDataParallel(layers()), 1)
    child = multiprocessing.get_context("fork").Process(target=train, args=(layers(),))
    child.start()
    child.join()
    assert child.exitcode == 0
    return [*found, *train(DistributedDataParallel(layers()))]


def stored() -> list[Tensor]:
    """Rank 0 waits by the store for ranks that reduce before."""
    rank, store = dist.get_rank(), dist.distributed_c10d._get_default_store()
    pair = dist.new_group([1, 3])
    data = torch.arange(1000.0) / (rank + 3)
    if rank in (1, 3):
        dist.all_reduce(data, group=pair)
        store.set(f"stored {rank}", str(data.sum().item()))
    if rank == 0:
        store.wait(["stored 1"])
        while not store.check(["stored 3"]):
            time.sleep(0.1)
    dist.new_group([0, 2])
    return train(DistributedDataParallel(layers()))


def helped() -> list[Tensor]:
    """Another program trains meanwhile, with files by all the numbers that it has inherited."""
    model = "torch.nn.Linear(2, 1); o = torch.optim.SGD(m.parameters(), 0.1)"
    text = (
        "import tempfile, torch; files = [tempfile.TemporaryFile() for _ in range(50)]; "
        f"m = {model}; m(torch.ones(1, 2)).mean().backward(); o.step(); "
        "assert not any(file.seek(0, 2) for file in files)"
    )
    helper = subprocess.Popen([sys.executable, "-c", text])
    found = train(DistributedDataParallel(layers()))
    while helper.poll() is None:
        time.sleep(0.1)
    assert helper.returncode == 0
    return found


def watched() -> list[Tensor]:
    """A thread looks at the machine by a program, again and again."""
    looks: queue.Queue[int] = queue.Queue()
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.is_set():
            looks.put(subprocess.run(["sleep", "0.01"], timeout=30, check=True).returncode)
            time.sleep(0.1)

    thread = threading.Thread(target=watch)
    thread.start()
    found = train(DistributedDataParallel(layers()))
    assert looks.get(timeout=30) == 0
    is_over.set()
    thread.join()
    return found


def written() -> list[Tensor]:
    """Checkpoints that asyncio writes behind each step, and waits for with a limit."""

    async def loop() -> list[Tensor]:
        model, writes = DistributedDataParallel(layers()), []
        with tempfile.TemporaryDirectory() as folder:
            for step in range(STEPS):
                train(model, 1)
                state = {name: each.clone() for name, each in model.state_dict().items()}
                path = Path(folder) / f"{step}.pt"
                writes.append(asyncio.create_task(asyncio.to_thread(torch.save, state, path)))
                await asyncio.sleep(0.01)
            await asyncio.wait_for(asyncio.gather(*writes), 60)
            assert len(list(Path(folder).iterdir())) == STEPS
        return list(model.parameters())

    return asyncio.run(loop())


def main() -> None:
    faulthandler.dump_traceback_later(900, exit=True)  # a rank that hangs says where
    dist.init_process_group(sys.argv[1])
    for case in sys.argv[2:]:
        digest = hashlib.sha256()
        for tensor in globals()[case]():
            digest.update(tensor.detach().numpy().tobytes())
        print(case, digest.hexdigest()[:16], flush=True)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
