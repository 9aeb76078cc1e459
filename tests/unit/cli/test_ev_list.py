"""The line about a QP above the EVs that `ev list` shows."""

from typing import Any

import pytest

from mrc_testbed.cli.ev import _window_line

NUMBERS = ("cwnd_bytes", "max_wnd_bytes", "inflight_bytes", "avg_delay_ns", "target_delay_ns", "base_rtt_ns")
WINDOW = {"qpn": 1030, "cwnd_reason": "none", **dict.fromkeys(NUMBERS, 20_480)}


@pytest.mark.parametrize(
    ("window", "begins"),
    [
        (
            {"cc": "nscc", "ev_profile": 3, "cc_profile": 2},
            "QP 1030  profile 3, CC profile 2, window 20 KiB of",
        ),
        ({"cc": "nscc", "ev_profile": None, "cc_profile": 2}, "QP 1030  CC profile 2, window 20 KiB of"),
        ({"cc": "nscc", "ev_profile": None, "cc_profile": None}, "QP 1030  window 20 KiB of"),
        ({"cc": "fixed", "ev_profile": 3, "cc_profile": None}, "QP 1030  profile 3, fixed window of 20 KiB,"),
    ],
)
def test_profiles_of_a_qp_stand_before_its_window(window: dict[str, Any], begins: str) -> None:
    assert _window_line(WINDOW | window).plain.startswith(begins)
