"""Names of the algorithms that the data plane was built with."""

from collections.abc import Sequence

from mrc_agents.algorithms import CC, EV, names_of
from mrc_agents.objects import IS_CLONE
from mrc_testbed.errors import UsageError, did_you_mean


def check_cc_algorithm(name: str) -> str:
    """*name*, if NICs can have that congestion control algorithm."""
    return check_algorithm(name, names_of(CC))


def check_ev_selector(name: str) -> str:
    """*name*, if NICs can have that EV selector."""
    return check_algorithm(name, names_of(EV))


def check_algorithm(name: str, known: Sequence[str]) -> str:
    if name not in known:
        raise UsageError(f"{name!r}; {', '.join(known)} are accepted{did_you_mean(name, known)}{BUILD_HINT}")
    return name


BUILD_HINT = "; `make bpf` finds those of your own" if IS_CLONE else "; those of your own need a clone"
"""Where a name is unknown: what to do if it is a new one."""
