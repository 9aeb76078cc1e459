"""The reference page of the verbs, made from signatures and docstrings; run as a module, it prints it."""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from importlib import resources
from typing import Any, Final, get_type_hints

from agents.abi import NicConfig
from agents.nic.arguments import type_text
from agents.nic.cc_profile_verbs import CcProfileVerbs
from agents.nic.daemon import NicAgent
from agents.nic.ev_verbs import EvVerbs
from agents.nic.link_probe_verbs import LinkProbeVerbs
from agents.nic.memory_verbs import MemoryVerbs
from agents.nic.profile_verbs import ProfileVerbs
from agents.nic.qp import QpAttributes, attribute_ranges
from agents.nic.qp_verbs import QueuePairVerbs
from agents.nic.rc_verbs import RcVerbs
from agents.nic.stream_verbs import StreamVerbs
from agents.nic.verbs import NAMES, Verbs
from agents.nic.work_verbs import WorkVerbs

_SECTIONS: Final[tuple[tuple[str, type], ...]] = (
    ("The NIC", Verbs),
    ("Memory", MemoryVerbs),
    ("Queue pairs", QueuePairVerbs),
    ("Reliable connections", RcVerbs),
    ("Connections of the kernel's TCP", StreamVerbs),
    ("Work", WorkVerbs),
    ("EVs of a QP, and paths", EvVerbs),
    ("EV formats and EV profiles", ProfileVerbs),
    ("CC profiles", CcProfileVerbs),
    ("Link probes", LinkProbeVerbs),
    ("Waiting", NicAgent),
)
_WAITING: Final = ("wait", "probe_evs", "connect_stream")
_USUAL_MEANINGS: Final = {
    "qpn": "number of the QP.",
    "format_id": "the format.",
    "profile_id": "the profile.",
    "peer_qpn": "number of the peer's QP.",
    "evs": "indices of EVs, as `ev_list` gives them.",
    "work_id": "as `post_write` gave it.",
    "count": "how many.",
    "plane": "as in `deny_path`.",
    "uplink": "as in `deny_path`.",
    "peer_host": "as in `deny_path`.",
}
_NOMINAL: Final = NicConfig(plane_count=4, hosts_per_t0=4, uplinks_per_pair=1)
_NOMINAL_EVS: Final = 128


def reference_page() -> str:
    """The page in Markdown."""
    head = resources.files(__package__).joinpath("reference_template.md").read_text(encoding="utf-8")
    return head.replace("{attributes}", "\n".join(_attribute_rows())) + "".join(_sections())


def _sections() -> Iterator[str]:
    described: set[str] = set()
    for title, holder in _SECTIONS:
        names = [name for name in _names_of(holder) if name not in described]
        described.update(names)
        if names:
            yield f"\n## {title}\n"
        for name in names:
            yield _verb_text(name, getattr(holder, name))
    missing = (set(NAMES) | set(_WAITING)) - described
    if missing:
        raise AssertionError(f"verbs of no section: {sorted(missing)}")


def _names_of(holder: type) -> list[str]:
    return [name for name in (*NAMES, *_WAITING) if name in vars(holder)]


def _verb_text(name: str, verb: Callable[..., Any]) -> str:
    summary, arguments = _docstring(verb)
    rows = list(_argument_rows(verb, arguments))
    table = "\n| argument | type | default | meaning |\n| --- | --- | --- | --- |\n" + "\n".join(rows) + "\n"
    return f"\n### {name}\n\n{summary}\n" + (table if rows else "")


def _docstring(documented: object, heading: str = "Args") -> tuple[str, dict[str, str]]:
    """Text in front of the list of *heading*, and the text of each entry."""
    text = inspect.getdoc(documented) or ""
    before, _, after = text.partition(f"{heading}:\n")
    entries: dict[str, str] = {}
    name = None
    for line in after.split("\n"):
        if match := re.match(r"    (\w+): (.*)", line):
            name = match[1]
            entries[name] = match[2]
        elif name and line.startswith("     "):
            entries[name] += " " + line.strip()
        elif line and not line.startswith(" "):
            break
    return re.sub(r"\s*\n(?!\n)", "\n", before).strip().replace("\n", " "), entries


def _argument_rows(verb: Callable[..., Any], meanings: dict[str, str]) -> Iterator[str]:
    hints = get_type_hints(verb)
    for name, parameter in inspect.signature(verb).parameters.items():
        if name == "self":
            continue
        default = "needed" if parameter.default is parameter.empty else f"`{_json(parameter.default)}`"
        if parameter.kind is parameter.VAR_KEYWORD:
            default = ""
        kind = type_text(hints[name])
        meaning = meanings.get(name) or _USUAL_MEANINGS[name]
        yield f"| {name} | {kind} | {default} | {meaning} |"


def _attribute_rows() -> Iterator[str]:
    _, meanings = _docstring(QpAttributes, "Attributes")
    ranges = attribute_ranges(_NOMINAL, _NOMINAL_EVS)
    for field in fields(QpAttributes):
        if field.name not in ranges:
            continue
        low, high = ranges[field.name]
        default = str(field.default)
        if field.default is MISSING:
            default = "needed" if field.name == "peer_host" else "of the NIC"
        yield f"| {field.name} | {default} | {int(low)} to {int(high)} | {meanings[field.name]} |"


def _json(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    sys.stdout.write(reference_page())
