"""Variables of programs with RDMA."""

import sys

import pytest

from mrc_testbed.fabric.mpi import program_environment
from mrc_testbed.fabric.rdma import VERBS_LIBRARY, RdmaTransport

AGENT = "OMPI_MCA_plm_rsh_agent"


def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UCX_TLS", "tcp,self")
    monkeypatch.delenv("OMPI_MCA_pml", raising=False)
    environment = program_environment("box", RdmaTransport.MRC)
    assert (environment["UCX_TLS"], environment["OMPI_MCA_pml"]) == ("tcp,self", "ucx")


def test_preloads_stay_and_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", f"{VERBS_LIBRARY}:/lib/own.so")
    environment = program_environment("box", RdmaTransport.MRC)
    assert environment["LD_PRELOAD"] == f"{VERBS_LIBRARY}:/lib/own.so"


def test_agent_whose_path_open_mpi_would_take_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(AGENT, raising=False)
    monkeypatch.setattr(sys, "executable", "/my folder/python")
    assert AGENT not in program_environment("box", RdmaTransport.MRC)
