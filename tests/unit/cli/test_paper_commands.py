"""Commands that need no lab and no root: what they print, and how they refuse."""

import json

import pytest
from document_text import document
from manifests import ENDED

SCENARIO = document("""\
Scenario {name: small}
  seed: 3
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 1}
  workloads:
    - {name: main, kind: write-bw, from: h0, to: h1, size: 64KiB, duration: 2s}
  faults:
    - {id: cut, kind: link-down, at: 1s, for: 500ms, select: {links: {plane: 0}, pick: random}}
  expect: ["qp_errors == 0"]
""")
TOPOLOGY = document("""\
Topology {name: shaped}
{planes: 2, t0: 2, t1: 1, hosts_per_t0: 2, port_rate: 50Mbit, link_delay: 5us}
""")


@pytest.fixture
def files(tmp_path):
    (tmp_path / "small.yaml").write_text(SCENARIO)
    (tmp_path / "lab.yaml").write_text(TOPOLOGY)
    return tmp_path


def as_json(finished):
    assert finished.status == 0
    assert finished.stderr == ""
    return json.loads(finished.stdout)


def test_inspect_of_the_default_lab(mrc_testbed):
    [table] = as_json(mrc_testbed("inspect", "-o", "json"))["tables"]
    assert table["title"] == "fabric"
    assert {"property": "planes", "value": 4} in table["rows"]


def test_inspect_of_a_switch_shows_ports_and_forwarding(mrc_testbed, files):
    ports, forwarding = as_json(
        mrc_testbed("inspect", "p1-t0-1", "-t", str(files / "lab.yaml"), "-o", "json")
    )["tables"]
    assert [row["peer"] for row in ports["rows"]] == ["h2:1", "h3:1", "p1-t1-0:1"]
    assert {row["action"] for row in forwarding["rows"]} == {"uN shift", "forward"}


def test_inspect_of_a_link_shows_both_ends(mrc_testbed):
    [table] = as_json(mrc_testbed("inspect", "h3:2", "-o", "json"))["tables"]
    assert [row["port"] for row in table["rows"]] == ["h3:2", "p2-t0-0:3"]


def test_inspect_of_a_node_that_does_not_exist_suggests_one(mrc_testbed):
    finished = mrc_testbed("inspect", "p0-t0-9")
    assert finished.status == 2
    assert "there is no node 'p0-t0-9'" in finished.stderr


@pytest.mark.parametrize(
    ("style", "begins"), [("text", "4 planes"), ("dot", "graph fabric {"), ("svg", "<svg")]
)
def test_graph_draws_in_each_style(mrc_testbed, style, begins):
    finished = mrc_testbed("graph", "-f", style)
    assert finished.status == 0
    assert finished.stdout.startswith(begins)
    assert as_json(mrc_testbed("graph", "-f", style, "-o", "json"))["drawing"] == finished.stdout


def test_ev_explain_walks_a_path_hop_by_hop(mrc_testbed):
    found = as_json(mrc_testbed("ev", "explain", "h0", "h5", "1:1", "-o", "json"))
    assert found["ev"] == "0x10010000"
    assert [usid["value"] for usid in found["usids"]] == ["4400", "8401", "4401", "c401"]
    assert [hop["node"] for hop in found["hops"]] == ["h0", "p1-t0-0", "p1-t1-1", "p1-t0-1", "h5"]
    assert found["hops"][0]["faults"] == []


@pytest.mark.parametrize(
    ("ev", "message"),
    [
        ("1:x", "'1:x' is no EV"),
        ("16:0", "plane 16 does not exist"),
        ("0:4096", "uplink 4096 does not exist"),
        ("0:0:65536", "copy 65536 does not fit"),
        ("0xf0000000", "plane"),
        ("0x100000000", "EVs have 32 bits"),
    ],
)
def test_a_wrong_ev_is_refused(mrc_testbed, ev, message):
    finished = mrc_testbed("ev", "explain", "h0", "h5", ev)
    assert finished.status == 2
    assert message in finished.stderr


def test_ev_list_without_a_qp_shows_the_set_that_one_would_get(mrc_testbed):
    finished = mrc_testbed("ev", "list", "h0", "h5", "--plane", "2", "-o", "json")
    assert finished.status == 0
    assert "no QP from h0 to h5 is up" in finished.stderr
    [table] = json.loads(finished.stdout)["tables"]
    assert len(table["rows"]) == 32
    assert {row["plane"] for row in table["rows"]} == {2}


def test_ev_list_to_the_same_host_is_refused(mrc_testbed):
    assert mrc_testbed("ev", "list", "h0", "h0").status == 2


def test_a_plan_is_what_a_dry_run_prints(mrc_testbed, files):
    path = str(files / "small.yaml")
    plan = mrc_testbed("run", "--dry-run", path)
    assert plan.status == 0
    assert "1.000000000s to 1.500000000s" in plan.stdout
    assert mrc_testbed("run", path, "--dry-run").stdout == plan.stdout
    assert mrc_testbed("run", "--dry-run", path, "--seed", "3").stdout == plan.stdout
    assert mrc_testbed("run", "--dry-run", path, "--seed", "8").stdout != plan.stdout


