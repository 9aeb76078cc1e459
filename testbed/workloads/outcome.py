"""The outcome of one flow of a workload. Pure."""

from dataclasses import dataclass

from mrc_testbed.workloads.flow import Flow


@dataclass(frozen=True, slots=True)
class FlowOutcome:
    """One QP's share of a workload, from its start to its end; warm-up included.

    Attributes:
        flow: what it was to carry.
        qpn: QP number at the source.
        start_ns: CLOCK_MONOTONIC when its first message was posted.
        end_ns: CLOCK_MONOTONIC when its last message completed or it was given up.
        messages: completed, with success.
        payload_bytes: of those messages.
        compared_bytes: received memory that was compared with what was sent.
        wrong_bytes: of those, how many differ.
        error: why the QP or its peer failed; None when it did not.
    """

    flow: Flow
    qpn: int
    start_ns: int
    end_ns: int
    messages: int
    payload_bytes: int
    compared_bytes: int
    wrong_bytes: int
    error: str | None
