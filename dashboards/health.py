"""Testbed health: may one believe what the other dashboards show."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import queries
from dashboards.board import FRAMES, LAB, PACKETS, WINDOW, Section, board
from dashboards.panel import COUNT, GREEN, ORANGE, RED, YELLOW, AnyPanel, listing, number, time_series


def health() -> Dashboard:
    """The machine, the exporter, and what the NICs refused."""
    return board(
        "health",
        "MRC / Testbed health",
        "The lab runs on the CPUs of one machine. When they are exhausted, a shaped lab shows the machine "
        "and not the fabric: runs are then marked UNTRUSTED.",
        [
            Section("May one believe the figures?", _trust()),
            Section("Do NICs refuse or fail?", _nics()),
            Section("What does observing cost?", _exporter()),
        ],
    )


def _trust() -> list[AnyPanel]:
    return [
        number(
            "Frames late, p99",
            "How much later than they should frames leave their queues now. From half a millisecond on, at "
            "least, a run is UNTRUSTED. Shaped labs only.",
            "s",
            [(queries.quantile(0.99, queries.LATE, LAB), "p99")],
            steps=((queries.LATE_S, RED),),
            none="not shaped",
            width=6,
        ),
        number(
            "Time saturated",
            "Share of the shown time in which a CPU had next to no idle time; an alert fires after 5 s of "
            "it.",
            "percentunit",
            [("avg_over_time(mrc_testbed_host_saturated[$__range])", "saturated")],
            steps=((0.01, YELLOW), (0.1, RED)),
            decimals=0,
            width=6,
        ),
        number(
            "Busiest CPU",
            "A flow stays on the core that began it, so one busy CPU is enough to distort a lab.",
            "percentunit",
            [("max(mrc_testbed_cpu_busy_ratio)", "busy")],
            steps=((0.8, YELLOW), (0.98, RED)),
            decimals=0,
            width=6,
        ),
        number(
            "Lab readable",
            "yes while the lab is up and the exporter can read its maps.",
            COUNT,
            [(f"mrc_testbed_lab_up{{{LAB}}}", "lab")],
            texts={1: ("yes", GREEN), 0: ("no", RED)},
            width=6,
        ),
        time_series(
            "CPUs",
            "Share of time that each CPU was not idle, and of it in softirqs, where XDP programs run: the "
            "data plane itself.",
            "percentunit",
            [
                ("mrc_testbed_cpu_busy_ratio", "CPU {{cpu}}"),
                ("mrc_testbed_cpu_softirq_ratio", "CPU {{cpu}}, softirqs"),
            ],
            maximum=1,
        ),
        time_series(
            "Lateness of frames",
            "How much later than they should frames left their queues, shaped labs only. Beyond half a "
            "millisecond at p99, or a third of a longer idle RTT, a run is UNTRUSTED: a queue that is "
            "served late is not that of a port with its rate.",
            "s",
            queries.percentiles(queries.LATE, LAB),
            steps=((queries.LATE_S, RED),),
            logarithmic=True,
        ),
    ]


def _nics() -> list[AnyPanel]:
    return [
        number(
            "QPs that failed",
            "QPs that went into the ERROR state since the lab was made: retries exhausted, or refused.",
            COUNT,
            [(f"sum(mrc_qp_errors_total{{{LAB}}})", "QPs")],
            steps=((1, RED),),
            width=6,
        ),
        number(
            "Events lost",
            "Events that found a NIC's event ring full, since the lab was made. Times of recovery may be "
            "incomplete then.",
            COUNT,
            [(f"sum(mrc_events_lost_total{{{LAB}}})", "events")],
            steps=((1, ORANGE),),
            width=6,
        ),
        number(
            "Window drifts",
            "Times that congestion control counted bytes as under way when nothing was, since the lab was "
            "made. A fault of the testbed.",
            COUNT,
            [(f"sum(mrc_congestion_drifts_total{{{LAB}}})", "times")],
            steps=((1, RED),),
            width=6,
        ),
        number(
            "Frames that are not MRC",
            "Such as neighbour discovery; the nodes' own network stack gets them. Much of it means that "
            "something else talks on the fabric.",
            FRAMES,
            [(f"sum(rate(mrc_passed_to_stack_packets_total{{{LAB}}}[{WINDOW}]))", "frames")],
            width=6,
        ),
        time_series(
            "Packets that NICs refused",
            "By reason. Stale acknowledgements are normal after a fault; icrc was corrupted on a link; "
            "malformed ones never are normal.",
            PACKETS,
            [(queries.rates_of_seen("reason", f"mrc_nic_drops_total{{{LAB}}}"), "{{reason}}")],
            width=24,
            none=queries.NONE,
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
            "As Prometheus sees it; it grows with the size and the number of labs.",
            "s",
            [('scrape_duration_seconds{job="mrc-testbed"}', "scrape")],
        ),
        listing(
            "Versions",
            "What produced these numbers, for a bug report.",
            "mrc_testbed_build_info",
            {"version": "mrc-testbed", "python": "Python", "kernel": "Kernel"},
            value=("Exporters", COUNT),
            width=24,
            height=4,
        ),
    ]
