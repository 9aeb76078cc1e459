"""Words of ours that have a term in the field: python -m tests.prose [PATH ...].

Reads words.txt (every file) and words_c.txt (C), in the format of codespell's dictionaries:
`word->replacement`. A word stands for identifiers too: `hand on` is found in hand_on(), handOn and "to
hand on"; `is_by_hand` with its underscore only in identifiers. Without PATH all files that git tracks are
read. Comments and docstrings must name functions that exist, and begin with the subject: sentences.py.
Measured quantities have one name and one unit: quantities.py.
"""

import argparse
import sys

from tests.prose.quantities import quantities
from tests.prose.sentences import beginnings, names_that_are_gone
from tests.prose.words import ROOT, Finding, Words, tracked_files


def main() -> None:
    """Print the findings, one line each; exit with status 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m tests.prose", description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files or folders (default: all)")
    words = Words.read()
    findings: list[Finding] = []
    for path in tracked_files(parser.parse_args().paths):
        text = (ROOT / path).read_text(encoding="utf-8")
        findings += [*words.find(path, text), *names_that_are_gone(path, text), *beginnings(path, text)]
        findings += quantities(path, text)
    sys.stdout.writelines(f"{finding}\n" for finding in findings)
    if findings:
        sys.exit(f"{len(findings)} to replace; docs/explanation/vocabulary.md explains words that stay")


if __name__ == "__main__":
    main()
