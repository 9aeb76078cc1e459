"""A rank whose steps are of the kind that its argument names; prints the optimizer and loss of each."""

import sys
from collections.abc import Iterator
from math import inf, nan
from statistics import mean

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.optim import LBFGS, SGD, Adam, AdamW, Optimizer, RMSprop

torch.manual_seed(1)
MODEL = nn.Linear(4, 4)
PARAMETERS = [*MODEL.parameters()]
KINDS = {"S": [SGD], "A": [Adam], "B": [Adam, RMSprop]}
ORDERS = {
    "idle": "S S S",
    "phases": "S S A A A W W W",
    "critic": "S A A A SA A A SA",
    "in turn": "B SB SB SB",
}
"""Words are steps of the job, letters losses and steps of optimizers; W is a fresh one each time."""

Expected = tuple[str, float | None]


def loss() -> Tensor:
    return MODEL(torch.ones(2, 4)).square().mean()


def trained_by(optimizers: list[Optimizer]) -> float:
    MODEL.zero_grad()
    found = loss()
    found.backward()
    dist.barrier()
    for each in optimizers:
        each.step()
    return float(found.item())


def in_order(kind: str) -> Iterator[Expected]:
    if kind == "idle":  # a fresh optimizer steps in it, without gradients
        get_state_dict(MODEL, AdamW(PARAMETERS))
    made = {letter: [each(PARAMETERS, lr=0.01) for each in kinds] for letter, kinds in KINDS.items()}
    for word in ORDERS[kind].split():
        losses = []
        for letter in word:
            if letter == "W":
                made = {letter: [AdamW(PARAMETERS)]}
            losses.append(trained_by(made[letter]))
        yield type(made[word[-1]][0]).__name__, mean(losses)


def by_closure(_kind: str) -> Iterator[Expected]:
    optimizer = LBFGS(PARAMETERS, max_iter=3)
    for _ in range(3):
        losses: list[float] = []

        def closure(losses: list[float] = losses) -> float:
            losses.append(trained_by([]))
            return losses[-1]

        optimizer.step(closure)
        yield "LBFGS", mean(losses)


def scaled(kind: str) -> Iterator[Expected]:
    """Two losses to a step; the scaler skips steps, of finite losses too."""
    scaler = (GradScaler if kind == "scaled" else ShardedGradScaler)("cpu", init_scale=65536.0)
    optimizer = SGD(PARAMETERS, lr=0.01)
    for factor in (1e35, 1, 1e35, 1, inf):
        MODEL.zero_grad()
        losses = [loss() * factor, loss() * factor / 2]
        for each in scaler.scale(losses):
            each.backward()
        dist.barrier()
        scaler.step(optimizer)
        scaler.update()
        yield "SGD", nan if factor == inf else mean(each.item() for each in losses)


def by_hand(kind: str) -> Iterator[Expected]:
    optimizer = SGD(PARAMETERS, lr=0.01)
    for _ in range(3):
        MODEL.zero_grad()
        if kind == "by grad":
            for parameter, gradient in zip(PARAMETERS, torch.autograd.grad(loss(), PARAMETERS), strict=True):
                parameter.grad = gradient
        elif kind == "of a vector":
            MODEL(torch.ones(2, 4)).backward(torch.ones(2, 4))
        else:
            (loss() * inf).backward()
            (loss() * -inf).backward()
        dist.barrier()
        optimizer.step()
        yield "SGD", nan if kind == "diverging" else None


def main(kind: str) -> None:
    dist.init_process_group("gloo")
    others = {"by closure": by_closure, "scaled": scaled, "scaled, sharded": scaled}
    for optimizer, each in (in_order if kind in ORDERS else others.get(kind, by_hand))(kind):
        print(optimizer, "" if each is None else each, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
