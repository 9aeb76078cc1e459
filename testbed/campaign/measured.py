"""What the runs of a campaign's folder have measured, as cells."""

from testbed.campaign.cell import Cell, MeasuredRun, build_cells
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


def cells_of(folder: CampaignFolder) -> tuple[Cell, ...]:
    """The cells of a campaign as its journal has them now.

    Raises:
        UsageError: a file of a run is damaged.
    """
    runs = sorted(folder.wanted, key=lambda run: run.index)
    return build_cells(measured_run(folder, run) for run in runs)
