"""MPI on hosts of a lab: what UCX and Open MPI have to know, and how mpirun gets to other hosts.

As a script it is the agent that mpirun starts in the place of ssh: AGENT HOST WORD... Lab and transport are
those of mpirun's environment.
"""

import os
import subprocess
import sys
from contextlib import ExitStack
from typing import Final

from mrc_testbed.errors import TestbedError, UsageError
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.management import INTERFACE
from mrc_testbed.fabric.process import marked_environment, own_lab
from mrc_testbed.fabric.rdma import TRANSPORT_VARIABLE, RdmaTransport, rdma_command, rdma_environment
from mrc_testbed.fabric.runtime import enter_command

_SETTINGS: Final = {
    "UCX_TLS": "tcp,self,rc_verbs",  # `rc` would want UD too, which the NIC has not; tcp makes up for that
    "UCX_NET_DEVICES": f"mrc0:1,{INTERFACE}",  # planes have no addresses of TCP
    "UCX_RNDV_SCHEME": "put_zcopy",  # the others READ
    "UCX_ALLOC_PRIO": "thp,mmap,heap",  # it would take shared memory, and tell others of it
    "UCX_RC_VERBS_RX_QUEUE_LEN": "512",  # 39 MB of the NIC's memory otherwise, for each program
    "UCX_RC_VERBS_TX_BUFS_GROW": "128",  # and 10 MB
    "UCX_WARN_UNUSED_ENV_VARS": "n",  # where UCX_TLS is another
    "OMPI_MCA_pml": "ucx",
    "OMPI_MCA_pml_ucx_tls": "any",  # else it leaves the field unless it sees a transport that it knows
    "OMPI_MCA_pml_ucx_devices": "any",  # of Mellanox by default
    "OMPI_MCA_btl": "self",  # openib would take the device as well
    "OMPI_MCA_osc": "^ucx,rdma",  # atomics; and it finds no BTL, says that it will abort, and goes on
    "OMPI_MCA_coll": "^hcoll",
    "OMPI_MCA_btl_tcp_if_include": INTERFACE,
    "OMPI_MCA_oob_tcp_if_include": INTERFACE,
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
_MODULE: Final = "mrc_testbed.fabric.mpi"
_AGENT: Final = "OMPI_MCA_plm_rsh_agent"


def program_environment(lab_name: str, transport: RdmaTransport) -> dict[str, str]:
    """The user's variables, and those that a program with RDMA needs on a host. UCX's and MPI's stay."""
    wanted = dict(_SETTINGS)
    if not any(mark in sys.executable for mark in " :"):  # Open MPI could not tell where the path ends
        wanted[_AGENT] = f"{sys.executable} -I -m {_MODULE}"
    return wanted | marked_environment(lab_name) | rdma_environment(transport)


def main() -> int:
    """Run a command of sh(1) on a host, as ssh does, in the environment of `exec --rdma`."""
    host, *command = sys.argv[1:]
    with ExitStack() as stack:
        try:
            if os.geteuid():
                raise UsageError("only root's mpirun can start daemons on other hosts")
            chosen = RdmaTransport(os.environ.get(TRANSPORT_VARIABLE, RdmaTransport.MRC))
            with lab.attach(own_lab()) as attached:
                name = attached.clos.node(host).name
                inside = stack.enter_context(rdma_command(attached, name, chosen))
        except (TestbedError, ValueError) as error:
            sys.exit(f"error: {host}: {error}")
        # mpirun has quoted the words for a shell.
        enter = (*enter_command(attached.name, name, None), *inside, "sh", "-c", " ".join(command))
        return subprocess.run(enter, env=program_environment(attached.name, chosen), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
