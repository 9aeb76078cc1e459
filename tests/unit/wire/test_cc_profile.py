"""Defaults derived from a link, settings by standard name, and what is refused."""

from dataclasses import asdict
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_agents.protocol.cc_profile import (
    ATTRIBUTES,
    NO_QA_THRESHOLD_NS,
    CcLink,
    CcParameters,
    Setting,
    derive_profile,
)
from mrc_testbed.errors import UsageError

DATA_CENTRE = CcLink(rate_bps=10**11, base_rtt_ns=12_000, mtu_bytes=4096)


def refusal(settings: dict[str, Setting], link: CcLink = DATA_CENTRE) -> UsageError:
    with pytest.raises(UsageError) as caught:
        derive_profile(link, settings)
    return caught.value


def test_defaults_at_the_reference_are_those_of_the_text() -> None:
    profile = derive_profile(DATA_CENTRE)
    assert (profile.target_delay_ns, profile.max_cwnd_bytes) == (9_000, 225_000)
    assert (profile.fi_bytes, profile.fi_scale, profile.eta_bytes) == (20_480, Fraction(1, 4), 614)
    assert round(profile.alpha_bytes_per_ns * 1_000) == 1_365
    assert (profile.qa_gate, profile.qa_threshold_ns, profile.disable_qa) == (3, None, False)
    assert (profile.adjust_bytes_threshold, profile.adjust_period_threshold_ns) == (32_768, 12_000)


def test_without_trimming_the_target_is_the_base_rtt_and_delay_triggers_quick_adapt() -> None:
    profile = derive_profile(CcLink(10**11, 12_000, 4096, is_trimming=False))
    assert (profile.target_delay_ns, profile.qa_threshold_ns) == (12_000, 48_000)


@given(stretch=st.integers(2, 5_000))
def test_stretched_link_has_the_same_bytes_and_longer_times(stretch: int) -> None:
    rate_bps = 10**11 // stretch * stretch
    original = asdict(derive_profile(CcLink(rate_bps, 12_000, 2048)))
    stretched = asdict(derive_profile(CcLink(rate_bps // stretch, 12_000 * stretch, 2048)))
    alpha = original.pop("alpha_bytes_per_ns")
    assert stretched.pop("alpha_bytes_per_ns") * stretch == alpha
    for name, value in original.items():
        is_time = name.endswith("_ns") and value is not None
        assert stretched[name] == (value * stretch if is_time else value), name


def test_without_stretch_times_are_compared_with_the_reference_itself() -> None:
    link = CcLink(10**11, 24_000, 4096, time_stretch=Fraction(1))
    profile = derive_profile(link)
    assert profile.no_delay_ns == 1_000
    assert profile.alpha_bytes_per_ns * profile.target_delay_ns == Fraction(4 * 2 * 3, 2) * 4096


def test_settings_replace_defaults_and_move_what_follows_from_them() -> None:
    profile = derive_profile(DATA_CENTRE, {"base_rtt": 24_000, "target_delay": 6_000, "gamma": 0.5})
    assert (profile.base_rtt_ns, profile.target_delay_ns, profile.gamma) == (24_000, 6_000, 0.5)
    assert (profile.max_cwnd_bytes, profile.adjust_period_threshold_ns) == (450_000, 24_000)
    assert profile.alpha_bytes_per_ns * profile.target_delay_ns == 4 * 2 * Fraction(1, 4) * 4096


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gamma": 1.5}, "CC profile: gamma is 1.5, expected 0 to 1"),
        ({"gamma": float("nan")}, "CC profile: gamma is nan, expected 0 to 1"),
        ({"max_cwnd": 4095}, "CC profile: max_cwnd is 4095, expected 4096 to 1073741824 bytes"),
        ({"base_rtt": 0}, "CC profile: base_rtt is 0, expected 1000 to 1000000000 ns"),
        ({"fi": 2.5}, "CC profile: fi is 2.5, expected 1 to 1073741824 bytes"),
        ({"fi": True}, "CC profile: fi is True, expected 1 to 1073741824 bytes"),
        ({"fi": None}, "CC profile: fi is None, expected 1 to 1073741824 bytes"),
        ({"qa_gate": 32}, "CC profile: qa_gate is 32, expected 0 to 31"),
        ({"disable_qa": 1}, "CC profile: disable_qa is 1, expected true or false"),
        ({"qa_threshold": -1}, "CC profile: qa_threshold is -1, expected 0 to 1000000000 ns, or none"),
    ],
)
def test_value_out_of_range_is_refused_by_name_and_range(settings: dict[str, Setting], message: str) -> None:
    assert refusal(settings).message == message


def test_unknown_name_is_refused_with_the_nearest_one() -> None:
    error = refusal({"gama": 0.8})
    assert error.message.startswith("CC profile: there is no gama; there are base_rtt, target_delay,")
    assert error.hint == "did you mean gamma?"


@pytest.mark.parametrize(
    "link",
    [
        CcLink(0, 12_000, 4096),
        CcLink(10**11, 12_000, 128),
        CcLink(10**11, 12_000, 4096, time_stretch=Fraction(0)),
        CcLink(10**13, 10**9, 4096),
    ],
)
def test_link_that_no_profile_fits_is_refused(link: CcLink) -> None:
    refusal({}, link)


def test_alpha_too_large_for_its_field_is_refused() -> None:
    link = CcLink(10**12, 10**6, 16_384, time_stretch=Fraction(1, 100))
    profile = derive_profile(link, {"max_cwnd": 10**6, "fi": 1, "fi_scale": 1, "eta": 1})
    with pytest.raises(UsageError, match="alpha x target_delay is"):
        CcParameters.from_profile(profile)


@given(
    rate_bps=st.integers(10**6, 10**12), base_rtt_ns=st.integers(2_000, 2_000_000), is_trimming=st.booleans()
)
def test_every_derived_profile_fits_the_fields_of_the_data_plane(
    rate_bps: int, base_rtt_ns: int, is_trimming: bool
) -> None:
    profile = derive_profile(CcLink(rate_bps, base_rtt_ns, 2048, is_trimming))
    parameters = asdict(CcParameters.from_profile(profile))
    assert all(0 <= value <= NO_QA_THRESHOLD_NS for value in parameters.values())
    assert parameters["max_cwnd_bytes"] >= parameters["mtu_bytes"]
    assert parameters["gamma_q16"] == 52_429


def test_every_attribute_can_be_set_to_both_ends_of_its_range() -> None:
    for attribute in ATTRIBUTES.values():
        ends: tuple[Setting, ...] = (attribute.minimum or 0, attribute.maximum)
        if attribute.minimum is None:
            ends = (DATA_CENTRE.mtu_bytes, attribute.maximum)
        if attribute.unit == "bool":
            ends = (False, True)
        for end in ends:
            given_settings: dict[str, Setting] = {"max_cwnd": 10**6, "fi": 1, "fi_scale": 1, "eta": 1}
            derive_profile(DATA_CENTRE, given_settings | {attribute.name: end})