def test_a_plan_as_json_names_the_links_that_the_seed_chose(mrc_testbed, files):
    found = as_json(mrc_testbed("run", "--dry-run", str(files / "small.yaml"), "-o", "json"))
    assert found["kind"] == "Plan"
    [fault] = found["plan"]["faults"]
    assert len(fault["links"]) == 1


def test_good_files_validate(mrc_testbed, files):
    finished = mrc_testbed("validate", str(files / "small.yaml"), str(files / "lab.yaml"))
    assert finished.status == 0
    assert finished.stdout.count("ok  ") == 2


def test_a_bad_file_is_reported_with_its_line_and_the_others_are_checked_too(mrc_testbed, files):
    bad = files / "bad.yaml"
    bad.write_text(TOPOLOGY.replace("port_rate: 50Mbit", "port_rat: 50Mbit"))
    finished = mrc_testbed("validate", str(bad), str(files / "lab.yaml"), "-o", "json")
    assert finished.status == 2
    wrong, right = json.loads(finished.stdout)["files"]
    assert f"{bad}:4: spec.port_rat: unknown key" in wrong["problem"]
    assert "port_rate" in wrong["problem"]
    assert right["valid"]


def test_a_selector_that_matches_nothing_is_found_by_validate(mrc_testbed, files):
    bad = files / "bad.yaml"
    bad.write_text(SCENARIO.replace("{plane: 0}", "{plane: 7}"))
    finished = mrc_testbed("validate", str(bad))
    assert finished.status == 2
    assert "plane 7 does not exist" in finished.stdout


@pytest.mark.parametrize("kind", ["Scenario", "scenario", "Topology"])
def test_schemas_are_json_schema(mrc_testbed, kind):
    finished = mrc_testbed("validate", "--schema", kind)
    assert finished.status == 0
    assert json.loads(finished.stdout)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_up_with_dry_run_says_what_it_would_do(mrc_testbed, files):
    found = as_json(mrc_testbed("-q", "up", "-t", str(files / "lab.yaml"), "--dry-run", "-o", "json"))
    assert found["kind"] == "LabPlan"
    assert (found["switches"], found["hosts"], found["links"]) == (6, 4, 12)
    assert found["topology"]["port_rate"] == "50Mbit"


@pytest.mark.parametrize(
    "arguments",
    [
        ("bench", "write-bw", "h0", "h1"),
        ("fault", "list"),
        ("fault", "clear", "--all"),
        ("exec", "h0", "--", "true"),
        ("logs",),
    ],
)
def test_what_needs_a_lab_says_how_to_get_one(mrc_testbed, arguments, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    finished = mrc_testbed("-n", "nosuch", *arguments)
    assert finished.status in (1, 2)
    assert "there is no lab 'nosuch'" in finished.stderr
    assert "mrc-testbed up" in finished.stderr


def test_all_and_a_name_contradict_each_other(mrc_testbed):
    assert mrc_testbed("down", "--all", "-n", "a").status == 2


def test_clearing_nothing_in_particular_is_refused(mrc_testbed):
    finished = mrc_testbed("fault", "clear")
    assert finished.status == 2
    assert "name the faults to clear, or give --all" in finished.stderr


def test_a_run_that_does_not_exist_has_no_report(mrc_testbed, tmp_path):
    finished = mrc_testbed("report", "nosuch", "--runs", str(tmp_path))
    assert finished.status == 2
    assert "there is no finished run at nosuch" in finished.stderr


def test_a_report_shows_the_summary_and_where_the_page_is(mrc_testbed, tmp_path):
    folder = tmp_path / "small" / "latest"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps(ENDED))
    (folder / "summary.md").write_text("# small: passed\n")
    for what in ("small", str(folder)):
        finished = mrc_testbed("report", what, "--runs", str(tmp_path))
        assert finished.status == 0
        assert "small: passed" in finished.stdout
        assert str(folder / "report.html") in finished.stdout
    found = as_json(mrc_testbed("report", "small", "--runs", str(tmp_path), "-o", "json"))
    assert found["manifest"]["status"] == "passed"


@pytest.mark.parametrize(
    "arguments",
    [
        ("up",),
        ("down",),
        ("status",),
        ("bench", "write-bw", "h0", "h1"),
        ("fault", "list"),
        ("exec", "h0", "--", "true"),
        ("shell",),
        ("observe", "metrics"),
        ("inspect", "--queues"),
    ],
)
def test_without_root_a_command_that_touches_a_lab_is_refused_at_once(mrc_testbed, arguments, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    finished = mrc_testbed(*arguments)
    assert finished.status == 3
    assert "needs root" in finished.stderr
    assert "sudo" in finished.stderr


@pytest.mark.parametrize(
    "arguments", [("inspect", "h0"), ("graph",), ("ev", "list", "h0", "h5"), ("up", "--dry-run")]
)
def test_what_is_on_paper_only_needs_no_root(mrc_testbed, arguments, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert mrc_testbed(*arguments).status == 0
