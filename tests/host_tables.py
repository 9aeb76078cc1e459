"""Tables of what NICs counted, from counts written down NIC by NIC."""

from collections.abc import Mapping
from dataclasses import astuple

from mrc_testbed.metrics.series import HostCounts, HostTable


def host_table(hosts: Mapping[str, HostCounts]) -> HostTable:
    places = {name: place for place, name in enumerate(hosts)}
    return HostTable(places, list(zip(*map(astuple, hosts.values()), strict=True)))
