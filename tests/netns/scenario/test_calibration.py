"""Calibration on a live lab: what it finds is plausible, and nothing of its lab remains."""

import os

import pytest

from mrc_testbed.fabric.known_labs import names
from mrc_testbed.metrics.fidelity import FidelityLimits
from mrc_testbed.scenario.run import calibration


@pytest.mark.slow("measures what this machine can carry")
def test_capacity_is_measured_and_the_lab_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    # How late is too late depends on what else this machine does; what is measured does not.
    lenient = FidelityLimits(lateness_ns=10**9)
    monkeypatch.setattr(calibration, "limits_for", lambda _: lenient)
    monkeypatch.setattr(calibration, "_LAST_RATE_BPS", 50_000_000)
    steps: list[str] = []
    capacity = calibration.calibrate(steps.append)
    assert f"calibration-{os.getpid()}" not in names()
    assert [step for step in steps if step.startswith("measuring")] == [
        "measuring ports of 25 Mbit/s",
        "measuring ports of 50 Mbit/s",
        "measuring with ports that are too fast",
        "measuring without queues",
    ]
    # 2 T0s x 2 uplinks x 4 planes full of frames of 2190 bytes, 4 hops out and 4 back
    full = 2 * 2 * 4 * 50e6 / (8 * 2190) * 8
    assert 0 < capacity.frame_hops_per_s <= capacity.most_frame_hops_per_s <= 1.1 * full
    assert capacity.unshaped_packets_per_s > 0
