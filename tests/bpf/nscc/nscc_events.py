"""Random lives of a QP's congestion control: parameters, and events that reach every branch."""

from dataclasses import dataclass
from fractions import Fraction

from hypothesis import strategies as st
from reference.congestion import Congestion, SackFeedback
from reference.nscc import Nscc
from reference.reliability_header import CcState

from mrc_agents.errors import UsageError
from mrc_agents.protocol.cc_profile import CcLink, CcParameters, CcProfile, derive_profile

UNIT_BYTES = 256
UNIT_COUNT = 1 << 24
_KINDS = ("SEND", "SACK", "SACK", "SACK", "NACK", "INFERRED_LOSS", "FALSE_LOSS", "DRAINED", "IDLE")


@dataclass(frozen=True)
class Event:
    """One event in terms of the QP's own scales, so that shrunk examples can be read."""

    kind: str  # member of enum mrc_step_kind
    elapsed_rtts: Fraction = Fraction(0)  # base RTTs since the last event; below 0: model time steps back
    rtt_ratio: Fraction = Fraction(0)  # RTT sample in base RTTs; 0: no sample
    edge: str | None = None  # parameter at which the delay is to lie, instead of what rtt_ratio says
    edge_offset_ns: int = 0  # from there
    packets: int = 1  # nominal sizes received, or sent as one
    units_back: int = 0  # units of CC_STATE.rcvd_bytes by which the SACK is an overtaken one
    penalty: int = 0
    is_penalty_over: bool = False
    is_marked: bool = False
    is_trimmed: bool = True


def ratios(low: Fraction, high: Fraction) -> st.SearchStrategy[Fraction]:
    return st.fractions(low, high, max_denominator=1 << 10)


links = st.builds(
    CcLink,
    rate_bps=st.integers(10**6, 9 * 10**11),  # with more over 5 ms there is no profile
    base_rtt_ns=st.integers(2_000, 5_000_000),
    mtu_bytes=st.sampled_from([256, 1024, 2048, 4096]),
    is_trimming=st.booleans(),
    time_stretch=st.one_of(st.none(), ratios(Fraction(1), Fraction(1000))),
)
settings_given = st.fixed_dictionaries(
    {},
    optional={
        "gamma": ratios(Fraction(0), Fraction(1)),
        "max_md_jump": ratios(Fraction(0), Fraction(1)),
        "fi_scale": ratios(Fraction(0), Fraction(1000)),
        "disable_qa": st.booleans(),
        "is_fixed": st.booleans(),
        "qa_gate": st.integers(0, 31),
        "qa_threshold": st.one_of(st.none(), st.integers(0, 10**7)),
        "delay_gain": st.one_of(st.just(Fraction(1)), ratios(Fraction(0), Fraction(1))),
        "no_delay": st.integers(0, 10**6),
        "sack_threshold": st.sampled_from([0, 16384]),
        "adjust_period_threshold": st.integers(0, 10**7),
        "adjust_bytes_threshold": st.one_of(
            st.integers(0, 40).map(UNIT_BYTES.__mul__), st.integers(0, 1 << 30)
        ),
    },
)


def _has_parameters(profile: CcProfile) -> bool:
    """Return True if its numbers fit their fields, which those of a link that is far too fast do not."""
    try:
        CcParameters.from_profile(profile)
    except UsageError:
        return False
    return True


profiles = st.builds(derive_profile, links, settings_given).filter(_has_parameters)

ordinary_events = st.builds(
    Event,
    kind=st.sampled_from(_KINDS),
    elapsed_rtts=st.one_of(ratios(Fraction(0), Fraction(1, 2)), ratios(Fraction(-1, 8), Fraction(3))),
    rtt_ratio=st.one_of(
        st.just(Fraction(0)),
        ratios(Fraction(1), Fraction(9, 8)),
        ratios(Fraction(1), Fraction(4)),
        ratios(Fraction(1, 2), Fraction(1)),
    ),
    edge=st.sampled_from([None, None, None, "target_delay_ns", "no_delay_ns", "qa_threshold_ns"]),
    edge_offset_ns=st.sampled_from([-1, 0, 0, 1]),
    packets=st.one_of(st.integers(0, 4), st.integers(0, 1000)),
    units_back=st.one_of(st.just(0), st.just(0), st.integers(0, 64), st.integers(0, UNIT_COUNT - 1)),
    penalty=st.one_of(st.just(0), st.just(0), st.integers(0, 127)),
    is_penalty_over=st.sampled_from([False, False, False, True]),
    is_marked=st.booleans(),
    is_trimmed=st.sampled_from([True, True, False]),
)
lives = st.lists(ordinary_events, min_size=1, max_size=60)

