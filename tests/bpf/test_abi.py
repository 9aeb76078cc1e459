"""The layouts in Python are those of the compiled programs: mrc_agents/abi.py is not stale."""

import ctypes
from pathlib import Path

import pytest
from compiling import btf_of, compile_program

from mrc_agents import abi
from mrc_agents.abi_generate import class_name, generate
from mrc_agents.bpf.libbpf import BpfObject
from mrc_agents.bpf.maps import map_info

ROOT = Path(__file__).parents[2]
OBJECTS = ROOT / "agents/mrc_agents" / "_objects"
OBJECT_NAMES = ["forward.bpf.o", "emit.bpf.o", "nic.bpf.o", "rc.bpf.o"]

MAP_VALUES: dict[str, type[ctypes.Structure]] = {
    "port_table": abi.PortEntry,
    "port_fault": abi.PortFault,
    "fault_accounts": abi.FaultAccounts,
    "port_counters": abi.PortCounters,
    "nic_config": abi.NicConfig,
    "nic_control": abi.NicControl,
    "nic_paths": abi.NicPaths,
    "regions": abi.Region,
    "kick": abi.Kick,
    "work_ring": abi.WorkRing,
    "qps": abi.Qp,
    "probes": abi.Probe,
    "link_probe_paths": abi.LinkProbePath,
    "link_probing": abi.LinkProbing,
    "rc_qps": abi.RcQp,
    "nic_counters": abi.NicCounters,
    "ev_transitions": abi.EvTransitions,
    "rtt_histogram": abi.MapHistogram,
    "message_histogram": abi.MapHistogram,
    "queue_ports": abi.QueuePort,
    "queue_state": abi.QueueState,
    "queue_settings": abi.QueueSettings,
    "queue_delays": abi.QueueDelays,
    "queue_descriptors": abi.QueueDescriptors,
    "queue_pool": abi.QueuePool,
    "queue_drainer": abi.QueueDrainer,
    "queue_lateness": abi.MapHistogram,
    "lossless_settings": abi.LosslessSettings,
    "lossless_links": abi.LosslessLink,
    "capture_state": abi.CaptureState,
    "capture_scratch": abi.CaptureRecord,
}
OTHER_VALUES = {
    "port_devmap": 4,
    "fabric_programs": 4,
    "nic_transports": 4,
    "capture_rings": 4,
    "fib": 4,
    "channels": 4,
    "memory": 4,
    "queue_frames": abi.QueueLimit.FRAME_BYTES.value,
    "nic_events": 0,
    "queue_wakes": 4,
    "queue_cpus": 4,
}
PRIVATE_MAPS = {
    "emit_requests",
    "event_losses",
    "fault_verdicts",
    "fault_lines",
    "fault_locks",
    "lossless_scratch",
    "rc_responses",
    "rx_responses",
    "sack_ctxs",
    "tx_descs",
}
"""Never read from outside the kernel."""


def test_committed_module_is_generated_from_the_header(tmp_path: Path) -> None:
    compiled = compile_program(ROOT / "agents/mrc_agents" / "abi.bpf.c", tmp_path)
    committed = (ROOT / "agents/mrc_agents" / "abi.py").read_text()
    assert committed == generate(btf_of(compiled)), "run `make abi`"


@pytest.mark.parametrize("object_name", OBJECT_NAMES)
def test_structures_of_the_objects_have_the_layout_of_the_module(object_name: str) -> None:
    compared = 0
    for entry in btf_of(OBJECTS / object_name)["types"]:
        if entry["kind"] != "STRUCT" or not entry["name"].startswith("mrc_"):
            continue
        structure = getattr(abi, class_name(entry["name"]), None)
        if structure is None:
            continue
        compared += 1
        assert ctypes.sizeof(structure) == entry["size"], entry["name"]
        layout = {member["name"]: member["bits_offset"] for member in entry["members"]}
        assert {name: getattr(structure, name).offset * 8 for name, *_ in structure._fields_} == layout
    assert compared > 5


@pytest.mark.root
@pytest.mark.parametrize("object_name", OBJECT_NAMES)
def test_maps_hold_what_the_module_says(object_name: str) -> None:
    with BpfObject(OBJECTS / object_name) as loaded:
        sizes = {name: int(map_info(loaded.map_fd(name)).value_size) for name in loaded.map_names()}
    expected = {name: ctypes.sizeof(value) for name, value in MAP_VALUES.items()} | OTHER_VALUES
    assert {name: size for name, size in sizes.items() if name not in PRIVATE_MAPS} == {
        name: expected.get(name) for name in sizes if name not in PRIVATE_MAPS
    }
