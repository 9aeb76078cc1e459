"""`size` prints a plan in tables and as JSON, and refuses what no fabric can be."""

import json

import pytest

from mrc_testbed.topology.resolve import load_topology


def document(mrc_testbed, *words):
    finished = mrc_testbed("size", *words, "-o", "json")
    assert (finished.status, finished.stderr) == (0, "")
    return json.loads(finished.stdout)


def test_the_published_comparison_comes_out(mrc_testbed):
    text = mrc_testbed("size", "131072").stdout
    assert "8 planes in two tiers, 131,072 NICs" in text
    for planes in ("1 plane", "8 planes"):
        assert (
            "Per NIC, two tiers of 8 planes need 2/3 of the optics and 3/5 of the switches\n"
            f"of three tiers of {planes}."
        ) in text
    assert "A fabric that does not reach 131,072 NICs is counted with all that it reaches." in text


def test_programs_get_the_same_figures(mrc_testbed):
    found = document(mrc_testbed, "131072")
    rows = {(row["planes"], row["tiers"]): row for row in found["fabrics"]}
    assert sorted(rows) == [(planes, tiers) for planes in (1, 2, 4, 8) for tiers in (2, 3)]
    assert (rows[1, 3]["nics"], rows[1, 3]["largest_nics"]) == (65_536, 65_536)
    assert (rows[8, 2]["nics"], rows[8, 2]["switches"], rows[8, 2]["optics"]) == (131_072, 6_144, 524_288)
    assert (rows[1, 2]["t0_t1_link_of_plane"], rows[8, 2]["t0_t1_link_of_plane"]) == (1 / 32, 1 / 256)
    assert {(each["optics"], each["switches"]) for each in found["comparisons"]} == {(2 / 3, 3 / 5)}
    assert found["chosen"].items() >= rows[8, 2].items()
    assert [loss["part"] for loss in found["chosen"]["losses"]][-3:] == ["T0", "T1", "plane"]


def test_each_fabric_has_a_line_of_its_own(mrc_testbed):
    lines = mrc_testbed("size", "2", "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line)["planes"] for line in lines] == [1, 2, 4, 8] * 2


@pytest.mark.parametrize(
    ("words", "planes", "tiers", "t2"),
    [
        (["4096"], 8, 2, 0),
        (["4096", "--planes", "1"], 1, 3, 64),
        (["1000", "--planes", "1", "--tiers", "3"], 1, 3, 16),
        (["1000", "--planes", "5"], 5, 2, 0),
        (["100", "--nic-rate", "400Gbit", "--switch-rate", "25600Gbit"], 8, 2, 0),
    ],
)
def test_a_fabric_is_chosen(mrc_testbed, words, planes, tiers, t2):
    chosen = document(mrc_testbed, *words)["chosen"]
    assert (chosen["planes"], chosen["tiers"], chosen["t2"]) == (planes, tiers, t2)


def test_the_plane_count_that_is_asked_for_is_compared_too(mrc_testbed):
    found = document(mrc_testbed, "1000", "--planes", "5")["fabrics"]
    assert [row["planes"] for row in found] == [1, 2, 4, 5, 8] * 2


def test_a_single_t0_has_no_tiers_to_compare(mrc_testbed):
    text = mrc_testbed("size", "100", "--planes", "8").stdout
    assert "paths   8 between NICs: 3 bits of an EV" in text
    assert "of the switches" not in text
    assert "T1 " not in text.partition("One part is lost")[2]


def test_a_lab_with_the_ratios_is_saved_once(mrc_testbed, tmp_path):
    path = tmp_path / "lab.yaml"
    words = ("size", "65536", "--planes", "1", "--tiers", "3", "--save", str(path))
    assert mrc_testbed(*words).status == 0
    spec = load_topology(path)
    assert (spec.numbering.downlinks, spec.numbering.uplinks) == ((4, 4, 4), (4, 4, 0))
    assert (spec.numbering.host_count, spec.port_rate) == (64, 800 * 10**9)
    assert "# T2: 4 down, 0 up; in the plan 64 down, 0 up\n" in path.read_text()
    again = mrc_testbed(*words)
    assert (again.status, again.stdout) == (2, "")
    assert "--save: " in again.stderr
    assert mrc_testbed("size", "2", "--save", str(tmp_path / "pair.yaml")).status == 0
    assert load_topology(tmp_path / "pair.yaml").numbering.host_count == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["0"], "NICS': Input should be greater than or equal to 2"),
        (["-5"], "No such option: -5"),
        (["many"], "NICS': Input should be a valid integer"),
        (["100", "--planes", "0"], "--planes': Input should be greater than or equal to 1"),
        (["100", "--planes", "17"], "--planes': Input should be less than or equal to 16"),
        (["100", "--planes", "3"], "a NIC of 800 Gbit/s has no equal ports for 3 planes"),
        (["100", "--tiers", "4"], "--tiers': Input should be less than or equal to 3"),
        (["100", "--nic-rate", "800"], "it has no unit"),
        (["100", "--nic-rate", "0Gbit"], "a NIC of 0 has no equal ports for 1 plane"),
        (["100", "--switch-rate", "0Gbit"], "a switch of 0 has no even number of ports of 800 Gbit/s"),
        (["131072", "--planes", "1"], "reach 65,536 in 3 tiers"),
        (["131072", "--planes", "1", "--tiers", "2"], "reach 2,048 in 2 tiers"),
        (["9" * 30], "reach 33,554,432 in 3 tiers"),
    ],
)
def test_what_is_no_fabric_is_refused(mrc_testbed, words, message):
    finished = mrc_testbed("size", *words)
    assert (finished.status, finished.stdout) == (2, "")
    assert message in finished.stderr
    assert "hint:" in finished.stderr
