"""The order of a campaign's runs, the time left, runs that are repeated; what is gone is refused."""

import json
from itertools import pairwise

import pytest
from document_text import document

from mrc_testbed.campaign.execution import RunQueue, execute_campaign
from mrc_testbed.campaign.folder import CampaignFolder, RunEntry
from mrc_testbed.campaign.plan import plan_campaign
from mrc_testbed.cli.app import run as mrc_testbed
from mrc_testbed.errors import UsageError

WINDOWS = document("""\
Campaign {name: windows}
  scenarios: [flap.yaml]
  matrix: {transport.window: [16, 64]}
  seeds: [3, 4]
""")


@pytest.fixture
def path(files):
    path = files / "windows.yaml"
    path.write_text(WINDOWS)
    return path


@pytest.fixture
def folder(files, path):
    return CampaignFolder.create(files / "campaigns", plan_campaign(path))


def journal(folder):
    return [json.loads(line) for line in (folder.path / "journal.jsonl").read_text().splitlines()]


def test_a_repeated_untrusted_run_stays_marked(folder, stage):
    attempts = []

    def stand_still(run, lab):
        attempts.append(run.key)
        if len(attempts) < 3:
            lab.clock.pause_at_ns, lab.clock.pause_ns = lab.clock.now_ns() + 900_000_000, 800_000_000

    stage.before_run = stand_still
    execute_campaign(folder, stage, progress=lambda _: None, retries=5)
    lines = journal(folder)
    assert len({line["folder"] for line in lines}) == len(lines)
    statuses = [line["status"] for line in lines if line["key"] == attempts[0]]
    assert statuses == ["untrusted", "untrusted", "passed"]
    assert [line["why"] for line in lines[:4]] == [
        "",
        "it was UNTRUSTED before, 1 of 5 times",
        "it was UNTRUSTED before, 2 of 5 times",
        "",
    ]
    summary = json.loads((folder.path / "summary.json").read_text())
    marked = [row for row in summary["runs"] if row["key"] == attempts[0]]
    assert (marked[0]["fidelity"], marked[0]["untrusted_before"]) == ("trusted, after 2 UNTRUSTED", 2)


class Clock:
    def __init__(self):
        self.time_ns = 0

    def __call__(self):
        return self.time_ns


def test_what_is_left_is_estimated_from_what_has_run(files):
    folder = CampaignFolder.create(files / "campaigns", plan_campaign(files / "both.yaml"))
    clock = Clock()
    queue = RunQueue(folder, now_ns=clock)
    said = []
    while (run := queue.next()) is not None:
        said.append(queue.begin(run))
        clock.time_ns += 90_000_000_000
        queue.note(run, RunEntry(run.key, "passed", 0, "", None, ""))
    assert said[0].startswith("run 1 of 8: ")
    assert said[1].startswith("run 2 of 8, 10 min left: ")
    assert said[7].startswith("run 8 of 8, 90 s left: ")
    assert len(said) == 8


def test_order_is_shuffled_by_its_seed_unless_it_is_that_of_the_file(path):
    text = path.read_text().replace("seeds: [3, 4]", "seeds: {from: 1, count: 8}")

    def keys(order):
        path.write_text(text + order)
        return [run.key for run in plan_campaign(path).runs]

    in_file = keys("  order: file\n")
    assert in_file == [f"flap transport.window={w} seed={s}" for w in (16, 64) for s in range(1, 9)]
    default, other = keys(""), keys("  order: {shuffle: 5}\n")
    assert default == keys("  order: {shuffle: 0}\n") == keys("")
    assert sorted(default) == sorted(other) == sorted(in_file)
    assert len({tuple(default), tuple(other), tuple(in_file)}) == 3


def test_topologies_stay_together_in_a_shuffled_order(files):
    path = files / "both.yaml"
    text = path.read_text().replace("  order: file\n", "")
    path.write_text(text.replace("transport.window: [16, 64]", "topology.planes: [2, 4]"))
    planes = [run.plan.topology.planes for run in plan_campaign(path).runs]
    assert sum(before != after for before, after in pairwise(planes)) == 1


@pytest.mark.parametrize("order", ["random", "{shuffle: -1}"])
def test_a_wrong_order_is_reported(path, order):
    path.write_text(f"{WINDOWS}  order: {order}\n")
    with pytest.raises(UsageError, match=r"spec\.order"):
        plan_campaign(path)


GONE = (
    "repeating until medians are certain is gone since 0.4: give the campaign more `seeds`; `campaign stats` "
    "shows its intervals, and --timeout ends it in time"
)


def test_a_file_that_repeats_is_refused_with_what_to_use(path):
    path.write_text(f"{WINDOWS}  repeat: {{until: 5%, at_most: 8}}\n")
    with pytest.raises(UsageError) as caught:
        plan_campaign(path)
    assert caught.value.message == f"{path}:8: spec.repeat: {GONE}"


@pytest.mark.parametrize("command", [["run", "--dry-run", "--virtual"], ["resume", "--virtual"]])
def test_a_budget_is_refused_with_what_to_use(path, command, capsys):
    assert mrc_testbed(["campaign", *command, str(path), "--budget", "30m"]) == 2
    assert "give it more `seeds`, or end it by --timeout" in capsys.readouterr().err
