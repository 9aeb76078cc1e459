"""Figures of results in tests: a figure is drawn once, and as SVG alone.

The fonts of a PDF take as long as all else of it; tests/unit/report/test_chart.py draws both, each time.
"""

import pickle
from collections.abc import Iterator, Sequence

import pytest

from mrc_testbed.report import chart_file
from mrc_testbed.report.chart import Chart


@pytest.fixture(scope="session", autouse=True)
def few_drawings() -> Iterator[None]:
    drawn: dict[bytes, dict[str, bytes]] = {}

    def figure_files(charts: Sequence[Chart]) -> dict[str, bytes]:
        key = pickle.dumps(charts)
        if key not in drawn:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(chart_file, "FORMATS", ("svg",))
                drawn[key] = chart_file.figure_files(charts)
        return drawn[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mrc_testbed.campaign.summary_files.figure_files", figure_files)
        patch.setattr("mrc_testbed.scenario.report.result_folder.figure_files", figure_files)
        yield
