"""Which ports and links the overrides of a topology are for.

`pick: random` in an override draws by its place in the list, so that a spec always means the same links.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from mrc_testbed.shown import format_rate
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.queue_spec import QueueOverride
from mrc_testbed.topology.select import select_links


def overriding_delays_ns(clos: Clos) -> Mapping[int, int]:
    """By link id, the delay of the links that have one of their own."""
    delays_ns: dict[int, int] = {}
    for place, entry in enumerate(clos.spec.link_delays):
        delays_ns |= {link.id: entry.delay for link in select_links(clos, entry.select, place)}
    return delays_ns


@lru_cache(maxsize=4)
def link_delays_ns(clos: Clos) -> tuple[int, ...]:
    """One-way delay of each link, by link id, with the time that a NIC at one of its ends takes."""
    number, own_ns = clos.numbering, overriding_delays_ns(clos)
    return tuple(
        own_ns.get(link_id, clos.spec.link_delay)
        + (clos.spec.nic.delay if link_id < number.host_link_count else 0)
        for link_id in range(number.link_count)
    )


def overrides_by_port(clos: Clos) -> Mapping[int, tuple[QueueOverride, ...]]:
    """By port id, the overrides that are for it, in their order; ports without any are left out."""
    found: dict[int, tuple[QueueOverride, ...]] = {}
    for place, override in enumerate(clos.spec.queue.overrides):
        for port_id in port_ids_of_override(clos, override, place):
            found[port_id] = (*found.get(port_id, ()), override)
    return found


@lru_cache(maxsize=4)  # asked for at every turn, and a large fabric has 100 000 ports
def port_rates_bps(clos: Clos) -> tuple[int, ...]:
    """Rate of each port, by port id; 0 where the fabric is unshaped."""
    rates = [clos.spec.port_rate or 0] * clos.numbering.port_count
    if any(override.rate for override in clos.spec.queue.overrides):
        for port_id, overrides in overrides_by_port(clos).items():
            for override in overrides:
                rates[port_id] = override.rate or rates[port_id]
    return tuple(rates)


def other_rates(clos: Clos) -> str:
    """The text after port_rate: `, but 25 Mbit/s to 50 Mbit/s at 8 ports`; empty if all have that."""
    others_bps = [rate_bps for rate_bps in port_rates_bps(clos) if rate_bps != (clos.spec.port_rate or 0)]
    if not others_bps:
        return ""
    least, most = format_rate(min(others_bps)), format_rate(max(others_bps))
    rates = least if least == most else f"{least} to {most}"
    return f", but {rates} at {len(others_bps)} port{'s' if len(others_bps) > 1 else ''}"


def port_ids_of_override(clos: Clos, override: QueueOverride, seed: int) -> Iterator[int]:
    """The ports that *override* is for, each once; *seed* decides what `pick: random` takes."""
    links = clos.links() if override.select is None else select_links(clos, override.select, seed)
    for link in links:
        for port in link.ports:
            if override.at is None or port.node.tier is override.at:
                yield port.id
