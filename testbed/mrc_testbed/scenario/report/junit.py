"""junit.xml, as CI systems read it: of a run, and the parts that one of a campaign is made of. Pure."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from xml.etree import ElementTree as ET

from mrc_testbed.scenario.measure.expectation import Answer
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.report.result import RunResult


@dataclass(frozen=True, slots=True)
class Case:
    """A test case."""

    suite: str  # name of its class
    name: str  # its own
    outcome: Literal["failure", "error", "skipped"] | None = None  # None when it passed
    message: str = ""  # why it did not
    kind: str = ""  # of the failure or error; empty for a skipped case
    text: str = ""  # more than the message; empty for none
    time: str = ""  # s, as text; empty where it is not known


def build_junit(result: RunResult) -> str:
    """junit.xml: the scenario is the suite, each expectation a case, its reason the text of a failure.

    There is one more case, `run`: in error when the run ended early. What is not to be trusted has neither
    passed nor failed: the case of such a run is skipped, and so is each expectation that is not certain.
    """
    verdict, name = result.verdict, result.plan.scenario
    seconds = f"{result.duration_ns / 1e9:.3f}"
    run = Case(name, "run", time=seconds)
    if verdict.status is Status.UNTRUSTED:
        run = replace(run, outcome="skipped", message=f"UNTRUSTED: {verdict.reason}")
    elif verdict.status not in (Status.PASSED, Status.FAILED):
        text = "\n".join([verdict.reason, *verdict.untrusted])
        run = replace(run, outcome="error", message=verdict.reason, kind=verdict.status.value, text=text)
    cases = [
        expectation_case(Case(name, each.text, time="0"), each.answer, each.reason)
        for each in verdict.outcomes
    ]
    started = result.started.strftime("%Y-%m-%dT%H:%M:%S")
    return junit_text([junit_suite(name, [run, *cases], time=seconds, timestamp=started)])


def expectation_case(case: Case, answer: Answer, reason: str) -> Case:
    """*case* with the outcome of its expectation."""
    match answer:
        case "held":
            return case
        case "failed":
            return replace(case, outcome="failure", message=reason, kind="expectation", text=reason)
        case "cannot tell":
            return replace(case, outcome="skipped", message=f"UNTRUSTED: {reason}")


def junit_suite(suite_name: str, cases: Sequence[Case], **attributes: str) -> ET.Element:
    """A suite with the numbers of its failures, errors and skipped cases.

    CI systems join cases of one name: those after the first get a number.
    """
    outcomes = [case.outcome for case in cases]
    counts = {
        "tests": str(len(cases)),
        "failures": str(outcomes.count("failure")),
        "errors": str(outcomes.count("error")),
        "skipped": str(outcomes.count("skipped")),
    }
    suite = ET.Element("testsuite", {"name": printable(suite_name), **counts, **attributes})
    names = Counter[str]()
    for case in cases:
        names[case.name] += 1
        name = case.name if names[case.name] == 1 else f"{case.name} ({names[case.name]})"
        time = {"time": case.time} if case.time else {}
        named = {"classname": printable(case.suite), "name": printable(name), **time}
        element = ET.SubElement(suite, "testcase", named)
        if case.outcome is not None:
            kind = {"type": case.kind} if case.kind else {}
            found = ET.SubElement(element, case.outcome, {**kind, "message": printable(case.message)})
            found.text = printable(case.text) or None
    return suite


def junit_text(suites: Iterable[ET.Element], attributes: Mapping[str, str] | None = None) -> str:
    """The file of these suites."""
    root = ET.Element("testsuites", dict(attributes or {}))
    root.extend(suites)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def printable(text: str) -> str:
    """*text* without control characters, which XML 1.0 cannot hold in any form."""
    return "".join(
        character if character == "\n" or unicodedata.category(character) not in ("Cc", "Cs") else "\ufffd"
        for character in text
    )
