"""The jobs of a run in a few figures and one sentence each: first in every report. Pure."""

from html import escape

from testbed.scenario.measure.job import Job
from testbed.scenario.measure.recording import Recording
from testbed.scenario.report.chart import draw_figure
from testbed.scenario.report.figure import step_chart
from testbed.scenario.report.result import RunResult
from testbed.scenario.report.result_text import job_figures


def job_strips(result: RunResult) -> str:
    """A section for each job; empty for a run without."""
    return "\n".join(_strip(job, result.recording) for job in result.jobs)


def _strip(job: Job, recording: Recording) -> str:
    tiles = "".join(
        f'<div class="tile"><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>'
        for name, value in job_figures(job)
    )
    chart = step_chart(recording, job.name, job.word)
    drawn = "" if chart is None else draw_figure([chart], is_file=False)
    return (
        f'<section class="job"><h2>Job {escape(job.name)}</h2>\n'
        f'<p class="headline">{escape(job.headline[:1].upper() + job.headline[1:])}.</p>\n'
        f'<dl class="tiles">{tiles}</dl>\n<div class="card">{drawn}</div></section>'
    )
