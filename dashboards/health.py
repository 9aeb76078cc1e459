"""Testbed health: may one believe what the other dashboards show."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import queries
from dashboards.board import LAB, WINDOW, Section, board
from dashboards.panel import ORANGE, RED, YELLOW, AnyPanel, listing, number, time_series


def health() -> Dashboard:
    """The machine, the exporter, and what the NICs refused."""
    return board(
        "health",
        "MRC / Testbed health",
        "The lab runs on the CPUs of one machine. When they are exhausted, a shaped lab shows the machine "
        "and not the fabric: runs are then marked UNTRUSTED.",
        [
            Section("Fidelity", [*_fidelity(), *_queues()]),
            Section("Exporter", _exporter()),
            Section("NICs", _nics()),
        ],
    )


def _fidelity() -> list[AnyPanel]:
    return [
        number(
            "Host saturated",
            "1 when a CPU had next to no idle time in the last second.",
            "short",
            [("mrc_testbed_host_saturated", "saturated")],
            texts=queries.YES_NO,
            width=6,
        ),
        number(
            "Busiest CPU",
            "A flow stays on the core that began it, so one busy CPU is enough to distort a lab.",
            "percentunit",
            [("max(mrc_testbed_cpu_busy_ratio)", "busy")],
            width=6,
            steps=((0.8, YELLOW), (0.98, RED)),
        ),
        number(
            "Lab readable",
            "1 while the lab is up and the exporter can read its maps.",
            "short",
            [(f"mrc_testbed_lab_up{{{LAB}}}", "lab")],
            texts={1: ("yes", "green"), 0: ("no", "red")},
            width=6,
        ),
        number(
            "Events lost",
            "Events that found a NIC's event ring full, since the lab was made. Times of recovery may be "
            "incomplete then.",
            "short",
            [(f"sum(mrc_events_lost_total{{{LAB}}})", "events")],
            width=6,
            steps=((1, ORANGE),),
        ),
        time_series(
            "CPUs",
            "Share of time that each CPU was not idle.",
            "percentunit",
            [("mrc_testbed_cpu_busy_ratio", "CPU {{cpu}}")],
            maximum=1,
            steps=((0.98, RED),),
        ),
        time_series(
            "CPUs in softirqs",
            "Share of time in softirqs, where XDP programs run: the data plane itself.",
            "percentunit",
            [("mrc_testbed_cpu_softirq_ratio", "CPU {{cpu}}")],
            maximum=1,
        ),
    ]


def _queues() -> list[AnyPanel]:
    return [
        time_series(
            "Lateness of frames",
            "How much later than they should frames left their queues, shaped labs only. Beyond half a "
            "millisecond at p99 a run is UNTRUSTED: a queue that is served late is not that of a port with "
            "its rate.",
            "s",
            queries.percentiles("mrc_testbed_queue_lateness_seconds", LAB),
            steps=((0.0005, RED),),
            logarithmic=True,
        ),
        time_series(
            "Bytes under way that are not",
            "Times that congestion control counted bytes as under way when nothing was. A fault of the "
            "testbed.",
            "short",
            [(f"sum(mrc_congestion_drifts_total{{{LAB}}})", "times")],
            steps=((1, RED),),
        ),
    ]


def _exporter() -> list[AnyPanel]:
    return [
        time_series(
            "CPU time of the exporter",
            "Share of one core that scrapes take; the limit is 1 %.",
            "percentunit",
            [(f"rate(mrc_testbed_collect_seconds_total[{WINDOW}])", "exporter")],
            steps=((0.01, ORANGE),),
        ),
        time_series(
            "Duration of scrapes",
            "As Prometheus sees it.",
            "s",
            [('scrape_duration_seconds{job="mrc-testbed"}', "scrape")],
        ),
        time_series(
            "Samples per scrape",
            "Grows with the size and the number of labs.",
            "short",
            [('scrape_samples_scraped{job="mrc-testbed"}', "samples")],
        ),
        listing(
            "Versions",
            "Of what produced these numbers.",
            "mrc_testbed_build_info",
            {"version": "mrc-testbed", "python": "Python", "kernel": "Kernel"},
            value=("", "short"),
        ),
    ]


def _nics() -> list[AnyPanel]:
    return [
        time_series(
            "Packets that NICs refused",
            "By reason. Stale acknowledgements are normal after a fault; malformed ones never are.",
            "pps",
            [(f"sum by (reason) (rate(mrc_nic_drops_total{{{LAB}}}[{WINDOW}])) > 0", "{{reason}}")],
        ),
        time_series(
            "QPs that failed",
            "QPs that went into the ERROR state since the lab was made, by host.",
            "short",
            [(f"mrc_qp_errors_total{{{LAB}}}", "{{node}}")],
            steps=((1, RED),),
        ),
        time_series(
            "Frames for the nodes' own network stack",
            "Frames that are not MRC, such as neighbour discovery. Much of it means that something else "
            "talks.",
            "pps",
            [(f"sum by (tier) (rate(mrc_passed_to_stack_packets_total{{{LAB}}}[{WINDOW}]))", "{{tier}}")],
            width=24,
        ),
    ]
