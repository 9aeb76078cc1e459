"""Steps that make a scenario smaller: whatever a user writes, each is lighter, and they come to an end."""

from pathlib import Path

import pytest

from mrc_testbed.document.envelope import Kind, load
from mrc_testbed.errors import UsageError
from mrc_testbed.installation import ROOT
from mrc_testbed.scenario.spec.load import load_scenario, scenario_variants
from mrc_testbed.soak.document import as_text, commented, plan_of
from mrc_testbed.soak.scenario_shrink import read_failing
from mrc_testbed.soak.shrink import RefusedDocumentError, shrink, smaller_documents, weight

SCENARIOS = [
    path
    for path in sorted((ROOT / "scenarios").rglob("*.yaml"))
    if "kind: Scenario" in path.read_text() and "true" not in str(path.parent)
]
HEAD = "apiVersion: mrc-testbed/v1\nkind: Scenario\nmetadata: {name: odd, description: of no use}\nspec:\n"
ONE = "  workloads: [{name: w, kind: write-bw, from: h0, to: h5, size: 64 KiB, duration: 0.5 s}]\n"


def document_of(tmp_path: Path, spec: str, **options):
    path = tmp_path / "odd.yaml"
    path.write_text(HEAD + spec)
    return read_failing(path, **options)


def fails_always(document):
    try:
        plan_of(document)
    except UsageError as error:
        raise RefusedDocumentError from error
    return True


def smallest(document):
    small, _ = shrink(document, fails_always, 1000)
    return small["spec"]


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_any_scenario_has_lighter_ones(path: Path) -> None:
    variants = [each.variant.name for each in scenario_variants(load_scenario(path)) if each.variant]
    document = read_failing(path, variants[0] if variants else None)
    before = as_text(document)
    lighter = [each for each in smaller_documents(document) if weight(each) < weight(document)]
    assert lighter
    assert as_text(document) == before
    assert plan_of(document)


@pytest.mark.parametrize("name", ["t0-t1-flap", "incast-victim", "two-jobs", "rolling-t1-reboots"])
def test_it_ends_where_everything_fails(name: str) -> None:
    path = ROOT / "scenarios" / f"{name}.yaml"
    variants = [each.variant.name for each in scenario_variants(load_scenario(path)) if each.variant]
    document = read_failing(path, variants[0] if variants else None)
    document["spec"]["expect"] = []
    small, runs = shrink(document, fails_always, 5000)
    assert runs < 5000
    assert len(small["spec"]["workloads"]) == 1
    assert "faults" not in small["spec"]


def test_what_a_scenario_leaves_out_becomes_small_too_and_other_units_are_halved(tmp_path: Path) -> None:
    found = smallest(document_of(tmp_path, ONE))
    assert found["topology"] == {"planes": 1, "t0": 1, "t1": 1, "hosts_per_t0": 2}
    assert found["workloads"] == [
        {"name": "w", "kind": "write-bw", "from": "h0", "to": "h1", "size": "1B", "duration": "1.8ms"}
    ]
    assert "faults" not in found


_UPPER = "{joins: 3, switches: 2, links: 2}, {joins: 2, switches: 3}"
TALL = f"  topology: {{planes: 2, tiers: [{{joins: 2}}, {_UPPER}]}}\n"


def lost(*names: str) -> str:
    links = ", ".join(names)
    return f"  faults: [{{id: f, kind: link-down, at: 1ms, for: 2ms, select: {{links: [{links}]}}}}]\n"


def test_three_tiers_become_two_where_no_name_is_of_the_third(tmp_path: Path) -> None:
    document = document_of(tmp_path, TALL + ONE + lost('"h7:1"', "p1-t0-4~p1-t1-3"))
    first, second, *_ = [spec["spec"] for spec in smaller_documents(document)][1:]
    assert [tier["joins"] for tier in first["topology"]["tiers"]] == [2, 6]
    assert first["faults"][0]["select"]["links"] == ["h7:1", "p1-t0-4~p1-t1-1"]
    assert second["topology"]["planes"] == 1
    one = {"joins": 1, "switches": 1, "links": 1}
    assert smallest(document_of(tmp_path, TALL + ONE))["topology"] == {
        "planes": 1,
        "tiers": [one | {"joins": 2}, one],
    }


def test_a_fault_above_t1_keeps_three_tiers_and_moves_with_the_pods(tmp_path: Path) -> None:
    document = document_of(tmp_path, TALL + ONE + lost("p1-t1-3~p1-t2-5", '"p0-t0-4:0"'))

    def fails(candidate):
        return fails_always(candidate) and "~" in str(candidate["spec"].get("faults"))

    found = shrink(document, fails, 1000)[0]["spec"]
    assert found["faults"][0]["select"]["links"] == ["p0-t1-0~p0-t2-0"]
    assert [tier["joins"] for tier in found["topology"]["tiers"]] in ([1, 1, 2], [1, 2, 1], [2, 1, 1])


