"""All kinds of fault, by the name a user writes."""

from typing import Annotated, Final

from pydantic import Field

from testbed.faults.link_kinds import (
    BurstLoss,
    Congestion,
    Corrupt,
    Delay,
    Drain,
    Duplicate,
    EvLoss,
    LinkDown,
    LinkFlap,
    Loss,
    NicPortDown,
    PauseStorm,
    Reorder,
    SlowLink,
)
from testbed.faults.node_kinds import (
    Blackhole,
    Clear,
    HostPause,
    NicAgentKill,
    PlaneDown,
    SwitchDown,
    SwitchReboot,
)
from testbed.faults.occurrence import FaultKind
from testbed.faults.spec_base import AnyFault, BothWaysFault

Fault = Annotated[
    LinkDown
    | LinkFlap
    | NicPortDown
    | Loss
    | BurstLoss
    | EvLoss
    | Corrupt
    | Duplicate
    | Delay
    | Reorder
    | SlowLink
    | PauseStorm
    | Drain
    | Congestion
    | Blackhole
    | SwitchDown
    | SwitchReboot
    | PlaneDown
    | HostPause
    | NicAgentKill,
    Field(discriminator="kind"),
]

FaultOrClear = Annotated[Fault | Clear, Field(discriminator="kind")]

KINDS: Final[dict[FaultKind, type[Fault]]] = {
    "link-down": LinkDown,
    "link-flap": LinkFlap,
    "nic-port-down": NicPortDown,
    "loss": Loss,
    "burst-loss": BurstLoss,
    "ev-loss": EvLoss,
    "corrupt": Corrupt,
    "duplicate": Duplicate,
    "delay": Delay,
    "reorder": Reorder,
    "slow-link": SlowLink,
    "pause-storm": PauseStorm,
    "drain": Drain,
    "congestion": Congestion,
    "blackhole": Blackhole,
    "switch-down": SwitchDown,
    "switch-reboot": SwitchReboot,
    "plane-down": PlaneDown,
    "host-pause": HostPause,
    "nic-agent-kill": NicAgentKill,
}
"""The model of each kind."""


def own_fields(kind: FaultKind) -> list[str]:
    """What a fault of that kind is told besides its id, start, end and selector, as a user writes it."""
    common = {*AnyFault.model_fields, "select", "kind"}
    if issubclass(KINDS[kind], BothWaysFault):
        common.add("direction")
    return [field.alias or name for name, field in KINDS[kind].model_fields.items() if name not in common]


def meaning(kind: FaultKind) -> str:
    """What happens, in one sentence."""
    return (KINDS[kind].__doc__ or "").partition("\n")[0]