_EDGES_NS = (1, 2, 255, 1_000, 750_000, 10**9)
extreme_parameters = st.builds(
    CcParameters,
    mtu_bytes=st.sampled_from([256, 1 << 16]),
    base_rtt_ns=st.sampled_from([1_000, 10**9]),
    target_delay_ns=st.sampled_from([100, 10**9]),
    no_delay_ns=st.sampled_from([0, *_EDGES_NS]),
    qa_threshold_ns=st.sampled_from([0, 10**9, (1 << 32) - 1]),
    adjust_period_threshold_ns=st.sampled_from([0, 10**9]),
    adjust_bytes_threshold=st.sampled_from([0, 1 << 30]),
    max_cwnd_bytes=st.sampled_from([1 << 16, 1 << 30]),
    fi_bytes=st.sampled_from([1, 1 << 30]),
    pi_bytes=st.sampled_from([0, 1, 1 << 30]),
    eta_bytes=st.sampled_from([0, 1 << 30]),
    fi_scale_q16=st.sampled_from([0, 1, 1000 << 16]),
    gamma_q16=st.sampled_from([0, 1, 1 << 16]),
    max_md_jump_q16=st.sampled_from([0, 1, 1 << 16]),
    delay_gain_q16=st.sampled_from([0, 1, 1 << 16]),
    sack_threshold_bytes=st.sampled_from([0, 1 << 30]),
    qa_gate=st.sampled_from([0, 31]),
    disable_qa=st.sampled_from([0, 1]),
    is_fixed=st.just(0),
)


class Life:
    """The reference living through events; it also turns them into the C code's."""

    def __init__(
        self, parameters: CcParameters, start_ns: int = 1 << 40, algorithm: type[Congestion] = Nscc
    ) -> None:
        self.congestion = algorithm.start(parameters)
        self.now_ns = start_ns
        self._received_bytes = 0
        self._nominal_bytes = parameters.mtu_bytes + 88

    def absolute(self, event: Event) -> dict[str, int]:
        """*event* as struct mrc_step, but for its kind."""
        base_rtt_ns = self.congestion.parameters.base_rtt_ns
        self.now_ns += int(event.elapsed_rtts * base_rtt_ns)
        size_bytes = event.packets * self._nominal_bytes
        if event.kind == "SACK":
            self._received_bytes += size_bytes
        units = -(-self._received_bytes // UNIT_BYTES) - event.units_back
        state = CcState(0, 0, event.is_penalty_over, event.penalty, units % UNIT_COUNT)
        rtt_ns = int(event.rtt_ratio * base_rtt_ns)
        if event.edge:
            delay_ns = getattr(self.congestion.parameters, event.edge) + event.edge_offset_ns
            rtt_ns = self.congestion.base_rtt_ns + delay_ns
        return {
            "now_ns": self.now_ns,
            "rtt_ns": rtt_ns,
            "nominal_bytes": size_bytes if event.kind == "SEND" else self._nominal_bytes,
            "cc_state": int.from_bytes(state.encode()),
            "is_marked": int(event.is_marked),
            "is_trimmed": int(event.is_trimmed),
        }

    def apply(self, kind: str, step: dict[str, int]) -> int:
        """The reason that the reference gives for what it does on a step."""
        congestion, size_bytes = self.congestion, step["nominal_bytes"]
        match kind:
            case "SACK":
                state = CcState.decode(step["cc_state"].to_bytes(8))
                is_marked = bool(step["is_marked"])
                return congestion.on_sack(SackFeedback(step["now_ns"], state, step["rtt_ns"], is_marked))
            case "NACK":
                return congestion.on_nack(step["now_ns"], size_bytes, is_trimmed=bool(step["is_trimmed"]))
            case "INFERRED_LOSS":
                return congestion.on_inferred_loss(size_bytes)
            case "SEND":
                congestion.on_send(size_bytes)
            case "FALSE_LOSS":
                congestion.on_false_loss(size_bytes)
            case "DRAINED":
                congestion.on_drained()
            case "IDLE":
                congestion.on_idle()
        return 0
