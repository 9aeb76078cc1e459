import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_testbed.document.envelope import validate_values
from mrc_testbed.document.problem import Tree
from mrc_testbed.errors import UsageError
from mrc_testbed.topology.spec import NicSpec, TopologySpec

LIMITS: list[tuple[dict[str, Tree], list[str]]] = [
    ({"planes": 17}, ["planes: must be at most 16, found 17"]),
    ({"planes": 0}, ["planes: must be at least 1, found 0"]),
    ({"t0": 1025}, ["t0: t0 x uplinks_per_pair is 1025, but a uSID has room for 1024 of them per plane"]),
    (
        {"t1": 400, "uplinks_per_pair": 3},
        ["t1: t1 x uplinks_per_pair is 1200, but a uSID has room for 1024 of them per plane"],
    ),
    (
        {"hosts_per_t0": 1025},
        ["hosts_per_t0: hosts_per_t0 is 1025, but a uSID has room for 1024 of them per plane"],
    ),
    (
        {"planes": 16, "t0": 1024, "t1": 1, "hosts_per_t0": 1024},
        ["planes: the fabric has 33587200 ports; MAC addresses number 16777216"],
    ),
    (
        {"t0": 1, "hosts_per_t0": 1},
        ["hosts_per_t0: a fabric with a single host carries nothing; give it at least two"],
    ),
    (
        {"planes": 3, "nic": {"evs": 128}},
        ["nic.evs: 128 EVs cannot be shared equally by 3 planes; use a multiple of 3, such as 126"],
    ),
    (
        {"planes": 8, "nic": {"evs": 4}},
        ["nic.evs: 4 EVs cannot be shared equally by 8 planes; use a multiple of 8, such as 8"],
    ),
    ({"nic": {"evs": 260}}, ["nic.evs: must be at most 256, found 260"]),
    (
        {"link_delay": "5us"},
        ["link_delay: link_delay has no effect in an unshaped fabric; give port_rate too"],
    ),
    (
        {"queue": {"data_buffer": "64KiB"}},
        ["queue.data_buffer: queue.data_buffer has no effect in an unshaped fabric; give port_rate too"],
    ),
    (
        {"nic": {"path_mtu": "8KiB"}},
        ["nic.path_mtu: a path MTU of 8192 bytes: use 256B, 512B, 1KiB, 2KiB or 4KiB"],
    ),
    (
        {"nic": {"memory": "1500KiB"}},
        ["nic.memory: 1536000 bytes of memory: use a multiple of 1MiB up to 4GiB"],
    ),
    ({"nic": {"window_packets": 1025}}, ["nic.window_packets: must be at most 1024, found 1025"]),
    ({"nic": {"backup_share": "100%"}}, ["nic.backup_share: must be less than 100%, found 100%"]),
    (
        {"t0": 2000, "nic": {"evs": 6}},
        [
            "t0: t0 x uplinks_per_pair is 2000, but a uSID has room for 1024 of them per plane",
            "nic.evs: 6 EVs cannot be shared equally by 4 planes; use a multiple of 4, such as 4",
        ],
    ),
]


@pytest.mark.parametrize(("values", "messages"), LIMITS)
def test_limits_are_refused_at_the_key_they_are_about(values: dict[str, Tree], messages: list[str]) -> None:
    with pytest.raises(UsageError) as refusal:
        validate_values(values, TopologySpec, "lab.yaml")
    for message in messages:
        assert f"lab.yaml: {message}" in refusal.value.message


@pytest.mark.parametrize(
    "values",
    [
        {"planes": 16, "t0": 1024, "t1": 1, "hosts_per_t0": 511},
        {"planes": 1, "t0": 1024, "t1": 1024, "hosts_per_t0": 1024},
        {"planes": 1, "t0": 1, "t1": 1, "hosts_per_t0": 2},
        {"t0": 512, "t1": 512, "uplinks_per_pair": 2},
        {"planes": 8, "t0": 512, "t1": 256, "hosts_per_t0": 256},
    ],
)
def test_fabrics_at_the_limits_are_accepted(values: dict[str, Tree]) -> None:
    assert validate_values(values, TopologySpec, "lab.yaml").planes == values.get("planes", 4)


def test_a_spec_survives_being_stored() -> None:
    values: dict[str, Tree] = {
        "port_rate": "100Mbit",
        "link_delay": "5us",
        "nic": {"evs": 16, "memory": "1MiB"},
    }
    spec = validate_values(values, TopologySpec, "lab.yaml")
    assert spec.port_rate == 10**8
    assert spec.link_delay == 5000
    assert TopologySpec.model_validate_json(spec.model_dump_json()) == spec


def test_default_lab_has_24_nodes_and_is_unshaped() -> None:
    spec = TopologySpec()
    assert spec.numbering.node_count == 24
    assert not spec.is_shaped


def test_default_evs_are_three_quarters_active() -> None:
    spec = TopologySpec()
    assert (spec.evs, spec.evs_per_plane, spec.active_evs_per_plane, spec.backup_evs_per_plane) == (
        128,
        32,
        24,
        8,
    )


@given(st.integers(1, 16), st.floats(0, 0.99))
def test_default_evs_fit_any_number_of_planes(planes: int, backup_share: float) -> None:
    spec = TopologySpec(planes=planes, nic=NicSpec(backup_share=backup_share))
    assert 128 - planes < spec.evs <= 128
    assert spec.evs == planes * (spec.active_evs_per_plane + spec.backup_evs_per_plane)
    assert spec.active_evs_per_plane >= 1
    assert (spec.backup_evs_per_plane >= 1) == (backup_share > 0)


@pytest.mark.parametrize(
    ("evs", "backup_share", "active", "backup"),
    [(4, 0.25, 1, 0), (8, 0.25, 1, 1), (8, 0.0, 2, 0), (12, 0.9, 1, 2), (16, 0.25, 3, 1)],
)
def test_few_evs_keep_one_active_and_one_backup(
    evs: int, backup_share: float, active: int, backup: int
) -> None:
    spec = TopologySpec(planes=4, nic=NicSpec(evs=evs, backup_share=backup_share))
    assert (spec.active_evs_per_plane, spec.backup_evs_per_plane) == (active, backup)


def test_every_field_is_described() -> None:
    schema = TopologySpec.model_json_schema()
    models = [schema, *schema["$defs"].values()]
    assert len(models) == 14
    for model in models:
        for name, field in model.get("properties", {}).items():
            assert field.get("description"), name
