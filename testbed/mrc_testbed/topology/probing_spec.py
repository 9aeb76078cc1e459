"""The entries of link probes in a topology: packets that hosts send to switches and back to themselves."""

from math import ceil
from typing import Final, Self

from pydantic import Field, model_validator

from mrc_testbed.document.fields import Duration, Ratio, StrictModel
from mrc_testbed.document.problem import LimitProblems

LAG_ROUNDS_MAX: Final = 63
"""Rounds that a probe may take to return; MRC_LINK_PROBE_ROUNDS of the data plane, less one."""

INTERVAL_MIN_NS: Final = 1_000_000


class ProbingSpec(StrictModel):
    """Link probes of every host: each round has one to each of its T0s, and one to shares of T1s and T2s."""

    interval: Duration = Field(
        default=20_000_000, ge=INTERVAL_MIN_NS, description="Time between rounds, at least 1ms."
    )
    timeout: Duration = Field(
        default=60_000_000,
        gt=0,
        description="Time within which a probe must return; at most 63 intervals. If ports have a rate, it "
        "must exceed the round-trip time.",
    )
    t1_share: Ratio = Field(
        default=0.5,
        gt=0,
        le=1,
        description="Share of its T0s' uplinks that a host probes. Together, the hosts of a T0 must probe "
        "all uplinks. Of three tiers, as many hosts of a pod probe an uplink of a T1 as of a T0.",
    )

    @property
    def lag_rounds(self) -> int:
        """Rounds that a probe has to return, at least one."""
        return max(1, -(-self.timeout // self.interval))

    def uplinks_per_host(self, uplink_count: int) -> int:
        """The number of the *uplink_count* uplinks of its T0s that a host probes in every plane."""
        return min(uplink_count, ceil(self.t1_share * uplink_count))

    @model_validator(mode="after")
    def _check_lag(self) -> Self:
        problems = LimitProblems()
        if self.lag_rounds > LAG_ROUNDS_MAX:
            problems.add(
                "timeout",
                self.timeout,
                f"a time-out of {self.lag_rounds} intervals: answers are remembered for {LAG_ROUNDS_MAX}",
            )
        problems.raise_if_any("probing")
        return self
