"""Steps of a training job, as any script has them: reported to who has started the rank, and in virtual time.

A step ends when the optimizer that stepped first in this process has stepped again. One that steps twice
meanwhile takes its place, and both steps are reported; once that one is freed, the next that steps does. The
loss is what backward() was called on since, not scaled by a GradScaler; of several, the mean. Each step is a
line of JSON (reports.py). An optimizer that steps without gradients since its last step, as one does for a
checkpoint, ends no step: neither backward() nor torch.autograd.grad() was called. One that a GradScaler does
not let step ends one.

In virtual time a step computes for a time that is declared: before its first backward(), or stage by stage
(profile.py).
"""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor
from torch.amp import GradScaler
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from mrc_torch.clock import CLOCK, take_over_time
from mrc_torch.rank import is_rank, is_virtual
from mrc_torch.reports import are_wanted, now_ns, report, trace
from mrc_torch.stages import LOSS, OPTIMIZER, ProfileError, Stages, read_profile
from mrc_torch.virtual import engine

UNSCALED: Final = WeakTensorKeyDictionary()  # losses, by what scalers have made of them

COMPUTE_VARIABLE: Final = "MRC_TORCH_COMPUTE"
"""Time that each step computes, in virtual time: ns, or the path of a profile."""


class Mark(NamedTuple):
    """A place in a step: a time, and losses, bytes sent and calls of backward() until then."""

    now_ns: int
    losses: int
    sent_bytes: int
    backwards: int


@dataclass
class Steps:
    """Steps of this process."""

    count: int = 0  # of those that have ended
    began_ns: int = 0  # when the step that is under way began
    losses: list[float] = field(default_factory=list)  # of it so far
    sent_bytes: int = 0  # of it so far
    backwards: int = 0  # how often its gradients were asked for
    optimizer: Callable[[], Optimizer | None] = lambda: None  # that its end goes by; None: any
    # other optimizers that have stepped, and where
    others: "WeakKeyDictionary[Optimizer, Mark]" = field(default_factory=WeakKeyDictionary)

    @property
    def has_backward(self) -> bool:
        return self.backwards > 0

    def mark(self, now_ns: int) -> Mark:
        return Mark(now_ns, len(self.losses), self.sent_bytes, self.backwards)

    def is_ended_by(self, optimizer: Optimizer, now_ns: int) -> bool:
        """Return True if a step of that optimizer ends the step; else note it."""
        if earlier := self.others.get(optimizer):
            return self.backwards > earlier.backwards
        if self.has_backward and self.optimizer() not in (None, optimizer):
            self.others[optimizer] = self.mark(now_ns)
            return False
        return self.has_backward

    def end(self, optimizer: Optimizer, at: Mark) -> dict[str, Any]:
        """End the step, and begin the next; the report of it, whose loss is null if it is not finite."""
        report: dict[str, Any] = {
            "step": self.count,
            "time_s": (at.now_ns - self.began_ns) / 1e9,
            "bytes": at.sent_bytes,
            "end_ns": at.now_ns,
            "by": "mrc-torch",
            "optimizer": type(optimizer).__name__,
        }
        if at.losses:
            loss = sum(self.losses[: at.losses]) / at.losses  # fmean() refuses inf beside -inf
            report["loss"] = loss if math.isfinite(loss) else None
        self.count += 1
        self.began_ns = at.now_ns
        del self.losses[: at.losses]
        self.sent_bytes -= at.sent_bytes
        self.backwards = 0
        self.optimizer = ref(optimizer)
        self.others.clear()
        return report


STEPS: Final = Steps()


OnEnd = Callable[[str], None]
"""Called with the name of a stage that ends; see stages.py."""


def watch_if_wanted() -> None:
    """Note the steps of this process from now on, where somebody wants to know of them."""
    if is_virtual():
        engine()
        take_over_time()
        watch(_declared_compute(os.environ.get(COMPUTE_VARIABLE, "0")))
    elif are_wanted():
        watch(lambda _: None)


def watch(on_end: OnEnd) -> None:
    """Note the steps of this process from now on.

    Args:
        on_end: called before each backward() and at the end of each step.
    """
    STEPS.began_ns = now_ns()
    trace("begin", STEPS.began_ns)

    def on_step(optimizer: Optimizer, *_: Any) -> None:
        if not STEPS.is_ended_by(optimizer, now_ns()):
            return
        if earlier := STEPS.others.get(optimizer):
            report(STEPS.end(optimizer, earlier))
            on_end(LOSS)  # a backward() that did not begin a step
        on_end(OPTIMIZER)
        report(STEPS.end(optimizer, STEPS.mark(now_ns())))

    backward, grad = torch.autograd.backward, torch.autograd.grad

    def begin_backward() -> None:
        on_end(LOSS)
        STEPS.backwards += 1

    def noted(tensors: Tensor | Sequence[Tensor], *arguments: Any, **named: Any) -> None:
        given = [tensors] if isinstance(tensors, Tensor) else tensors
        STEPS.losses += [float(UNSCALED.get(each, each).detach()) for each in given if each.numel() == 1]
        begin_backward()
        backward(tensors, *arguments, **named)

    def noted_grad(*arguments: Any, **named: Any) -> Any:
        begin_backward()
        return grad(*arguments, **named)

    register_optimizer_step_post_hook(on_step)
    watch_scalers(on_step)
    torch.autograd.backward, torch.autograd.grad = noted, noted_grad


def _declared_compute(text: str) -> OnEnd:
    """Let the declared time pass: so many ns before the first backward() of a step, or those of a profile."""
    if text.isdecimal():

        def compute(stage: str) -> None:
            if stage == LOSS and not STEPS.has_backward:
                CLOCK.compute(int(text))

        return compute
    durations_ns = read_profile(Path(text))

    def compute_stage(stage: str) -> None:
        if not is_rank():  # a child's model is one of its own
            return
        if stage not in durations_ns:
            raise ProfileError(f"{text}: there is no stage {stage!r}: it is of another model")
        CLOCK.compute(durations_ns[stage])

    Stages(compute_stage)
    return compute_stage


def watch_scalers(on_step: Callable[[Optimizer], None]) -> None:
    """Watch all scalers of this process; *on_step* takes an optimizer that one has let step, or has not."""
    step = GradScaler.step

    def noted(scaler: GradScaler, optimizer: Optimizer, *arguments: Any, **named: Any) -> Any:
        result = step(scaler, optimizer, *arguments, **named)
        on_step(optimizer)
        return result

    GradScaler.step = noted
    GradScaler.__init_subclass__ = classmethod(_watch_scale)  # FSDP has one that takes a second to import
    _watch_scale(GradScaler)


def _watch_scale(scaler: Any) -> None:
    scale = scaler.scale

    def noted(self: GradScaler, outputs: Any) -> Any:
        scaled = scale(self, outputs)
        for made, loss in zip(tree_leaves(scaled), tree_leaves(outputs), strict=True):
            if isinstance(made, Tensor) and made is not loss:
                UNSCALED[made] = loss.detach()
        return scaled

    scaler.scale = noted
