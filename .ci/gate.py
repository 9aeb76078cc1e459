"""Runs scenarios and campaigns in CI: verdicts in the job's summary, annotations, one exit status.

What action.yaml and the GitLab job of docs/guide/ci.md call; it runs anywhere:

    .venv/bin/python .ci/gate.py --virtual --out results scenarios/t0-t1-flap.yaml
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

PROGRAM: Final = Path(sys.executable).with_name("mrc-testbed")
WORST_FIRST: Final = (2, 3, 130, 6, 1, 4, 5, 7, 0)
"""Exit statuses of the program: what could not be tried outweighs what failed, that what is undecided."""

_ESCAPES: Final = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY_ESCAPES: Final = _ESCAPES | {":": "%3A", ",": "%2C"}


def main(arguments: Sequence[str]) -> int:
    """The worst exit status of all files."""
    options = _parser().parse_args(arguments)
    statuses = [status for file in options.files for status in _run(file, options)]
    return next(status for status in WORST_FIRST if status in {*statuses, 0})


def annotation(level: str, file: Path, title: str, message: str) -> str:
    """A line that GitHub shows at the file: https://docs.github.com/actions, workflow commands.

    Args:
        level: `error` or `warning`.
        file: the scenario or campaign.
        title: in words.
        message: in words, also of several lines.
    """
    where = f"file={_escaped(str(file), _PROPERTY_ESCAPES)},title={_escaped(title, _PROPERTY_ESCAPES)}"
    return f"::{level} {where}::{_escaped(message, _ESCAPES)}"


def annotations(file: Path, document: Mapping[str, Any]) -> Iterator[str]:
    """A line for each expectation that did not hold, and for each run that came to no verdict.

    Args:
        file: the scenario or campaign.
        document: RunReport or CampaignSummary of the program.
    """
    manifest = document.get("manifest")
    for run in document["runs"] if manifest is None else [manifest | {"key": manifest["scenario"]}]:
        if run["status"] == "untrusted":
            yield annotation("warning", file, f"{run['key']}: UNTRUSTED", run["reason"])
        elif run["status"] not in ("passed", "failed"):
            yield annotation("error", file, f"{run['key']}: {run['status']}", run["reason"])
        else:
            for each in run["expectations"]:
                if not each["passed"] or each["outcome"] == "cannot tell":
                    level = "warning" if each["outcome"] == "cannot tell" else "error"
                    yield annotation(level, file, f"{run['key']}: {each['text']}", each["reason"])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="Scenario or Campaign file.")
    parser.add_argument("--virtual", action="store_true", help="In virtual time: exact, without root.")
    parser.add_argument("--retry-untrusted", metavar="N", default="0", help="Without --virtual. (default: 0)")
    parser.add_argument("--baseline", metavar="FILE", type=Path, help="Hold the campaign among FILEs to it.")
    parser.add_argument("--tolerance", metavar="SHARE", default="2%", help="(default: 2%%)")
    parser.add_argument(
        "--out", metavar="FOLDER", type=Path, default=Path("results"), help="(default: results)"
    )
    return parser


def _run(file: Path, options: argparse.Namespace) -> Iterator[int]:
    is_campaign = _kind(file) == "Campaign"
    words = ["campaign", "run"] if is_campaign else ["run"]
    words += [str(file), "--campaigns" if is_campaign else "--runs", str(options.out)]
    words += ["--virtual"] if options.virtual else ["--retry-untrusted", options.retry_untrusted]
    status, document = _program(words)
    if document is not None:
        folder = Path(document["folder"])
        _summarize((folder / "summary.md").read_text(encoding="utf-8"))
        for line in annotations(file, document):
            print(line)
    yield status
    if is_campaign and options.baseline is not None and document is not None:
        yield _check(file, Path(document["folder"]), options)


def _check(file: Path, campaign: Path, options: argparse.Namespace) -> int:
    status, document = _program(
        [
            "campaign",
            "check",
            str(campaign),
            "--baseline",
            str(options.baseline),
            "--tolerance",
            options.tolerance,
        ]
    )
    found = [] if document is None else document["findings"]
    outside = [finding for finding in found if finding["outcome"] in ("worse", "gone", "cannot tell")]
    for finding in outside:
        level = "warning" if finding["outcome"] == "cannot tell" else "error"
        ratio = "" if finding["ratio"] is None else f", {finding['ratio']:.3f} of the baseline"
        message = f"{finding['figure'] or 'the cell'}{ratio}; {finding['certainty']}"
        print(annotation(level, file, f"{finding['cell']}: {finding['outcome']}", message))
    _summarize(
        f"{len(found) - len(outside)} of {len(found)} figures within {options.tolerance} of the baseline.\n"
    )
    return status


def _program(words: Sequence[str]) -> tuple[int, Mapping[str, Any] | None]:
    """Exit status and document of a command; its progress and its errors go where ours go."""
    finished = subprocess.run([PROGRAM, *words, "-o", "json"], stdout=subprocess.PIPE, text=True, check=False)
    return finished.returncode, json.loads(finished.stdout) if finished.stdout.strip() else None


def _kind(file: Path) -> str | None:
    """Kind that the file declares; None leaves the message about it to the program."""
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return None
    return found.get("kind") if isinstance(found, dict) else None


def _summarize(text: str) -> None:
    """Adds Markdown to the summary of the job, or prints it where there is none."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if path is None:
        print(text)
    else:
        with Path(path).open("a", encoding="utf-8") as summary:
            summary.write(f"{text}\n")


def _escaped(text: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
