"""Findings about dashboards: from the answers that their panels got, and from what was drawn of them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from answers import Answer

DRAWN: Final = frozenset({"timeseries", "stat", "bargauge", "table"})
"""Types of panels that Grafana's npm packages draw; the data of the others are checked alone."""

_LONG_NUMBER: Final = re.compile(r"-?\d{5,}(\.\d+)?|-?\d{1,3}(,\d{3})+(\.\d+)?")


@dataclass(frozen=True, order=True)
class Finding:
    """A problem of a panel, in one sentence."""

    board: str
    panel: str
    scene: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.board}: {self.panel} ({self.scene}): {self.sentence}"


def of_answers(
    board: str, panel: Mapping[str, Any], by_scene: Mapping[str, list[Answer]]
) -> Iterator[Finding]:
    """Findings about the data of a panel in all scenes.

    Args:
        board: name of the dashboard.
        panel: as it is in the dashboard.
        by_scene: the answers to its queries, in their order.
    """
    title = panel["title"]
    for index, target in enumerate(panel["targets"]):
        answers = [answers[index] for answers in by_scene.values()]
        if not any(answer.values() for answer in answers):
            yield Finding(
                board, title, "all", f"the query {target['refId']} returns nothing: {answers[0].expression}"
            )
    for scene, answers in by_scene.items():
        for answer in answers:
            for label in _missing_labels(answer):
                yield Finding(
                    board, title, scene, f"the legend wants the label {label!r}, which a series lacks"
                )
    if panel["type"] == "timeseries" and not any(_moves(answers) for answers in by_scene.values()):
        yield Finding(board, title, "all", "minimum and maximum are equal: it never shows a difference")
    if panel["type"] == "heatmap":
        for scene, answers in by_scene.items():
            yield from (Finding(board, title, scene, sentence) for sentence in of_buckets(answers[0]))


def _missing_labels(answer: Answer) -> set[str]:
    wanted = re.findall(r"\{\{\s*(\w+)\s*\}\}", answer.target["legendFormat"])
    return {label for labels, _ in answer.series for label in wanted if not labels.get(label)}


def _moves(answers: Iterable[Answer]) -> bool:
    """Return True if an axis around all series would not be of one value."""
    return len({value for answer in answers for value in answer.values()}) > 1


def of_buckets(answer: Answer) -> Iterator[str]:
    """Sentences about a histogram over time whose cells Grafana could not colour rightly."""
    bounds = sorted((float(labels["le"]), dict(samples)) for labels, samples in answer.series)
    for (lower, below), (upper, whole) in pairwise(bounds):
        for at, value in below.items():
            if value > whole.get(at, float("inf")) + 1e-6:
                yield f"the bucket up to {lower:g} s holds more than the one up to {upper:g} s"
                return
    if bounds and bounds[-1][0] != float("inf"):
        yield "there is no bucket +Inf: the slowest are not counted"


def of_drawing(
    board: str, panel: Mapping[str, Any], scene: str, seen: Mapping[str, Any]
) -> Iterator[Finding]:
    """Findings about a panel as a browser shows it."""
    sentences = [
        *(f"the text {text!r} is cut" for text in sorted(set(seen["cut"]))),
        *(f"a template is left: {text!r}" for text in seen["texts"] if "{{" in text or "${" in text),
        *(
            f"the number {text!r} has more than four digits"
            for text in seen["texts"]
            if _LONG_NUMBER.fullmatch(text)
        ),
        *(
            f"two ticks of an axis are called {one!r}"
            for one, other in pairwise(seen["ticks"])
            if one == other
        ),
        *(f"a template is left in the link {link!r}" for link in seen["links"] if "$" in link),
        *seen["exceptions"],
    ]
    if not seen["isDescribed"]:
        sentences.append("it does not show that it has a description")
    yield from (Finding(board, panel["title"], scene, sentence) for sentence in sentences)
