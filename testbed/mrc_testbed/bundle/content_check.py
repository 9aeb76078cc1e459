"""A check that the files of a result folder are what `run` and `campaign run` write."""

import os
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.document.text_file import read_result
from mrc_testbed.errors import UsageError
from mrc_testbed.printable import printable
from mrc_testbed.scenario.report.kept_times import FILE_NAME, load_histograms
from mrc_testbed.scenario.report.manifest_file import load_manifest
from mrc_testbed.scenario.spec.plan import load_plan

_EVENT: Final = TypeAdapter(dict[str, Any])


def check_results(folder: Path) -> None:
    """Read every file of data in a result folder; that of a campaign with all its runs."""
    runs = [folder]
    if os.path.lexists(folder / "journal.jsonl"):
        CampaignFolder.open(folder)
        runs = sorted(path.parent for path in folder.glob("runs/*/*/manifest.json"))
    for run in runs:
        _check_run(run)


def _check_run(folder: Path) -> None:
    load_manifest(folder / "manifest.json")
    if os.path.lexists(folder / "plan.json"):
        load_plan(folder / "plan.json")
    path = folder / FILE_NAME
    try:
        if os.path.lexists(path):
            load_histograms(read_result(path).decode())
        path = folder / "events.jsonl"
        for line in read_result(path).decode().splitlines() if os.path.lexists(path) else ():
            _EVENT.validate_json(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: {printable(str(error))}") from error
