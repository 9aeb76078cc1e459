"""CC profiles: the parameters of congestion control by their standard names, and what they default to.

    link rate, base RTT, MTU, trimming  ->  derive_profile  ->  CcProfile  ->  CcParameters (fixed point)
                                               ^
                               the user's values, by standard name

A profile is in the units of the text (ns, bytes, ratios as fractions of one), CcParameters in those that
the data plane computes with. Standard names are those of libmrc's CC profile; `no_delay`,
`delay_gain`, `sack_threshold` and `is_fixed` are ours.

Source: docs/reference/protocol.md, "Congestion control parameters".
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from fractions import Fraction
from typing import Final, Self, TypeVar

from mrc_agents.errors import UsageError
from mrc_agents.protocol.sizes import ROUNDING_MAX_BYTES, write_nominal_bytes

REFERENCE_RTT_NS: Final = 12_000
REFERENCE_BDP_BYTES: Final = 150_000
"""100 Gbit/s for REFERENCE_RTT_NS."""

RATIO_SHIFT: Final = 16
"""Ratios in fixed point are in units of 2**-RATIO_SHIFT."""

NO_QA_THRESHOLD_NS: Final = (1 << 32) - 1
"""No delay is above it."""

BASE_RTT_MIN_NS: Final = 1_000
"""The shortest idle RTT that a profile can have."""

_NS_PER_S: Final = 10**9
_BYTES_MAX: Final = 1 << 30
_BITS_PER_BYTE: Final = 8

_MTU_MIN_BYTES: Final = 256
_MTU_MAX_BYTES: Final = 1 << 16
_PI_MAX_BYTES: Final = 1 << 30

Number = int | float | Fraction
Setting = Number | bool | None
"""A value that a user gives by standard name; None: never, where that is allowed."""
_Value = TypeVar("_Value", int, Number)


@dataclass(frozen=True, slots=True)
class CcLink:
    """The link properties that the defaults of a profile derive from."""

    rate_bps: int  # of the slowest hop that a QP's packets share: a host's port rate times its planes
    base_rtt_ns: int  # of an empty fabric, the longest path
    mtu_bytes: int  # path MTU, payload bytes per packet
    is_trimming: bool = True  # whether switches trim instead of dropping
    # how much slower than a data centre's the fabric's clock runs. None: base RTT / 12 us, so that the fabric
    # is the reference in slow motion.
    time_stretch: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Attribute:
    """A parameter that a profile can set."""

    name: str  # standard name
    unit: str  # "ns", "bytes", "ratio", "shift", or "bool"
    minimum: int | None  # least value allowed, inclusive; None: the MTU
    maximum: int  # greatest value allowed, inclusive
    is_optional: bool = False  # whether None, for "never", is allowed as well

    def expectation(self, mtu_bytes: int) -> str:
        """The values allowed, in words."""
        if self.unit == "bool":
            return "true or false"
        unit = self.unit if self.unit in {"ns", "bytes"} else ""
        least = mtu_bytes if self.minimum is None else self.minimum
        return f"{least} to {self.maximum} {unit}".rstrip() + (", or none" if self.is_optional else "")


ATTRIBUTES: Final = {
    attribute.name: attribute
    for attribute in (
        Attribute("base_rtt", "ns", BASE_RTT_MIN_NS, _NS_PER_S),
        Attribute("target_delay", "ns", 100, _NS_PER_S),
        Attribute("max_cwnd", "bytes", None, _BYTES_MAX),
        Attribute("gamma", "ratio", 0, 1),
        Attribute("max_md_jump", "ratio", 0, 1),
        Attribute("fi", "bytes", 1, _BYTES_MAX),
        Attribute("fi_scale", "ratio", 0, 1_000),
        Attribute("eta", "bytes", 0, _BYTES_MAX),
        Attribute("disable_qa", "bool", 0, 1),
        Attribute("qa_gate", "shift", 0, 31),
        Attribute("qa_threshold", "ns", 0, _NS_PER_S, is_optional=True),
        Attribute("adjust_bytes_threshold", "bytes", 0, _BYTES_MAX),
        Attribute("adjust_period_threshold", "ns", 0, _NS_PER_S),
        Attribute("no_delay", "ns", 0, _NS_PER_S),
        Attribute("delay_gain", "ratio", 0, 1),
        Attribute("sack_threshold", "bytes", 0, _BYTES_MAX),
        Attribute("is_fixed", "bool", 0, 1),
    )
}
"""All that a profile can set, by standard name."""


@dataclass(frozen=True, slots=True)
class CcProfile:
    """Congestion control of a QP; `derive_profile` makes it."""

    mtu_bytes: int  # path MTU; the window never falls below it
    base_rtt_ns: int  # RTT taken as that of an empty fabric until a shorter one is measured
    target_delay_ns: int  # queueing delay aimed at
    max_cwnd_bytes: int  # largest window, and the first one
    gamma: Number  # strength of a multiplicative decrease
    max_md_jump: Number  # share of the window that one decrease leaves at least
    fi_bytes: int  # fair increase per window received
    fi_scale: Number  # fast increase per byte received
    eta_bytes: int  # increase per adjust period
    # proportional increase per window received and ns below target_delay_ns; derived
    alpha_bytes_per_ns: Fraction
    disable_qa: bool  # no quick adapt
    qa_gate: int  # quick adapt only when less than max_cwnd / 2**qa_gate has arrived
    qa_threshold_ns: int | None  # delay above which quick adapt is considered; None: only loss does that
    adjust_bytes_threshold: int  # bytes received after which increases are granted early
    adjust_period_threshold_ns: int  # time after which they are, and eta with them
    no_delay_ns: int  # delay up to which a path counts as empty
    delay_gain: Number  # weight of a sample in the average delay
    sack_threshold_bytes: int  # bytes after which the responder sends a SACK unasked
    is_fixed: bool  # the window stays max_cwnd whatever happens


@dataclass(frozen=True, slots=True)
class CcParameters:
    """struct mrc_cc_parameters: a CC profile in the integers that the data plane computes with.

    Attributes:
        pi_bytes: proportional increase per window without delay, alpha x target_delay.
        fi_scale_q16, gamma_q16, max_md_jump_q16, delay_gain_q16: in units of 2**-RATIO_SHIFT.
        others: as in CcProfile.
    """

    mtu_bytes: int
    base_rtt_ns: int
    target_delay_ns: int
    no_delay_ns: int
    qa_threshold_ns: int
    adjust_period_threshold_ns: int
    adjust_bytes_threshold: int
    max_cwnd_bytes: int
    fi_bytes: int
    pi_bytes: int
    eta_bytes: int
    fi_scale_q16: int
    gamma_q16: int
    max_md_jump_q16: int
    delay_gain_q16: int
    sack_threshold_bytes: int
    qa_gate: int
    disable_qa: int
    is_fixed: int

    @classmethod
    def from_profile(cls, profile: CcProfile) -> Self:
        """The integers nearest to *profile*."""
        pi_bytes = round(profile.alpha_bytes_per_ns * profile.target_delay_ns)
        if pi_bytes > _PI_MAX_BYTES:
            raise UsageError(
                f"CC profile: alpha x target_delay is {pi_bytes}, expected at most {_PI_MAX_BYTES} bytes",
                hint="lower target_delay or the link's rate",
            )
        threshold_ns = profile.qa_threshold_ns
        named = {field.name: getattr(profile, field.name, 0) for field in fields(cls)}
        return cls(
            **named
            | {
                "qa_threshold_ns": NO_QA_THRESHOLD_NS if threshold_ns is None else threshold_ns,
                "pi_bytes": pi_bytes,
                "fi_scale_q16": _q16(profile.fi_scale),
                "gamma_q16": _q16(profile.gamma),
                "max_md_jump_q16": _q16(profile.max_md_jump),
                "delay_gain_q16": _q16(profile.delay_gain),
                "disable_qa": int(profile.disable_qa),
                "is_fixed": int(profile.is_fixed),
            }
        )

    @classmethod
    def fixed_window(cls, packets: int, mtu_bytes: int) -> Self:
        """A window of exactly *packets* full packets, whatever happens.

        It is smaller than their nominal bytes by what CC_STATE may have rounded up: rounding never lets one
        packet more go.
        """
        blank = dict.fromkeys((field.name for field in fields(cls)), 0)
        window_bytes = packets * write_nominal_bytes(mtu_bytes) - ROUNDING_MAX_BYTES
        return cls(**blank | {"mtu_bytes": mtu_bytes, "max_cwnd_bytes": window_bytes, "is_fixed": 1})


def _q16(ratio: Number) -> int:
    return round(Fraction(ratio) * (1 << RATIO_SHIFT))


@dataclass(frozen=True, slots=True)
class _Settings:
    """The user's values; each method gives one, or its default, checked."""

    given: Mapping[str, Setting]
    mtu_bytes: int

    def integer(self, name: str, default: Number) -> int:
        value = self.given.get(name, round(default))
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._refusal(name, value)
        return self._within(name, value)

    def optional_integer(self, name: str, default: int | None) -> int | None:
        return None if self.given.get(name, default) is None else self.integer(name, default or 0)

    def ratio(self, name: str, default: Number) -> Number:
        value = self.given.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
            raise self._refusal(name, value)
        return self._within(name, value)

    def flag(self, name: str, *, default: bool = False) -> bool:
        value = self.given.get(name, default)
        if not isinstance(value, bool):
            raise self._refusal(name, value)
        return value

    def _within(self, name: str, value: _Value) -> _Value:
        attribute = ATTRIBUTES[name]
        least = self.mtu_bytes if attribute.minimum is None else attribute.minimum
        if not least <= value <= attribute.maximum:
            raise self._refusal(name, value)
        return value

    def _refusal(self, name: str, value: object) -> UsageError:
        shown = float(value) if isinstance(value, Fraction) else value
        expected = ATTRIBUTES[name].expectation(self.mtu_bytes)
        return UsageError(f"CC profile: {name} is {shown!r}, expected {expected}")


