"""GradScalers as steps see them: losses that they scale, and optimizers that they do not let step."""

from collections.abc import Callable
from typing import Any, Final

from torch import Tensor
from torch.amp import GradScaler
from torch.optim import Optimizer
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

UNSCALED: Final = WeakTensorKeyDictionary()  # losses, by what scalers have made of them


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
