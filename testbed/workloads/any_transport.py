"""The transport that a scenario or a command asks for, on a lab that is up."""

from testbed.errors import UsageError
from testbed.fabric.live import Lab
from testbed.transport.congestion import CongestionControl
from testbed.transport.kernel_tcp import TcpCongestion
from testbed.transport.reliable_connection import RcCongestion
from testbed.transport.transport_kind import AnyCongestion, TransportKind
from testbed.workloads.kernel_transport import open_kernel
from testbed.workloads.mrc_transport import QpShape, open_mrc
from testbed.workloads.rc_transport import open_rc
from testbed.workloads.transport import Transport


def open_transport(
    lab: Lab, kind: TransportKind, congestion: AnyCongestion, *, evs: int | None = None
) -> Transport:
    """What carries the messages.

    Args:
        lab: the lab.
        kind: the transport.
        congestion: one of this transport's.
        evs: of an MRC QP over all planes; None for the topology's.

    Raises:
        UsageError: transport and congestion control do not go together.
    """
    match kind, congestion:
        case "mrc", CongestionControl():
            return open_mrc(lab, QpShape(evs, congestion))
        case "rocev2" | "infiniband" | "spray-gbn" as rc_kind, RcCongestion():
            return open_rc(lab, rc_kind, congestion)
        case "tcp" | "mptcp" as kernel_kind, TcpCongestion():
            return open_kernel(lab, kernel_kind, congestion)
    raise UsageError(f"{kind} has no congestion control {congestion.describe()}")
