"""A rank that trains with FSDP2 for some steps and adds numbers; prints losses and sums, to the bit."""

import hashlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

STEPS = 10
LENGTHS = (1, 53, 1001, 65_537, 777_777)


def add(length: int) -> str:
    """The sums of random numbers, as bits."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    whole = torch.randn(length * dist.get_world_size(), generator=generator)
    part = torch.empty(length)
    dist.reduce_scatter_single(part, whole)
    dist.all_reduce(whole)
    return hashlib.sha256(part.numpy().tobytes() + whole.numpy().tobytes()).hexdigest()


def main(backend: str) -> None:
    dist.init_process_group(backend)
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 251), nn.ReLU(), nn.Linear(251, 250), nn.ReLU(), nn.Linear(250, 10))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(100 + dist.get_rank())
    for _ in range(STEPS):
        data = torch.randn(32, 64, generator=generator)
        loss = nn.functional.cross_entropy(model(data), data[:, :10].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item().hex(), flush=True)
    for length in LENGTHS:
        print(add(length), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
