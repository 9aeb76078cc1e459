"""GradScalers as steps have to see them: the loss that one has scaled, and the optimizer that it did not let step."""

from collections.abc import Callable
from typing import Any, Final

from torch import Tensor
from torch.amp import GradScaler
from torch.optim import Optimizer
from torch.utils.weak import WeakTensorKeyDictionary

_UNSCALED: Final = WeakTensorKeyDictionary()


def unscaled(loss: Tensor) -> Tensor:
    """What a scaler has made that loss of, or the loss itself; without a graph."""
    found: Tensor = _UNSCALED.get(loss, loss).detach()
    return found


def watch_scalers(on_step: Callable[[Optimizer], None]) -> None:
    """Watch all scalers of this process.

    Args:
        on_step: called when a scaler has let an optimizer step, or has not because of its gradients.
    """
    step = GradScaler.step

    def watched_step(scaler: GradScaler, optimizer: Optimizer, *arguments: Any, **named: Any) -> Any:
        result = step(scaler, optimizer, *arguments, **named)
        on_step(optimizer)
        return result

    GradScaler.step = watched_step
    GradScaler.__init_subclass__ = classmethod(_watch_scale)  # that of FSDP takes a second to import
    for each in (GradScaler, *GradScaler.__subclasses__()):
        _watch_scale(each)


def _watch_scale(cls: Any) -> None:
    if "scale" not in vars(cls):
        return
    scale = cls.scale

    def watched_scale(scaler: GradScaler, outputs: Any) -> Any:
        scaled = scale(scaler, outputs)
        _note(scaled, outputs)
        return scaled

    cls.scale = watched_scale


def _note(scaled: Any, given: Any) -> None:
    if isinstance(scaled, list | tuple):
        for pair in zip(scaled, given, strict=True):
            _note(*pair)
    elif isinstance(scaled, Tensor) and scaled is not given:
        _UNSCALED[scaled] = given.detach()
