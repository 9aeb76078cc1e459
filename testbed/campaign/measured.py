"""Measurements of a campaign's runs, as cells."""

from testbed.campaign.cell import Cell, MeasuredRun, build_cells
from testbed.campaign.cell_expectation import CellOutcome, judge_cells
from testbed.campaign.folder import CampaignFolder
from testbed.campaign.plan import PlannedRun
from testbed.campaign.row import NOT_RUN


def measured_run(folder: CampaignFolder, run: PlannedRun) -> MeasuredRun:
    """A run as the journal has it now.

    Raises:
        UsageError: a file of it is damaged.
    """
    entry = folder.entry(run)
    status = NOT_RUN if entry is None else entry.status
    return MeasuredRun(run, status, folder.manifest(run), folder.histograms(run))


def measured_runs(folder: CampaignFolder) -> tuple[MeasuredRun, ...]:
    """All runs that are wanted, done or not, in the order of the file.

    Raises:
        UsageError: a file of a run is damaged.
    """
    runs = sorted(folder.wanted, key=lambda run: run.index)
    return tuple(measured_run(folder, run) for run in runs)


def cells_of(folder: CampaignFolder) -> tuple[Cell, ...]:
    """The cells of a campaign as its journal has them now.

    Raises:
        UsageError: a file of a run is damaged.
    """
    return build_cells(measured_runs(folder))


def outcomes_of(folder: CampaignFolder) -> tuple[CellOutcome, ...]:
    """Outcomes of the campaign's expectations; empty before its first run.

    Raises:
        UsageError: a file of a run is damaged.
    """
    plan = folder.plan
    if not plan.expect or not any(folder.entry(run) for run in plan.runs):
        return ()
    return judge_cells(plan.expect, measured_runs(folder), plan.baseline)
