"""Which transports bear packets that overtake one another, as they do where switches choose links by load."""

from typing import Final

from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos

_ANY_ORDER: Final = "infiniband"
"""The transport whose responder places packets in any order and takes no gap for a loss."""


def check_order(clos: Clos, transport: str) -> None:
    """Return if packets of *transport* may overtake one another, or no switch of the fabric lets them."""
    if not clos.is_adaptive or transport == _ANY_ORDER:
        return
    why = (
        "mrc chooses paths itself, and takes what is overtaken on its path for lost"
        if transport == "mrc"
        else f"{transport} takes packets in order only"
    )
    raise UsageError(
        f"{why}, but switches with uplink_choice: adaptive let packets overtake one another; "
        f"use kind: {_ANY_ORDER}, or uplink_choice: hash"
    )
