"""The usual way of emulating: one scapy call per packet, in Python, with as many bytes on the same links.

The in-kernel NIC is measured in the same run, for the ratio; its packets are verified, scapy's only sent.
"""

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.figure import Figure
from benchmarks.transfer import Transfer, live_lab, pause
from benchmarks.unshaped import SECONDS, WARM_UP_S
from mrc_testbed.fabric.live import Lab
from mrc_testbed.topology.spec import TopologySpec

REPETITIONS = 3
PACKETS = 3000
_SENDER = """
import json, sys, time
from scapy.all import Ether, IPv6, UDP, Raw, conf, get_if_list
from random import Random
conf.verb = 0
planes = int(sys.argv[1]); count = int(sys.argv[2]); random = Random(1)
payload = bytes(2048 + 44)
sockets = [conf.L2socket(iface=f"plane{plane}") for plane in range(planes)]
start = time.monotonic()
for number in range(count):
    plane = number % planes
    packet = (Ether() / IPv6(dst="fcbb:0:4000:8000:4001:c001::", nh=41)
              / IPv6(dst="fd6d:7263::6", nh=17)
              / UDP(sport=random.randrange(65536), dport=4791) / Raw(payload))
    sockets[plane].send(packet)
print(json.dumps(count / (time.monotonic() - start)))
"""


def run() -> Iterator[Figure]:
    scapy_rates, kernel_rates = [], []
    with live_lab(TopologySpec()) as lab:
        for _ in range(REPETITIONS):
            with Transfer(lab, 0, 5) as transfer:
                transfer.start()
                pause(WARM_UP_S)
                kernel_rates.append(transfer.acked_rate(SECONDS)[0])
                transfer.finish()
            scapy_rates.append(_scapy_rate(lab))
    yield Figure("scapy_sender", "scapy, one call per packet", "packet/s", tuple(scapy_rates))
    yield Figure("scapy_sender", "in-kernel NIC, same lab, verified", "packet/s", tuple(kernel_rates))
    ratios = tuple(kernel / scapy for kernel, scapy in zip(kernel_rates, scapy_rates, strict=True))
    yield Figure("scapy_sender", "in-kernel NIC / scapy", "times", ratios)


def _scapy_rate(lab: Lab) -> float:
    """Packets per second that scapy put on the NIC ports of h1."""
    command = ["nsenter", f"--net={lab.namespace('h1')}", sys.executable, "-c", _SENDER]
    answer = subprocess.run(
        [*command, str(lab.spec.planes), str(PACKETS)], check=True, capture_output=True, text=True
    )
    return float(answer.stdout.split()[-1])
