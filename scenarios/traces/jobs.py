"""Jobs of PyTorch whose traces are beside this file: a pipeline of stages, and layers of experts.

    mrc-testbed launch --virtual --compute 1ms --as gloo --ranks 4 --trace FOLDER -- python jobs.py pipeline

Those of ddp and fsdp2 are traces of `python -m mrc_torch.examples.train`.
"""

import argparse

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.parallel import DistributedDataParallel

WIDTH = 128
BATCH = 32


def pipeline(steps: int) -> None:
    """A stage per rank; micro-batches of one step follow each other down and up again."""
    rank, size = dist.get_rank(), dist.get_world_size()
    stage = PipelineStage(nn.Linear(WIDTH, WIDTH), rank, size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=2 * size, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.SGD(stage.submod.parameters(), lr=0.1)
    for _ in range(steps):
        given, wanted = torch.randn(2, 8 * BATCH, WIDTH)
        schedule.step(*([given] if rank == 0 else []), **({"target": wanted} if rank == size - 1 else {}))
        optimizer.step()
        optimizer.zero_grad()


class Exchange(torch.autograd.Function):
    """An all-to-all of equal parts, and its gradient: the same again."""

    @staticmethod
    def forward(_context: object, parts: Tensor) -> Tensor:
        got = torch.empty_like(parts)
        dist.all_to_all_single(got, parts.contiguous())
        return got

    @staticmethod
    def backward(_context: object, parts: Tensor) -> Tensor:
        return Exchange.forward(None, parts)


class Experts(nn.Module):
    """An expert per rank: tokens go to theirs and come back, whichever rank has them."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Linear(WIDTH, WIDTH)
        self.expert = nn.Linear(WIDTH, WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens: (ranks x tokens of each, WIDTH)."""
        return Exchange.apply(self.expert(Exchange.apply(self.before(tokens))))


def experts(steps: int) -> None:
    """All-to-alls forth and back in each step; what is not an expert is data-parallel."""
    model = nn.Sequential(Experts(), Experts())
    shared = DistributedDataParallel(nn.Linear(WIDTH, WIDTH))
    optimizer = torch.optim.SGD([*model.parameters(), *shared.parameters()], lr=0.1)
    for _ in range(steps):
        loss = shared(model(torch.randn(dist.get_world_size() * BATCH, WIDTH))).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("job", choices=["pipeline", "experts"])
    options.add_argument("--steps", type=int, default=3)
    given = options.parse_args()
    dist.init_process_group("gloo")
    {"pipeline": pipeline, "experts": experts}[given.job](given.steps)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
