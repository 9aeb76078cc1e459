"""Metrics of the testbed itself: labs, runs, the machine, the exporter. Pure."""

from typing import Final

from mrc_testbed.metrics.metric import LATENESS, Metric

LAB_UP: Final = Metric("mrc_testbed_lab_up", "", ("lab",), "1 when the lab is up and readable.")
RUN_INFO: Final = Metric(
    "mrc_testbed_run_info",
    "",
    ("lab", "scenario", "run", "seed"),
    "1 while a run uses the lab; the labels name it.",
)
BUILD_INFO: Final = Metric(
    "mrc_testbed_build_info", "", ("version", "python", "kernel"), "1; versions are labels."
)
HOST_SATURATED: Final = Metric(
    "mrc_testbed_host_saturated",
    "",
    (),
    "1 if a CPU recently had next to no idle time: do not trust the figures of a shaped lab then.",
)
QUEUE_LATENESS_SECONDS: Final = Metric(
    "mrc_testbed_queue_lateness_seconds",
    "seconds",
    ("lab",),
    "Lateness of frames that left their queues; shaped labs only.",
    LATENESS,
)
CPU_BUSY_RATIO: Final = Metric(
    "mrc_testbed_cpu_busy_ratio", "ratio", ("cpu",), "Share of recent time the CPU was not idle."
)
CPU_SOFTIRQ_RATIO: Final = Metric(
    "mrc_testbed_cpu_softirq_ratio", "ratio", ("cpu",), "Share of recent time spent in softirqs."
)
COLLECT_SECONDS: Final = Metric(
    "mrc_testbed_collect_seconds_total",
    "seconds",
    (),
    "CPU time that the exporter spent on earlier scrapes.",
)
