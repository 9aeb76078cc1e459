"""Steps of a training job, as any script has them: reported to who has started the rank, and in virtual time.

A step ends when the optimizer that stepped first in this process has stepped again. The loss is what
backward() was called on since; of several, the mean. Each step is a line of JSON on the descriptor that
`mrc-testbed` names in the environment. An optimizer that steps without gradients since its last step, as one
does for a checkpoint, ends no step: neither backward() nor torch.autograd.grad() was called.

In virtual time a step computes for a time that is declared: before its first backward(), or stage by stage
(profile.py).
"""

import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from mrc_torch.clock import CLOCK, take_over_time
from mrc_torch.rank import inherited, is_rank, is_virtual
from mrc_torch.stages import LOSS, OPTIMIZER, ProfileError, Stages, read_profile
from mrc_torch.virtual import engine

REPORT_VARIABLE: Final = "MRC_TESTBED_REPORT_FD"
_REPORTS: Final = inherited(REPORT_VARIABLE)
COMPUTE_VARIABLE: Final = "MRC_TORCH_COMPUTE"
"""Time that each step computes, in virtual time: ns, or the path of a profile."""


@dataclass
class Steps:
    """Steps of this process.

    Attributes:
        count: of those that have ended.
        began_ns: when the step that is under way began.
        losses: of it so far.
        sent_bytes: of it so far.
        has_backward: whether its gradients were asked for.
        optimizer: that its end goes by; None: none has stepped yet.
    """

    count: int = 0
    began_ns: int = 0
    losses: list[float] = field(default_factory=list)
    sent_bytes: int = 0
    has_backward: bool = False
    optimizer: int | None = None

    def end(self, now_ns: int) -> dict[str, Any]:
        """End the step, and begin the next; the report of it, whose loss is null if it is not finite."""
        report: dict[str, Any] = {
            "step": self.count,
            "time_s": (now_ns - self.began_ns) / 1e9,
            "bytes": self.sent_bytes,
            "end_ns": now_ns,
            "by": "mrc-torch",
        }
        if self.losses:
            loss = sum(self.losses) / len(self.losses)  # fmean() refuses inf beside -inf
            report["loss"] = loss if math.isfinite(loss) else None
        self.count += 1
        self.began_ns = now_ns
        self.losses.clear()
        self.sent_bytes = 0
        self.has_backward = False
        return report


STEPS: Final = Steps()


def now_ns() -> int:
    """Virtual time, or CLOCK_MONOTONIC."""
    return CLOCK.now_ns if is_virtual() else time.monotonic_ns()


OnEnd = Callable[[str], None]
"""Called with the name of a stage that ends; see stages.py."""


def watch_if_wanted() -> None:
    """Note the steps of this process from now on, where somebody wants to know of them."""
    if is_virtual():
        engine()
        take_over_time()
        watch(_declared_compute(os.environ.get(COMPUTE_VARIABLE, "0")))
    elif _REPORTS is not None:
        watch(lambda _: None)


def watch(on_end: OnEnd) -> None:
    """Note the steps of this process from now on.

    Args:
        on_end: called before each backward() and at the end of each step.
    """
    STEPS.began_ns = now_ns()

    def on_step(optimizer: Optimizer, _arguments: Any, _named: Any) -> None:
        if not STEPS.has_backward:
            return
        if STEPS.optimizer is None:
            STEPS.optimizer = id(optimizer)
        if STEPS.optimizer == id(optimizer):
            on_end(OPTIMIZER)
            _report(STEPS.end(now_ns()))

    backward, grad = torch.autograd.backward, torch.autograd.grad

    def begin_backward() -> None:
        on_end(LOSS)
        STEPS.has_backward = True

    def noted(tensors: Tensor | Sequence[Tensor], *arguments: Any, **named: Any) -> None:
        for tensor in [tensors] if isinstance(tensors, Tensor) else tensors:
            if tensor.numel() == 1:
                STEPS.losses.append(float(tensor.detach()))
        begin_backward()
        backward(tensors, *arguments, **named)

    def noted_grad(*arguments: Any, **named: Any) -> Any:
        begin_backward()
        return grad(*arguments, **named)

    register_optimizer_step_post_hook(on_step)
    torch.autograd.backward, torch.autograd.grad = noted, noted_grad


def _report(report: dict[str, Any]) -> None:
    if _REPORTS is not None and is_rank():
        os.write(_REPORTS, (json.dumps(report) + "\n").encode())


def _declared_compute(text: str) -> OnEnd:
    """Let the declared time pass: so many ns before the first backward() of a step, or those of a profile."""
    if text.isdecimal():

        def compute(stage: str) -> None:
            if stage == LOSS and not STEPS.has_backward:
                CLOCK.compute(int(text))

        return compute
    durations_ns = read_profile(Path(text))

    def compute_stage(stage: str) -> None:
        if stage not in durations_ns:
            raise ProfileError(f"{text}: there is no stage {stage!r}: it is of another model")
        CLOCK.compute(durations_ns[stage])

    Stages(compute_stage)
    return compute_stage
