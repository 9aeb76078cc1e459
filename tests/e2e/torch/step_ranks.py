"""A rank whose steps are of the kind that its argument names."""

import sys

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict

STEPS = 3


def pipeline(model: nn.Linear, step: int) -> Tensor | None:
    """Each rank has a stage: all but the last get the gradient of what they sent."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    data = torch.full((2, 4), step + 1.0)
    if rank:
        dist.recv(data, rank - 1)
        data.requires_grad_()
    sent = model(data)
    if rank == last:
        loss: Tensor = sent.square().mean()
        loss.backward()
    else:
        dist.send(sent.detach(), rank + 1)
        gradient = torch.empty_like(sent)
        dist.recv(gradient, rank + 1)
        sent.backward(gradient)
    if rank:
        dist.send(data.grad, rank - 1)
    return loss if rank == last else None


def diverging(model: nn.Linear, step: int) -> Tensor | None:
    """The losses of the last step are inf and -inf."""
    loss: Tensor = model(torch.ones(2, 4)).square().mean() * (float("inf") if step == STEPS - 1 else 1)
    loss.backward()
    if step == STEPS - 1:
        (-model(torch.ones(2, 4)).square().mean() * float("inf")).backward()
    return loss


def idle(model: nn.Linear, step: int) -> Tensor | None:
    """First an optimizer steps that has no gradients: a checkpoint's."""
    if step == 0:
        get_state_dict(model, torch.optim.AdamW(model.parameters(), lr=0.01))
    loss: Tensor = model(torch.ones(2, 4)).square().mean()
    loss.backward()
    return loss


def by_grad(model: nn.Linear, step: int) -> Tensor | None:
    """No backward() is called."""
    del step
    loss: Tensor = model(torch.ones(2, 4)).square().mean()
    parameters = [*model.parameters()]
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = gradient
    return loss


def main(kind: str) -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = {"pipeline": pipeline, "diverging": diverging, "idle": idle, "by grad": by_grad}[kind](
            model, step
        )
        dist.barrier()
        optimizer.step()
        if loss is not None:
            print(float(loss), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
