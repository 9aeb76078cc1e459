"""Words of ours that have a term in the field: python -m tests.prose [--pending] [PATH ...].

Reads words.txt (every file) and words_c.txt (C), in the format of codespell's dictionaries:
`word->replacement`. A word stands for identifiers too: `hand on` is found in hand_on(), handOn and "to
hand on"; `is_by_hand` with its underscore only in identifiers. Without PATH all files that git tracks are
read. pending.txt says what is not clean yet, `PATTERN` or `WORD PATTERN` a line; --pending shows that too.
"""

import argparse
import sys

from tests.prose.words import ROOT, Finding, Words, excuses, read_pending, tracked_files


def main() -> None:
    """Prints what was found, one line each; status 1 if anything was."""
    parser = argparse.ArgumentParser(prog="python -m tests.prose", description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files or folders (default: all)")
    parser.add_argument("--pending", action="store_true", help="what pending.txt excuses too")
    arguments = parser.parse_args()
    words, pending = Words.read(), read_pending()
    findings: list[Finding] = []
    clean = set(pending)
    for path in tracked_files(arguments.paths):
        for finding in words.find(path, (ROOT / path).read_text(encoding="utf-8")):
            excused_by = excuses(finding, pending)
            clean -= excused_by
            if arguments.pending or not excused_by:
                findings.append(finding)
    sys.stdout.writelines(f"{finding}\n" for finding in findings)
    if not arguments.paths and clean:
        sys.exit(f"tests/prose/pending.txt: clean by now, remove: {'; '.join(sorted(clean))}")
    if findings:
        sys.exit(f"{len(findings)} words to replace; docs/explanation/vocabulary.md explains those that stay")


if __name__ == "__main__":
    main()
