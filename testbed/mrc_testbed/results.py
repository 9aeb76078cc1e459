"""Results for notebooks: `mrc_testbed.results.load("campaigns/loss-ratio/latest")` gives pandas DataFrames.

Needs pandas: mrc-testbed[data]. Columns: docs/guide/campaigns.md, "Data".
"""

import os
from dataclasses import dataclass
from pathlib import Path

from mrc_testbed.bundle.bundle import opened
from mrc_testbed.campaign.tables import finished_runs, rows_of
from mrc_testbed.extras import from_extra

with from_extra("data"):
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Results:
    """The tables of a run or campaign; `run` joins them."""

    runs: pd.DataFrame  # a row per run that ended
    figures: pd.DataFrame  # a row per figure of a run
    samples: pd.DataFrame  # a row per value over time


def load(path: str | os.PathLike[str]) -> Results:
    """The results in a folder of `run` or `campaign run`, or in a bundle of one.

    Raises:
        UsageError: it is neither, or no run in it has ended.
    """
    with opened(Path(path)) as folder:
        runs = finished_runs(folder)
        return Results(*(pd.DataFrame(rows_of(table, runs)) for table in ("runs", "figures", "samples")))
