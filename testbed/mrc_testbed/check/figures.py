"""The figures that a health check measures. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from mrc_testbed.probing.localisation import Diagnosis


@dataclass(frozen=True, slots=True)
class PairFigures:
    """RDMA WRITEs from one host to another."""

    # source, target: names
    source: str
    target: str
    distance: int  # the tier that joins them; 0: they share their T0s
    # payload over the time that all messages took; None: nothing was acknowledged
    bandwidth_bps: float | None
    latency_ns: float | None  # mean time of a small message until it is acknowledged; None: not all were
    wrong_bytes: int = 0  # received bytes that are not those sent
    error: str | None = None  # why not all messages completed; None when they did


@dataclass(frozen=True, slots=True)
class PathFigures:
    """Probes of one way through the fabric."""

    # source, target: names; the same for a link probe, which a switch sends back
    source: str
    target: str
    plane: int  # number
    over: str  # the switch at which it turns down
    uplink: int | None  # number at the source's T0; None: there is no choice
    # links, nodes: names of all that it crosses, ends included
    links: tuple[str, ...]
    nodes: tuple[str, ...]
    sent: int  # probes
    answered: int  # of them
    rtt_ns: float | None  # of the fastest, or of a link probe the mean; None: none was answered

    @property
    def is_path(self) -> bool:
        """Return True if it leads to another host."""
        return self.source != self.target

    @property
    def name(self) -> str:
        """The path, for people."""
        lane = "" if self.uplink is None else f", uplink {self.uplink}"
        return f"{self.source} > {self.target} over {self.over}{lane}"


@dataclass(frozen=True, slots=True)
class AllReduceFigures:
    """All-reduces over all hosts that live."""

    ranks: int  # how many hosts
    size_bytes: int  # data of each
    operations: int  # completed
    time_ns: float | None  # median; None: none has completed
    busbw_bps: float  # rate at which the busiest NIC sends meanwhile
    error: str | None  # why they did not complete


@dataclass(frozen=True, slots=True)
class CheckFigures:
    hosts: Sequence[str]  # names, in order
    silent: dict[str, str]  # hosts whose NIC agent does not answer, with the reason
    pairs: Sequence[PairFigures]  # ordered pairs that were measured
    pair_count: int  # ordered pairs that there are
    paths: Sequence[PathFigures]  # between those pairs
    path_count: int  # paths that there are between them
    link_probes: Sequence[PathFigures]  # none without source routes
    diagnosis: Diagnosis  # what the link probes say
    names_paths: bool  # whether an EV names its path: where switches hash, its response takes another one
    all_reduce: AllReduceFigures | None  # None: fewer than two hosts can take part
    barrier_ns: dict[str, float]  # by host, median time until its word has reached others and is acknowledged
    rtt_noise_ns: int  # time by which this machine may make an RTT longer
    barrier_noise_ns: int  # the same of a barrier, which processes take part in
