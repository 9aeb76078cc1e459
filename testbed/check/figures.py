"""The figures that a health check measures. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PairFigures:
    """RDMA WRITEs from one host to another.

    Attributes:
        source, target: names.
        is_local: whether they share their T0s, and with it a shorter way.
        bandwidth_bps: payload over the time that all messages took; None: nothing was acknowledged.
        latency_ns: mean time of a small message until it is acknowledged; None: not all were.
        wrong_bytes: received bytes that are not those sent.
        error: why not all messages completed; None when they did.
    """

    source: str
    target: str
    is_local: bool
    bandwidth_bps: float | None
    latency_ns: float | None
    wrong_bytes: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class WayFigures:
    """Probes of one way through the fabric.

    Attributes:
        source, target: names; the same for a link probe, which a switch sends back.
        plane: number.
        over: the switch at which it turns down.
        uplink: number at the source's T0; None: there is no choice.
        links, nodes: names of all that it crosses, ends included.
        sent: probes.
        answered: of them.
        rtt_ns: of the fastest, or of a link probe the mean; None: none was answered.
    """

    source: str
    target: str
    plane: int
    over: str
    uplink: int | None
    links: tuple[str, ...]
    nodes: tuple[str, ...]
    sent: int
    answered: int
    rtt_ns: float | None

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
    """All-reduces over all hosts that live.

    Attributes:
        ranks: how many hosts.
        size_bytes: data of each.
        operations: completed.
        time_ns: median; None: none has completed.
        busbw_bps: rate at which the busiest NIC sends meanwhile.
        error: why they did not complete.
    """

    ranks: int
    size_bytes: int
    operations: int
    time_ns: float | None
    busbw_bps: float
    error: str | None


@dataclass(frozen=True, slots=True)
class Measured:
    """All that a health check has measured.

    Attributes:
        hosts: names, in order.
        silent: hosts whose NIC agent does not answer, with the reason.
        pairs: ordered pairs that were measured.
        pair_count: ordered pairs that there are.
        paths: between those pairs.
        path_count: paths that there are between them.
        link_probes: only there when something is wrong with a path and the fabric has source routes.
        names_paths: whether an EV names its path: where switches hash, its response takes another one.
        all_reduce: None: fewer than two hosts can take part.
        barrier_ns: by host, median time until its word has reached others and is acknowledged.
        rtt_noise_ns: time by which this machine may make an RTT longer.
        barrier_noise_ns: the same of a barrier, which processes take part in.
    """

    hosts: Sequence[str]
    silent: dict[str, str]
    pairs: Sequence[PairFigures]
    pair_count: int
    paths: Sequence[WayFigures]
    path_count: int
    link_probes: Sequence[WayFigures]
    names_paths: bool
    all_reduce: AllReduceFigures | None
    barrier_ns: dict[str, float]
    rtt_noise_ns: int
    barrier_noise_ns: int
