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
    torch.manual_seed(1)
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if kind == "idle":  # a fresh optimizer steps in it, without gradients
        get_state_dict(model, torch.optim.AdamW(model.parameters(), lr=0.01))
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(torch.full((2, 4), step + 1.0)).square().mean()
        if kind == "by grad":
            parameters = [*model.parameters()]
            for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter.grad = gradient
        elif kind == "diverging" and step == STEPS - 1:
            (loss * inf).backward(retain_graph=True)
            (loss * -inf).backward()
        else:
            loss.backward()
        dist.barrier()
        optimizer.step()
        print(loss.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
