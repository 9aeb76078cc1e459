"""Queue pairs of the reliable connection: attributes, and the kernel's QP built from them."""

from dataclasses import asdict, dataclass
from typing import ClassVar, Final

from mrc_agents.abi import (
    Dcqcn,
    DcqcnParameterStruct,
    EvLayout,
    Limit,
    NicConfig,
    QpState,
    RcQp,
    RcReq,
    RcResp,
)
from mrc_agents.clock import monotonic_ns
from mrc_agents.errors import UsageError
from mrc_agents.nic.qp import PSN_MAX, build_head, last_host
from mrc_agents.nic.qp import TRANSITIONS as MRC_TRANSITIONS
from mrc_agents.nic.work_queue import SenderAttributes, Transition, WorkQueue
from mrc_agents.protocol.dcqcn import ONE_Q16, DcqcnParameters

_U32_MAX: Final = (1 << 32) - 1
_POSITIVE: Final = frozenset(
    {"line_kbps", "min_kbps", "alpha_ns", "rate_ns", "counter_bytes", "mtu_bytes", "base_rtt_ns"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RcAttributes(SenderAttributes):
    """The attributes of a reliable connection; docs/explanation/transports.md says what follows from each."""

    cnp_interval_ns: int  # as responder, least time between two congestion notifications
    cc: DcqcnParameters  # DCQCN's parameters
    # 1: packets may overtake one another, as where switches choose the way of each; every packet says where
    # it goes and is placed as it comes. Both ends must agree.
    any_order: int = 0

    @property
    def max_wimm(self) -> int:
        """WRITEs with immediate that may be outstanding: as many as messages."""
        return int(Limit.WORK_RING)

    def check(self, config: NicConfig) -> None:
        if not 1 <= len(self.evs) <= Limit.EV_MAX:
            raise UsageError(f"evs: {len(self.evs)} of them; 1 to {Limit.EV_MAX} are accepted")
        for ev in self.evs:
            if ev >> EvLayout.PLANE_SHIFT >= config.plane_count:
                raise UsageError(f"evs: {ev:#x} names no plane of this NIC")
        for name, value, low, high in (
            ("peer_host", self.peer_host, 0, last_host(config)),
            ("window_packets", self.window_packets, 1, Limit.PSN_RING),
            ("pmtu_bytes", self.pmtu_bytes, 256, config.pmtu_max or Limit.PMTU_MAX),
            ("rto_ns", self.rto_ns, 1_000, 60_000_000_000),
            ("retry_limit", self.retry_limit, 0, 1000),
            ("cnp_interval_ns", self.cnp_interval_ns, 0, _U32_MAX),
            ("first_psn", self.first_psn, 0, PSN_MAX),
            ("peer_first_psn", self.peer_first_psn or 0, 0, PSN_MAX),
            ("any_order", self.any_order, 0, 1),
        ):
            if not low <= value <= high:
                raise UsageError(f"{name}: {value}; {low} to {high} is accepted")
        for name, parameter in asdict(self.cc).items():
            low = int(name in _POSITIVE)
            if not low <= parameter <= _U32_MAX:
                raise UsageError(f"cc.{name}: {parameter}; {low} to {_U32_MAX} is accepted")


TRANSITIONS: Final = {
    "RTR": Transition(frozenset({QpState.INIT}), frozenset({"peer_host", "peer_qpn", "peer_first_psn"})),
    "RTS": Transition(frozenset({QpState.RTR}), frozenset({"first_psn"})),
    "ERROR": MRC_TRANSITIONS["ERROR"],
}


@dataclass(slots=True)
class RcQueuePair(WorkQueue):
    """The agent's side of a reliable connection."""

    transitions: ClassVar = TRANSITIONS

    attributes: RcAttributes


def build_rc_qp(qp: RcQueuePair, config: NicConfig) -> RcQp:
    """The kernel's QP in state INIT."""
    attributes, now_ns = qp.attributes, monotonic_ns()
    peer_first_psn = attributes.peer_first_psn or 0  # needed before the QP receives
    value = RcQp(
        state=QpState.INIT,
        head=build_head(qp, config),
        is_any_order=attributes.any_order,
        cc=DcqcnParameterStruct(**asdict(attributes.cc)),
        resp=RcResp(
            cnp_interval_ns=attributes.cnp_interval_ns,
            expected_psn=peer_first_psn,
            first_expected=peer_first_psn,
            delivered_psn=peer_first_psn,
        ),
        req=RcReq(
            window_packets=attributes.window_packets,
            ev_count=len(attributes.evs),
            next_psn=attributes.first_psn,
            max_psn=attributes.first_psn,
            una_psn=attributes.first_psn,
            acked_psn=attributes.first_psn,
        ),
    )
    value.dcqcn = Dcqcn(
        rate_kbps=attributes.cc.line_kbps,
        target_kbps=attributes.cc.line_kbps,
        alpha_q16=ONE_Q16,
        alpha_updated_ns=now_ns,
        rate_updated_ns=now_ns,
    )
    for place, ev in enumerate(attributes.evs):
        value.req.evs[place] = ev
    return value
