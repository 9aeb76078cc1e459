"""A rank that trains as scripts do, and prints digests of what came out: training_ranks.py BACKEND CASE..."""

import hashlib
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

STEPS = 4
WIDTH = 40


def layers(count: int = 3) -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(*(each for _ in range(count) for each in (nn.Linear(WIDTH, WIDTH), nn.Tanh())))


def train(model: nn.Module, steps: int = STEPS, skipped: int | None = None) -> list[Tensor]:
    """Parameters after some steps on what this rank draws; one of them is skipped, as a GradScaler does."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
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
    folder: list[str | None] = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    path = Path(str(folder[0]))
    rows = distribute_tensor(torch.arange(64.0).view(8, 8), mesh, [Shard(0)])
    dcp.async_save({"rows": rows}, checkpoint_id=path).result()
    state = {"rows": distribute_tensor(torch.zeros(8, 8), mesh, [Shard(1)])}
    dcp.load(state, checkpoint_id=path)
    return [state["rows"].full_tensor()]


CASES: dict[str, Callable[[], Iterable[Tensor]]] = {
    each.__name__: each
    for each in (hooks, skipped, uneven, compiled, futures, pipeline, saved, hooks_of_several_buckets)
}


def main() -> None:
    dist.init_process_group(sys.argv[1])
    for case in sys.argv[2:] or CASES:
        digest = hashlib.sha256()
        for tensor in CASES[case]():
            digest.update(tensor.detach().numpy().tobytes())
        print(case, digest.hexdigest()[:16], flush=True)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
