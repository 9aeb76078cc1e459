"""docs/reference/protocol.md on congestion control: its tables are what the code has and computes."""

import re
from pathlib import Path

from reference.congestion import CcReason

from mrc_agents.protocol.cc_profile import ATTRIBUTES, CcLink, CcParameters, derive_profile

TEXT = (Path(__file__).parents[3] / "docs/reference/protocol.md").read_text()
CONTROL = TEXT.split("\n## Congestion control\n")[1].split("\n## ")[0]
PARAMETERS = TEXT.split("\n## Congestion control parameters\n")[1].split("\n## ")[0]


def test_parameters_are_listed_with_their_ranges() -> None:
    table = PARAMETERS.split("\nThe last four")[0]
    rows = re.findall(r"^\| ([a-z_]+) \| .* \| ([^|]+) \| [^|]+ \|$", table, re.MULTILINE)
    listed = {name: unit_range for name, unit_range in rows if name not in {"name", "alpha"}}
    assert list(listed) == list(ATTRIBUTES)
    for name, attribute in ATTRIBUTES.items():
        unit = {"bool": "flag", "ratio": ""}.get(attribute.unit, attribute.unit)
        least = "MTU" if attribute.minimum is None else str(attribute.minimum)
        greatest = {10**9: "10^9", 1 << 30: "2^30"}.get(attribute.maximum, str(attribute.maximum))
        words = f"{unit}, {least} to {greatest}".removeprefix(", ") + ", or none" * attribute.is_optional
        assert listed[name] == ("flag" if unit == "flag" else words)


def test_worked_values_are_what_the_defaults_come_to() -> None:
    heads = re.findall(
        r"(\d+) ([GM])bit/s, (\d+) us", PARAMETERS.split("\n| MTU, bytes")[0].split("\n| | ")[-1]
    )
    rows = {
        cells[0]: cells[1:]
        for line in PARAMETERS.splitlines()
        if len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 5
    }
    assert len(heads) == 4
    for column, (rate, unit, rtt_us) in enumerate(heads):
        link = CcLink(
            rate_bps=int(rate) * {"G": 10**9, "M": 10**6}[unit],
            base_rtt_ns=int(rtt_us) * 1_000,
            mtu_bytes=int(rows["MTU, bytes"][column]),
        )
        profile = derive_profile(link)
        fixed = CcParameters.from_profile(profile)
        expected = {
            "BDP, bytes": link.rate_bps * link.base_rtt_ns // (8 * 10**9),
            "target_delay, ns": fixed.target_delay_ns,
            "max_cwnd, bytes": fixed.max_cwnd_bytes,
            "fi, bytes": fixed.fi_bytes,
            "fi_scale, 1/2^16": fixed.fi_scale_q16,
            "eta, bytes": fixed.eta_bytes,
            "pi, bytes": fixed.pi_bytes,
            "alpha, bytes per us": round(float(profile.alpha_bytes_per_ns) * 1_000, 1),
            "no_delay, ns": fixed.no_delay_ns,
            "stretch": link.base_rtt_ns / 12_000,
        }
        for name, value in expected.items():
            assert float(rows[name][column]) == value, name


def test_reasons_are_listed_in_their_order() -> None:
    listed = CONTROL.split("the one further right counts:")[1]
    names = [name for name in re.findall(r"[A-Z_]{4,}", listed) if name in CcReason.__members__]
    assert names == [reason.name for reason in CcReason if reason]
