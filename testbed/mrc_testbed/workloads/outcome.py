"""The outcome of one flow of a workload. Pure."""

from dataclasses import dataclass

from mrc_testbed.workloads.flow import Flow


@dataclass(frozen=True, slots=True)
class FlowOutcome:
    """One QP's share of a workload, from its start to its end; warm-up included."""

    flow: Flow  # what it was to carry
    qpn: int  # QP number at the source
    start_ns: int  # CLOCK_MONOTONIC when its first message was posted
    end_ns: int  # CLOCK_MONOTONIC when its last message completed or it was given up
    messages: int  # completed, with success
    payload_bytes: int  # of those messages
    compared_bytes: int  # received memory that was compared with what was sent
    wrong_bytes: int  # of those, how many differ
    error: str | None  # why the QP or its peer failed; None when it did not
