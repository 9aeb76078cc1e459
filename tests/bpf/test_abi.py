"""What Python believes of the maps is what the compiled programs have: agents/wire_abi.py is not stale."""

import ctypes
import json
import subprocess
from pathlib import Path
from platform import machine
from typing import Any

import pytest

from agents import wire_abi
from agents.abi_generate import class_name, generate
from agents.bpf.libbpf import BpfObject
from agents.bpf.maps import map_info

ROOT = Path(__file__).parents[2]
OBJECTS = ROOT / "agents" / "_objects"
OBJECT_NAMES = ["forward.bpf.o", "emit.bpf.o", "nic.bpf.o", "rc.bpf.o"]

MAP_VALUES: dict[str, type[ctypes.Structure]] = {
    "port_table": wire_abi.Port,
    "port_fault": wire_abi.PortFault,
    "fault_accounts": wire_abi.FaultAccounts,
    "port_counters": wire_abi.PortCounters,
    "nic_config": wire_abi.NicConfig,
    "regions": wire_abi.Region,
    "kick": wire_abi.Kick,
    "work_ring": wire_abi.WorkRing,
    "qps": wire_abi.Qp,
    "probes": wire_abi.Probe,
    "link_probe_paths": wire_abi.LinkProbePath,
    "link_probing": wire_abi.LinkProbing,
    "rc_qps": wire_abi.RcQp,
    "streams": wire_abi.Stream,
    "stream_account": wire_abi.StreamAccount,
    "nic_counters": wire_abi.NicCounters,
    "ev_transitions": wire_abi.EvTransitions,
    "rtt_histogram": wire_abi.Histogram,
    "message_histogram": wire_abi.Histogram,
    "queue_ports": wire_abi.QueuePort,
    "queue_state": wire_abi.QueueState,
    "queue_settings": wire_abi.QueueSettings,
    "queue_delays": wire_abi.QueueDelays,
    "queue_descriptors": wire_abi.QueueDescriptors,
    "queue_pool": wire_abi.QueuePool,
    "queue_drainer": wire_abi.QueueDrainer,
    "queue_lateness": wire_abi.Histogram,
    "lossless_settings": wire_abi.LosslessSettings,
    "lossless_links": wire_abi.LosslessLink,
    "capture_state": wire_abi.CaptureState,
    "capture_scratch": wire_abi.CaptureRecord,
}
OTHER_VALUES = {
    "port_devmap": 4,
    "fabric_programs": 4,
    "nic_transports": 4,
    "capture_rings": 4,
    "fib": 4,
    "memory": wire_abi.Limit.MEMORY_SEGMENT.value,
    "queue_frames": wire_abi.QueueLimit.FRAME_BYTES.value,
    "nic_events": 0,
    "queue_wakes": 4,
    "queue_cpus": 4,
}
PRIVATE_MAPS = {
    "emit_requests",
    "event_losses",
    "fault_fates",
    "fault_lines",
    "fault_locks",
    "lossless_scratch",
    "rc_answers",
    "rc_plans",
    "rx_answers",
    "heard_sacks",
    "tx_plans",
}
"""Never read from outside the kernel."""


def btf_of(path: Path) -> dict[str, Any]:
    """The types in an object file, as bpftool prints them."""
    command = ["bpftool", "-j", "btf", "dump", "file", str(path)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    types: dict[str, Any] = json.loads(answer.stdout)
    return types


def test_committed_module_is_generated_from_the_header(tmp_path: Path) -> None:
    compiled = tmp_path / "abi.bpf.o"
    options = ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"]
    headers = [f"-I{ROOT / 'agents' / 'include'}", "-idirafter", f"/usr/include/{machine()}-linux-gnu"]
    source = ROOT / "agents" / "abi.bpf.c"
    subprocess.run(["clang", *options, *headers, "-c", str(source), "-o", str(compiled)], check=True)
    committed = (ROOT / "agents" / "wire_abi.py").read_text()
    assert committed == generate(btf_of(compiled)), "run `make abi`"


@pytest.mark.parametrize("object_name", OBJECT_NAMES)
def test_structures_of_the_objects_have_the_layout_of_the_module(object_name: str) -> None:
    compared = 0
    for entry in btf_of(OBJECTS / object_name)["types"]:
        if entry["kind"] != "STRUCT" or not entry["name"].startswith("mrc_"):
            continue
        structure = getattr(wire_abi, class_name(entry["name"]), None)
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
