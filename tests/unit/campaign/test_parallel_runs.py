"""Runs of a campaign side by side: on workers whose number changes, with retries and interruption."""

import os
import signal
from collections import deque
from concurrent.futures import CancelledError
from unittest.mock import Mock

import pytest
from distributed.comm.core import CommClosedError

from mrc_testbed.campaign.execution import execute_in_parallel
from mrc_testbed.campaign.folder import CampaignFolder, RunEntry
from mrc_testbed.campaign.plan import plan_campaign
from mrc_testbed.campaign.workers import LocalWorkers
from mrc_testbed.cli.where import parse_scheduler
from mrc_testbed.cluster import connection
from mrc_testbed.cluster.connection import Cluster
from mrc_testbed.cluster.head import ClusterWorkers
from mrc_testbed.errors import TestbedError, UsageError


class Workers:
    """Workers that end one run each time; `statuses` has the next ones' statuses, then all pass."""

    def __init__(self, *statuses, rooms=()):
        self.statuses = deque(statuses)
        self.rooms = deque(rooms)
        self.begun = []
        self.most = 0
        self.is_interrupted = False
        self.ends = lambda: None

    def room(self):
        return self.rooms.popleft() if self.rooms else 2

    def begin(self, run):
        self.begun.append(run)
        self.most = max(self.most, len(self.begun))

    def wait(self):
        self.ends()
        if not self.begun:
            return []
        status = (
            "interrupted" if self.is_interrupted else self.statuses.popleft() if self.statuses else "passed"
        )
        return [RunEntry(self.begun.pop(0).key, status, 0, "", None, "")]

    def interrupt(self):
        self.is_interrupted = True


@pytest.fixture
def folder(files):
    return CampaignFolder.create(files / "campaigns", plan_campaign(files / "both.yaml"))


def carry_out(folder, workers, **options):
    return execute_in_parallel(folder, workers, progress=lambda _: None, **options)


def journal(folder):
    return (folder.path / "journal.jsonl").read_text().splitlines()


def test_no_more_runs_are_begun_than_there_is_room_for(folder):
    workers = Workers()
    assert carry_out(folder, workers) == 0
    assert workers.most == 2
    assert len(journal(folder)) == len(folder.plan.runs)


def test_a_campaign_waits_for_room(folder):
    assert carry_out(folder, Workers(rooms=[0, 0, 0])) == 0
    assert not folder.pending()


def test_an_untrusted_run_is_repeated_and_each_has_its_line(folder):
    assert carry_out(folder, Workers("untrusted", "passed", "untrusted"), retries=2) == 0
    first = folder.plan.runs[0]
    assert folder.entry(first).why == "it was UNTRUSTED before, 2 of 2 times"
    assert folder.untrusted_before(first) == 2
    assert len(journal(folder)) == len(folder.plan.runs) + 2


def test_retries_have_an_end(folder):
    assert carry_out(folder, Workers("untrusted", "passed", "untrusted"), retries=1) == 7


def test_an_interruption_ends_begun_runs_and_begins_none(folder):
    def interrupt():
        workers.ends = lambda: None
        raise KeyboardInterrupt

    workers = Workers()
    workers.ends = interrupt
    assert carry_out(folder, workers) == 130
    assert [folder.last(run).status for run in folder.plan.runs].count("interrupted") == 2
    assert len(journal(folder)) == 2


def test_what_was_measured_before_the_workers_are_lost_is_kept(folder):
    def lose():
        if len(journal(folder)) == 3:
            raise TestbedError("the scheduler is gone")

    workers = Workers()
    workers.ends = lose
    with pytest.raises(TestbedError):
        carry_out(folder, workers)
    assert "3 passed" in (folder.path / "summary.md").read_text()
    assert len(CampaignFolder.open(folder.path).pending()) == len(folder.plan.runs) - 3


def die(run, campaign):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_ends_the_campaign_in_words(folder):
    with LocalWorkers(folder.path, 1, die) as workers, pytest.raises(TestbedError, match="was killed"):
        carry_out(folder, workers)
    assert len(CampaignFolder.open(folder.path).pending()) == len(folder.plan.runs)


@pytest.mark.parametrize("error", [CommClosedError, CancelledError])
def test_a_scheduler_that_dies_on_the_way_to_a_result_is_named(folder, monkeypatch, error):
    def submit(*_, key, **options):
        future = Mock()
        future.exception.return_value = None
        future.result.side_effect = error
        future.add_done_callback = lambda done: done(future)
        return future

    monkeypatch.setattr(connection, "_connected", lambda _: Mock(status="running", submit=submit))
    workers = ClusterWorkers(
        Cluster("tcp://head:8786"), folder, is_virtual=True, runtime=None, progress=lambda _: None
    )
    workers.begin(folder.plan.runs[0])
    with pytest.raises(TestbedError, match="the scheduler tcp://head:8786 is gone"):
        workers.wait()


@pytest.mark.parametrize("address", ["head", "head:8786", "http://head:8786", "tcp://head", "tcp://head:x"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(UsageError, match="not the address of a scheduler"):
        parse_scheduler(address)


def test_tls_without_certificates_is_refused():
    with pytest.raises(UsageError, match="names no certificate"):
        Cluster("tls://head:8786")
