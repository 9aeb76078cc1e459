"""Stages of a training step: what ends when a module has run forward, and when its gradients are there.

The time of a step is the sum of its stages: each lasts from the end of the one before. `forward NAME` is of a
module without modules in it, `loss` reaches to backward(), `backward NAME` to a gradient of one of that
module's parameters, `optimizer` to the end of the step.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel

LOSS: Final = "loss"
OPTIMIZER: Final = "optimizer"


class Stages:
    """Calls *on_end* with the name of each stage that ends, in every module of this process."""

    def __init__(self, on_end: Callable[[str], None]) -> None:
        self._on_end = on_end
        self._names: dict[nn.Module, str] = {}
        register_module_forward_pre_hook(self._before)
        register_module_forward_hook(self._after)

    def _before(self, module: nn.Module, _given: Any) -> None:
        """Name the modules of a model that runs for the first time."""
        if module in self._names:
            return
        model = module.module if isinstance(module, DistributedDataParallel) else module
        self._names[module] = ""
        for name, each in model.named_modules():
            self._names[each] = name
            for parameter in each.parameters(recurse=False):
                if parameter.requires_grad and parameter.is_leaf:
                    parameter.register_post_accumulate_grad_hook(self._gradient_hook(f"backward {name}"))

    def _gradient_hook(self, stage: str) -> Callable[[Tensor], None]:
        return lambda _: self._on_end(stage)

    def _after(self, module: nn.Module, _given: Any, _result: Any) -> None:
        if module.training and next(module.children(), None) is None:
            self._on_end(f"forward {self._names[module]}")


class ProfileError(RuntimeError):
    """A profile cannot be read, or is of another model."""


def read_profile(path: Path) -> dict[str, int]:
    """The time of each stage, in ns, of a file that `python -m mrc_torch.profile` wrote."""
    try:
        found = json.loads(path.read_text())["stage_ns"]
        return {str(name): int(duration_ns) for name, duration_ns in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProfileError(f"{path}: no profile of mrc_torch.profile: {error}") from error
