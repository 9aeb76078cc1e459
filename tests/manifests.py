"""Manifests of runs, with no more than each must have."""

from typing import Any, Final

BEGUN: Final[dict[str, Any]] = {
    "schema_version": 1,
    "run": "20261121T170000Z-3fa2b1",
    "scenario": "flap",
    "seed": 1,
    "started_utc": "2026-11-21T17:00:00Z",
    "provenance": {
        "mrc_testbed": "0.2.0",
        "python": "3.11.2",
        "kernel": "6.1.0",
        "architecture": "x86_64",
        "cpu": "unknown",
        "cpu_count": 2,
        "memory_bytes": 1 << 32,
        "lab": "default",
        "runtime": "netns",
    },
    "status": "running",
}
ENDED: Final[dict[str, Any]] = BEGUN | {
    "status": "passed",
    "reason": "all 0 expectations held",
    "exit_code": 0,
    "trusted": True,
    "untrusted_reasons": [],
    "fidelity": [],
    "ended_utc": "2026-11-21T17:00:09Z",
    "time_zero_utc": None,
    "end_ns": 9,
    "duration_ns": 9,
    "expectations": [],
    "faults": [],
    "workloads": [],
}
