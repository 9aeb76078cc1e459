"""Campaigns on three machines while machines, links and disks fail; each run ends up there once."""

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest
from dask_cluster import ADDRESS, CAMPAIGN, Cluster, cluster_of, interrupt
from waiting import DEADLINE_S, poll_until

pytestmark = pytest.mark.slow("a cluster of three workers")

RUNS = 24


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with cluster_of(3, RUNS, tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_of(3, RUNS, tmp_path_factory.mktemp("cluster")) as found:
        found.start_all()
        yield found


@pytest.fixture
def running(started: Cluster) -> Cluster:
    """A cluster of tests that leave it as it was; the test that kills comes last: killed runs leave files."""
    started.plan(RUNS)
    return started


@pytest.mark.ci
def test_another_version_is_refused_by_name_and_none_too(cluster: Cluster, tmp_path: Path) -> None:
    other = tmp_path / "other" / "mrc_testbed-9.9.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: mrc-testbed\nVersion: 9.9.9\n")
    cluster.start_scheduler()
    cluster.start_worker(0, PYTHONPATH=str(other.parent))
    poll_until(lambda: "this is mrc-testbed 9.9.9" in cluster.workers[0].said("w0.log"))
    assert f"the scheduler {ADDRESS} has 0." in cluster.workers[0].said("w0.log")
    cluster.kill("scheduler")
    cluster.start_scheduler(preload=False)
    cluster.start_worker(1)
    assert cluster.campaign("run", "many.yaml").wait() == 3
    assert f"the scheduler {ADDRESS} was started without our preload" in cluster.head.said("campaign.log")
    poll_until(lambda: "was started without --preload" in cluster.workers[1].said("w1.log"))
    cluster.kill("scheduler")
    cluster.start_scheduler(PYTHONPATH=str(other.parent))
    assert cluster.campaign("run", "many.yaml").wait() == 3
    assert f"the scheduler {ADDRESS} has 9.9.9" in cluster.head.said("campaign.log")


def test_a_worker_whose_disk_is_full_ends(cluster: Cluster) -> None:
    full = cluster.workers[0].folder / "disk"
    full.mkdir()
    cluster.workers[0].run("mount", "-t", "tmpfs", "-o", "size=64k", "none", full)
    cluster.start_all()
    assert cluster.campaign("run", "many.yaml").wait() == 0, cluster.head.said("campaign.log")
    cluster.require_whole(RUNS)
    assert cluster.machines_used() == {"w1", "w2"}
    assert "no space left; it ends" in cluster.workers[0].said("w0.log")


def test_a_soak_uses_the_workers_and_says_when_they_are_gone(cluster: Cluster) -> None:
    cluster.start_all()
    soak = cluster.campaign("soak", "--for", "1h", "--seed", "100")
    poll_until(lambda: cluster.has_begun("w0"))
    cluster.kill("scheduler")
    assert soak.wait(DEADLINE_S) == 1, cluster.head.said("campaign.log")
    assert "is gone, and with it" in cluster.head.said("campaign.log")
    assert " universes, 0 bad; from seed 100, " in cluster.head.said("campaign.log")
    cluster.start_all()
    assert cluster.campaign("soak", "--universes", "24").wait() == 0, cluster.head.said("campaign.log")
    assert "24 universes, 0 bad; from seed 1, " in cluster.head.said("campaign.log")


def test_a_run_whose_workers_die_is_in_error(cluster: Cluster) -> None:
    long = cluster.head.folder / "one.yaml"
    long.write_text(long.read_text().replace("100ms", "1h"))
    (cluster.head.folder / "many.yaml").write_text(CAMPAIGN % 1)
    cluster.start_scheduler(DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0")
    cluster.start_worker(0)
    campaign = cluster.campaign("run", "many.yaml")
    poll_until(lambda: any(cluster.workers[0].folder.glob("disk/**/series.csv")))
    cluster.kill_worker(0)
    assert campaign.wait() == 1, cluster.head.said("campaign.log")
    assert [entry["reason"] for entry in cluster.journal()] == ["the workers died that carried it out"]


@pytest.mark.ci
def test_runs_on_labs_of_a_worker(tmp_path: Path) -> None:
    """One machine: here they share their processes, and labs of one name would meet."""
    with cluster_of(1, 2, tmp_path) as cluster:
        cluster.start_all()
        status = cluster.campaign("run", "many.yaml", virtual=False).wait()
        assert status in {0, 7}, f"{cluster.head.said('campaign.log')}\n{cluster.journal()}"
        assert cluster.machines_used() == {"w0"}
        assert len(cluster.journal()) == 2
        cluster.workers[0].run("sh", "-c", 'test -z "$(ls /run/netns)"')


@pytest.mark.ci
def test_ctrl_c_ends_runs_on_all_machines_which_are_named(running: Cluster) -> None:
    long = running.head.folder / "one.yaml"
    long.write_text(long.read_text().replace("100ms", "1h"))
    campaign = running.campaign("run", "many.yaml")
    poll_until(
        lambda: all(any(worker.folder.glob("disk/**/series.csv")) for worker in running.workers),
        what="a run on each worker",
    )
    interrupt(campaign)
    assert campaign.wait() == 130, running.head.said("campaign.log")
    assert {entry["status"] for entry in running.journal()} == {"interrupted"}
    assert len([entry for entry in running.journal() if entry["folder"]]) == 3
    assert running.machines_used() == {"w0", "w1", "w2"}


@pytest.mark.ci
def test_a_partition_of_ten_seconds_delays(running: Cluster) -> None:
    campaign = running.campaign("run", "many.yaml")
    running.await_runs(3)
    running.head.run("ip", "link", "set", "to-w0", "down")
    running.head.run("sleep", "10")
    running.head.run("ip", "link", "set", "to-w0", "up")
    assert campaign.wait() == 0, running.head.said("campaign.log")
    running.require_whole(RUNS)


@pytest.mark.ci
def test_a_head_whose_disk_is_full_resumes_with_room(running: Cluster) -> None:
    full = running.head.folder / "campaigns"
    full.mkdir()
    running.head.run("mount", "-t", "tmpfs", "-o", "size=4m", "none", full)
    assert running.campaign("run", "many.yaml").wait() == 1
    assert "No space left on device" in running.head.said("campaign.log")
    running.head.run("mount", "-o", "remount,size=64m", full)
    assert running.campaign("resume", "many").wait() == 0, running.head.said("campaign.log")
    running.head.run("cp", "-a", full, full.with_name("copy"))
    running.head.run("umount", full)
    running.head.run("cp", "-a", f"{full.with_name('copy')}/.", full)
    running.require_whole(RUNS)


@pytest.mark.parametrize(("kills", "runs"), [pytest.param(3, 90, marks=pytest.mark.ci), (20, 160)])
def test_kills_of_worker_scheduler_and_head_lose_nothing(running: Cluster, kills: int, runs: int) -> None:
    running.plan(runs)
    campaign, words = running.campaign("run", "many.yaml"), ("resume", "many")
    for number, victim in zip(range(kills), cycle(["worker", "scheduler", "head"]), strict=False):
        running.await_runs((number + 1) * runs // (kills + 1))
        match victim:
            case "worker":
                running.kill_worker(number % 3)
                continue
            case "scheduler":
                running.kill("scheduler")
                assert campaign.wait(DEADLINE_S) == 1
                assert f"the scheduler {ADDRESS} is gone" in running.head.said("campaign.log")
                running.start_all()
            case "head":
                running.kill("campaign")
        campaign = running.campaign(*words)
    assert campaign.wait() == 0, running.head.said("campaign.log")
    running.require_whole(runs)