def derive_profile(link: CcLink, settings: Mapping[str, Setting] | None = None) -> CcProfile:
    """The profile for *link*: its defaults, but for what *settings* give by standard name.

    `base_rtt` and `target_delay` are settled first, the defaults of the others follow from them.
    """
    given = dict(settings or {})
    for name in given.keys() - ATTRIBUTES.keys():
        nearest = get_close_matches(name, ATTRIBUTES, n=1)
        hint = f"did you mean {nearest[0]}?" if nearest else None
        raise UsageError(f"CC profile: there is no {name}; there are {', '.join(ATTRIBUTES)}", hint=hint)
    if not _MTU_MIN_BYTES <= link.mtu_bytes <= _MTU_MAX_BYTES:
        raise UsageError(
            f"CC profile: the MTU is {link.mtu_bytes}, expected {_MTU_MIN_BYTES} to {_MTU_MAX_BYTES} bytes"
        )
    if link.rate_bps <= 0:
        raise UsageError(f"CC profile: the link's rate is {link.rate_bps} bit/s, expected more than 0")
    if link.time_stretch is not None and link.time_stretch <= 0:
        raise UsageError(f"CC profile: the time stretch is {link.time_stretch}, expected more than 0")
    settled = _Settings(given, link.mtu_bytes)
    base_rtt_ns = settled.integer("base_rtt", link.base_rtt_ns)
    stretch = link.time_stretch or Fraction(base_rtt_ns, REFERENCE_RTT_NS)
    target_ns = settled.integer("target_delay", base_rtt_ns * (Fraction(3, 4) if link.is_trimming else 1))
    bdp_bytes = Fraction(link.rate_bps * base_rtt_ns, _BITS_PER_BYTE * _NS_PER_S)
    scaling_a = bdp_bytes / REFERENCE_BDP_BYTES
    scaling_b = target_ns / (REFERENCE_RTT_NS * stretch)
    return CcProfile(
        mtu_bytes=link.mtu_bytes,
        base_rtt_ns=base_rtt_ns,
        target_delay_ns=target_ns,
        max_cwnd_bytes=settled.integer("max_cwnd", max(bdp_bytes * 3 / 2, Fraction(link.mtu_bytes))),
        gamma=settled.ratio("gamma", Fraction(4, 5)),
        max_md_jump=settled.ratio("max_md_jump", Fraction(1, 2)),
        fi_bytes=settled.integer("fi", max(5 * link.mtu_bytes * scaling_a, Fraction(1))),
        fi_scale=settled.ratio("fi_scale", scaling_a / 4),
        eta_bytes=settled.integer("eta", Fraction(15, 100) * link.mtu_bytes * scaling_a),
        alpha_bytes_per_ns=4 * scaling_a * scaling_b * link.mtu_bytes / target_ns,
        disable_qa=settled.flag("disable_qa"),
        qa_gate=settled.integer("qa_gate", 3),
        qa_threshold_ns=settled.optional_integer("qa_threshold", None if link.is_trimming else 4 * target_ns),
        adjust_bytes_threshold=settled.integer("adjust_bytes_threshold", 8 * link.mtu_bytes),
        adjust_period_threshold_ns=settled.integer("adjust_period_threshold", base_rtt_ns),
        no_delay_ns=settled.integer("no_delay", 1_000 * stretch),
        delay_gain=settled.ratio("delay_gain", Fraction(1, 80)),
        sack_threshold_bytes=settled.integer("sack_threshold", 0),
        is_fixed=settled.flag("is_fixed"),
    )
