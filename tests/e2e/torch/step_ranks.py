"""A rank whose steps are of the kind that its argument names; prints their losses."""

import sys
from math import inf

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict

STEPS = 3


def main(kind: str) -> None:
    dist.init_process_group("gloo")
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    behind, ahead = kind == "pipeline" and rank > 0, kind == "pipeline" and rank < last
    torch.manual_seed(1)
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if kind == "idle":  # a fresh optimizer steps in it, without gradients
        get_state_dict(model, torch.optim.AdamW(model.parameters(), lr=0.01))
    for step in range(STEPS):
        optimizer.zero_grad()
        data = torch.full((2, 4), step + 1.0)
        if behind:
            dist.recv(data, rank - 1)
            data.requires_grad_()
        found = model(data)
        loss = found.square().mean()
        if ahead:
            dist.send(found.detach(), rank + 1)
            gradient = torch.empty_like(found)
            dist.recv(gradient, rank + 1)
            found.backward(gradient)
        elif kind == "by grad":
            parameters = [*model.parameters()]
            for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter.grad = gradient
        elif kind == "diverging" and step == STEPS - 1:
            (loss * inf).backward(retain_graph=True)
            (loss * -inf).backward()
        else:
            loss.backward()
        if behind:
            dist.send(data.grad, rank - 1)
        dist.barrier()
        optimizer.step()
        if not ahead:
            print(loss.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