def test_faults_end_with_a_shorter_run(tmp_path: Path) -> None:
    fault = "{id: %s, kind: plane-down, at: %s, for: %s, select: {planes: 0}}"
    spec = f"  faults: [{fault % ('a', '10ms', '0.4 s')}, {fault % ('b', '0.45 s', '1ms')}]\n"
    lesser = [each["spec"]["faults"] for each in smaller_documents(document_of(tmp_path, ONE + spec))]
    times = [[(fault.get("at"), fault.get("for")) for fault in faults] for faults in lesser]
    assert [("5ms", "200ms"), ("220ms", "500us")] in times
    assert [("10ms", "240ms")] in times


def test_work_by_count_becomes_one_message(tmp_path: Path) -> None:
    found = smallest(document_of(tmp_path, ONE.replace("duration: 0.5 s", "iterations: 9, timeout: 1 m")))
    assert (found["workloads"][0]["iterations"], found["workloads"][0]["timeout"]) == (1, "1 m")


def test_lists_of_hosts_lose_pairs(tmp_path: Path) -> None:
    document = document_of(tmp_path, ONE.replace("h0", "[h0, h2, h4]").replace("h5", "[h1, h3, h5]"))
    assert [len(smallest(document)["workloads"][0][key]) for key in ("from", "to")] == [1, 1]
    lesser = [work for each in smaller_documents(document) for work in each["spec"]["workloads"]]
    assert (["h0", "h4"], ["h1", "h5"]) in [(each.get("from"), each.get("to")) for each in lesser]


def test_a_fault_goes_with_what_clears_it(tmp_path: Path) -> None:
    spec = ONE + (
        "  faults:\n"
        "  - {id: a, kind: plane-down, at: 10ms, until: cleared, select: {planes: [2, 3]}}\n"
        '  - {id: b, kind: loss, at: 10ms, until: cleared, ratio: 1%, select: {links: [p3-t0-1:4, "h5:*"]}}\n'
        "  - {kind: clear, at: 20ms, faults: [a, b]}\n"
    )
    document = document_of(tmp_path, spec)
    assert "faults" not in smallest(document)

    def fails_with_both(candidate):
        ids = [each.get("id") for each in candidate["spec"]["faults"]]
        return fails_always(candidate) and ids == ["a", "b", None]

    small, _ = shrink(document, fails_with_both, 1000)
    assert small["spec"]["topology"]["planes"] <= 2
    assert small["spec"]["faults"][2]["faults"]


def test_entries_that_an_anchor_shares_are_apart(tmp_path: Path) -> None:
    spec = ONE + (
        "  faults:\n"
        '  - {id: a, kind: link-down, at: 1ms, for: 2ms, select: &here {links: ["h0:0", "h1:1"]}}\n'
        "  - {id: b, kind: link-down, at: 8ms, for: 2ms, select: *here}\n"
    )
    document = document_of(tmp_path, spec)
    assert "&id" not in as_text(document)
    small, _ = shrink(document, lambda each: fails_always(each) and len(each["spec"]["faults"]) == 2, 1000)
    assert len(small["spec"]["faults"]) == 2


def test_a_topology_file_is_written_out_and_a_seed_takes_the_place_of_the_file_s(tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(
        "apiVersion: mrc-testbed/v1\nkind: Topology\nmetadata: {name: lab}\nspec: {planes: 2, t0: 3}\n"
    )
    found = document_of(tmp_path, "  topology: lab.yaml\n" + ONE, seed=0)["spec"]
    assert (found["topology"], found["seed"]) == ({"planes": 2, "t0": 3}, 0)


def test_variants_have_to_be_chosen_from(tmp_path: Path) -> None:
    spec = ONE + "  variants: {size: {small: {workloads.w.size: 1B}, large: {}}}\n  compare: [goodput(w)]\n"
    with pytest.raises(UsageError, match="has the variants small, large"):
        document_of(tmp_path, spec)
    with pytest.raises(UsageError, match="did you mean 'small'"):
        document_of(tmp_path, spec, variant="smal")
    found = document_of(tmp_path, spec, variant="small")["spec"]
    assert found["workloads"][0]["size"] == "1B"
    assert not {"variants", "compare"} & found.keys()
    with pytest.raises(UsageError, match="has no variant"):
        document_of(tmp_path, ONE, variant="small")


def test_comments_are_no_yaml(tmp_path: Path) -> None:
    document = document_of(tmp_path, ONE)
    text = commented(document, ["two\nlines: {", "long " * 300])
    assert load(text, Kind.SCENARIO).tree == document
    assert max(map(len, text.splitlines())) <= 110
