"""What no universe has although it might be drawn: one entry each, with the reason.

An entry goes when its reason does; docs/explanation/simulation-testing.md says more of the bugs among them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.universes.document import Values


@dataclass(frozen=True, slots=True)
class Avoided:
    """A combination that a universe does without.

    Attributes:
        name: what is avoided.
        reason: why.
        leave_out: changes the spec of a document so that it is not there.
        known: name of the plan in the folder `known` that fails by the bug; None: no scenario can say it.
    """

    name: str
    reason: str
    leave_out: Callable[[Values], None]
    known: str | None = None


def _without_faults(applies: Callable[[Values, Values], bool]) -> Callable[[Values], None]:
    def leave_out(spec: Values) -> None:
        spec["faults"] = [fault for fault in spec["faults"] if not applies(spec, fault)]

    return leave_out


def _stop_trimming(spec: Values) -> None:
    topology, transport = spec["topology"], spec["transport"]
    if transport["kind"] == "mrc" and "window" in transport and _flow_control(spec) == "none":
        topology["queue"] = topology.get("queue", {}) | {"trim": {"enabled": False}}


def _flow_control(spec: Values) -> str:
    return str(spec["topology"].get("flow_control", "none"))


def _is_met_twice(spec: Values, fault: Values) -> bool:
    return [other["select"] for other in spec["faults"]].count(fault["select"]) > 1


AVOIDED: Final = (
    Avoided(
        "duplicate with credits",
        "the scenario language refuses it: the credit of a packet that comes twice would come back twice",
        _without_faults(
            lambda spec, fault: fault["kind"] == "duplicate" and _flow_control(spec) == "credits"
        ),
    ),
    Avoided(
        "pause-storm without flow control",
        "the scenario language refuses it: nothing could be paused",
        _without_faults(lambda spec, fault: fault["kind"] == "pause-storm" and _flow_control(spec) == "none"),
    ),
    Avoided(
        "drain with ecmp",
        "the scenario language refuses it: no EV names a path",
        _without_faults(
            lambda spec, fault: fault["kind"] == "drain" and spec["topology"].get("forwarding") == "ecmp"
        ),
    ),
    Avoided(
        "trimming with a fixed window",
        "livelock: trimmed packets go before data, fill the port that trims, and are sent again at once",
        _stop_trimming,
        known="trim-livelock",
    ),
    Avoided(
        "corrupt where NICs do not check the iCRC all the time",
        "what was damaged just before the fault ends arrives unchecked just after",
        _without_faults(
            lambda spec, fault: fault["kind"] == "corrupt" and spec["topology"]["nic"].get("icrc") != "on"
        ),
        known="corrupt-ends",
    ),
    Avoided(
        "nic-agent-kill of a host that another fault stops or kills too",
        "the run connects to the new agent as the first of them ends, when there is none yet",
        _without_faults(lambda spec, fault: fault["kind"] == "nic-agent-kill" and _is_met_twice(spec, fault)),
        known="kill-while-paused",
    ),
)
