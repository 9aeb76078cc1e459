"""The documents made from the verbs' signatures and docstrings: the reference page and the client's methods.

python -m tests.verbs_reference page > docs/reference/verbs.md
python -m tests.verbs_reference methods > agents/mrc_agents/nic/verb_methods.py
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Final, get_type_hints

from mrc_agents.abi import NicConfig, TierEntry
from mrc_agents.nic.application_verbs import WorkVerbs
from mrc_agents.nic.arguments import type_text
from mrc_agents.nic.cc_profile_verbs import CcProfileVerbs
from mrc_agents.nic.daemon import NicAgent
from mrc_agents.nic.ev_verbs import EvVerbs
from mrc_agents.nic.profile_verbs import ProfileVerbs
from mrc_agents.nic.qp import QpAttributes, attribute_ranges
from mrc_agents.nic.qp_verbs import QueuePairVerbs
from mrc_agents.nic.rc_verbs import RcVerbs
from mrc_agents.nic.verb import verbs_of
from mrc_agents.nic.verbs import LinkProbeVerbs, MemoryVerbs, Verbs

_SECTIONS: Final[tuple[tuple[str, type], ...]] = (
    ("The NIC", Verbs),
    ("Memory", MemoryVerbs),
    ("Queue pairs", QueuePairVerbs),
    ("Reliable connections", RcVerbs),
    ("Work", WorkVerbs),
    ("EVs of a QP, and paths", EvVerbs),
    ("EV formats and EV profiles", ProfileVerbs),
    ("CC profiles", CcProfileVerbs),
    ("Link probes", LinkProbeVerbs),
    ("Waiting", NicAgent),
)
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
_NOMINAL: Final = NicConfig(plane_count=4, tiers=(TierEntry * 3)(TierEntry(4), TierEntry(1, 1)))
_NOMINAL_EVS: Final = 128


def reference_page() -> str:
    head = Path(__file__).with_name("verbs_reference_template.md").read_text()
    return head.replace("{attributes}", "\n".join(_attribute_rows())) + "".join(_sections())


def _sections() -> Iterator[str]:
    for title, holder in _SECTIONS:
        yield f"\n## {title}\n"
        for name in verbs_of(holder):
            yield _verb_text(name, getattr(holder, name))


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
    defaults = {field.name: field.default for field in fields(QpAttributes)}
    for name, (low, high) in ranges.items():
        default = str(defaults[name])
        if defaults[name] is MISSING:
            default = "needed" if name == "peer_host" else "of the NIC"
        yield f"| {name} | {default} | {int(low)} to {int(high)} | {meanings[name]} |"


def _json(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


_METHODS_HEAD: Final = '''"""Verbs of a NIC as methods. Generated: see tests/verbs_reference.py."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from mrc_agents.errors import AgentError


class VerbMethods(ABC):
    """Each may raise AgentError (nobody answers) or UsageError (the agent refused; it names the argument)."""

    @abstractmethod
    def call(self, verb: str, **arguments: Any) -> Any:
        """The result of any verb."""

    def ask(self, kind: type, verb: str, **arguments: Any) -> Any:
        """The result of a verb; AgentError unless it is a *kind*: an agent in a container is not trusted."""
        result = self.call(verb, **arguments)
        if not isinstance(result, kind):
            raise AgentError(f"a NIC agent answers {verb!r} with what is no {kind.__name__}")
        return result
'''


def verb_methods() -> str:
    """The module agents/mrc_agents/nic/verb_methods.py."""
    return _METHODS_HEAD + "".join(
        _method_text(name, getattr(holder, name)) for _, holder in _SECTIONS for name in verbs_of(holder)
    )


def _method_text(name: str, verb: Callable[..., Any]) -> str:
    signature = inspect.signature(verb)
    given = [
        f"**{each.name}" if each.kind is each.VAR_KEYWORD else f"{each.name}={each.name}"
        for each in signature.parameters.values()
        if each.name != "self"
    ]
    text = str(signature).replace("collections.abc.", "").replace("typing.", "").replace("'", '"')
    returned = inspect.formatannotation(signature.return_annotation).replace("typing.", "")
    summary = (inspect.getdoc(verb) or "").split("\n\n")[0].replace("\n", " ")
    asked = ", ".join([f'"{name}"', *given])
    body = f"self.call({asked})"
    if returned != "None":
        kind = returned.partition("[")[0]
        body = f"result: {returned} = self.ask({kind}, {asked})\n        return result"
    return f'''
    def {name}{text}:
        """{summary}"""
        {body}
'''


if __name__ == "__main__":
    sys.stdout.write(verb_methods() if sys.argv[1:] == ["methods"] else reference_page())
