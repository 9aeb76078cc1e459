"""Programs on a host: what stands between entering the host's network and starting the program."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final

from mrc_agents.objects import OBJECTS_DIR, how_to_build
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric.doorbell import provide_doorbell
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.management import connect, hosts_file
from mrc_testbed.transport.congestion import check_order

VERBS_LIBRARY: Final = OBJECTS_DIR / "lib_mrc.so"
TRANSPORT_VARIABLE: Final = "MRC_TESTBED_TRANSPORT"
"""Which the verbs library reads."""

_PROGRAM_VIEW: Final = Path(__file__).with_name("program_view.py")


class RdmaTransport(StrEnum):
    MRC = "mrc"
    ROCEV2 = "rocev2"


def rdma_environment(transport: RdmaTransport = RdmaTransport.MRC) -> dict[str, str]:
    """Variables that let a program find the verbs library in front of libibverbs, and libmrc_coll; and the
    library the transport.
    """
    ours = {"LD_PRELOAD": VERBS_LIBRARY, "LD_LIBRARY_PATH": OBJECTS_DIR}
    paths = {
        name: ":".join(dict.fromkeys([str(path), *filter(None, os.environ.get(name, "").split(":"))]))
        for name, path in ours.items()
    }
    return {**paths, TRANSPORT_VARIABLE: transport.value}


@contextmanager
def rdma_command(attached: Lab, host: str, transport: RdmaTransport) -> Iterator[tuple[str, ...]]:
    """Command to put in front of an RDMA program on a host; it resolves the lab's names while this lasts."""
    if attached.clos.node(host).is_switch:
        raise UsageError(f"{host} is a switch: --rdma needs a host, which has a NIC")
    if transport is RdmaTransport.ROCEV2:
        check_order(attached.clos, transport.value)
    if not VERBS_LIBRARY.exists():
        raise UsageError(f"{VERBS_LIBRARY} is not there", hint=how_to_build("setup"))
    with named_command(attached, host, (), is_rdma=True) as command:
        yield command


@contextmanager
def named_command(
    attached: Lab, host: str, others: Iterable[str], *, is_rdma: bool = False
) -> Iterator[tuple[str, ...]]:
    """Command to put in front of a program on a host; it resolves the lab's names while this lasts.

    Args:
        others: hosts to connect to the management network with it.
        is_rdma: the program gets the NIC's doorbell, and a view of the host as program_view.py describes it.
    """
    for each in (host, *others):
        connect(attached.name, attached.clos, each)
    if is_rdma:
        provide_doorbell(attached.paths, host)
    with hosts_file(attached.clos, host) as file:
        script = (sys.executable, "-I", "-S", str(_PROGRAM_VIEW))
        yield "unshare", "--mount", "--uts", *script, str(file), host if is_rdma else ""
