"""From what a user writes to the fabric that it describes: the one road to a `Clos`."""

from pathlib import Path

from mrc_agents.abi import Limit
from mrc_testbed.document import envelope as document
from mrc_testbed.document.problem import LimitProblems, Location
from mrc_testbed.errors import UsageError
from mrc_testbed.shown import format_time
from mrc_testbed.topology import timing
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.port_selection import port_ids_of_override
from mrc_testbed.topology.select import select_links
from mrc_testbed.topology.selector_spec import LinkSelector
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.units import format_duration_ns, format_rate_bps, format_size_bytes


def resolve_topology(spec: TopologySpec) -> Clos:
    """The fabric that *spec* describes.

    Raises:
        ValidationError: lists every override that is for no port or link, and what the fabric as a whole
            makes impossible or without effect.
    """
    clos, problems = Clos(spec), LimitProblems()
    _check_selections(clos, problems)
    if not problems:
        _check_time_out(clos, problems)
        _check_flow_control(clos, problems)
    problems.raise_if_any("topology")
    return clos


def check_topology(spec: TopologySpec) -> TopologySpec:
    """*spec* if it describes a fabric; for models with a topology in them."""
    return resolve_topology(spec).spec


def check_live(spec: TopologySpec) -> None:
    """Refuse what only virtual time can do."""
    if spec.nic.path_mtu > Limit.PMTU_MAX:
        raise UsageError(
            f"packets of {format_size_bytes(spec.nic.path_mtu)} are for --virtual: "
            f"an interface with XDP takes {format_size_bytes(Limit.PMTU_MAX)}"
        )


def load_topology(source: Path | str) -> TopologySpec:
    """The topology in the file *source* (or, given as str, in that text)."""
    return document.validate(document.load(source, document.Kind.TOPOLOGY), TopologySpec, check_topology)


def _check_selections(clos: Clos, problems: LimitProblems) -> None:
    """Adds to *problems* every override that is for no port, or for no link."""
    for place, entry in enumerate(clos.spec.link_delays):
        _check_links(clos, entry.select, place, ("link_delays", place, "select"), problems)
    for place, override in enumerate(clos.spec.queue.overrides):
        where: Location = ("queue", "overrides", place)
        if override.rate and override.rate > (clos.spec.port_rate or override.rate):
            fastest = format_rate_bps(clos.spec.port_rate or 0)
            problems.add((*where, "rate"), override.rate, f"rate must be port_rate, {fastest}, or less")
        select = override.select
        if select is not None and not _check_links(clos, select, place, (*where, "select"), problems):
            continue
        if not any(True for _ in port_ids_of_override(clos, override, place)):
            problems.add((*where, "at"), override.at, f"none of these links ends at a {override.at}")


def _check_links(
    clos: Clos, selector: LinkSelector, seed: int, where: Location, problems: LimitProblems
) -> bool:
    try:
        return bool(select_links(clos, selector, seed))
    except UsageError as error:
        problems.add(where, selector, error.message)
        return False


def _check_time_out(clos: Clos, problems: LimitProblems) -> None:
    """Notes a time-out that probes could not meet even in an idle fabric."""
    probing = clos.spec.probing
    if probing is None:
        return
    rtt_ns = timing.base_rtt_ns(clos)
    if probing.timeout <= rtt_ns:
        problems.add(
            "probing.timeout",
            probing.timeout,
            f"a time-out of {format_duration_ns(probing.timeout)}, but a round trip in the idle fabric takes "
            f"up to {format_time(rtt_ns)}; use several times that",
        )


def _check_flow_control(clos: Clos, problems: LimitProblems) -> None:
    """Adds to *problems* what contradicts itself or has no effect."""
    spec, kind = clos.spec, clos.spec.flow_control
    for key, given, needed in (("pfc", spec.pfc, "pfc"), ("credits", spec.credits, "credits")):
        for name, value in given.model_dump(exclude_none=True).items():
            if kind != needed:
                problems.add(
                    f"{key}.{name}", value, f"{key}.{name} has no effect without flow_control: {needed}"
                )
    if kind == "none":
        return
    if not spec.is_shaped:
        problems.add(
            "flow_control", kind, "flow_control has no effect in an unshaped fabric; give port_rate too"
        )
        return
    given_queue = spec.queue.settings()
    if given_queue.get("trim.enabled"):
        problems.add(
            "queue.trim.enabled",
            True,
            f"a fabric with flow_control: {kind} holds packets back; it never trims",
        )
    if "data_buffer" in given_queue:
        where = "pfc.xoff and pfc.headroom" if kind == "pfc" else "credits.buffer"
        problems.add(
            "queue.data_buffer",
            spec.queue.data_buffer,
            f"with flow_control: {kind} a packet waits in the buffer of the link it came by; set {where}",
        )
    frame_bytes = timing.full_frame_bytes(clos)
    if kind == "credits" and spec.credits.buffer is not None and spec.credits.buffer < frame_bytes:
        problems.add(
            "credits.buffer",
            spec.credits.buffer,
            f"a full frame has {frame_bytes} bytes, so none could ever be sent into {spec.credits.buffer}",
        )
