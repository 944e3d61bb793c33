"""How tests went, as text, as JSON, as JUnit's XML and for GitHub."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from html import escape
from typing import Any

from llm_fsm.cli.terminal import escape as printing
from llm_fsm.lint.report.formats import annotation
from llm_fsm.testing.scenarios.problems import Fault
from llm_fsm.testing.scenarios.results import Failure, Result
from llm_fsm.testing.scenarios.session import FileResult

_NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SHOWN = 100
_MARKS = {"passed": ".", "failed": "F", "skipped": "s"}


def counts(files: Sequence[FileResult]) -> dict[str, int]:
    """How many cases passed, failed and were skipped, how many files cannot be used, how many warnings there are."""
    states = [status(result) for found in files for result in found.results]
    numbers = {name: states.count(name) for name in ("passed", "failed", "skipped")}
    warned = sum(len(found.warnings) for found in files)
    return {**numbers, "errors": sum(bool(found.faults) for found in files), "warnings": warned}


def status(result: Result) -> str:
    """passed, failed or skipped."""
    return "skipped" if result.skipped is not None else "passed" if result.passed else "failed"


def text(files: Sequence[FileResult], seconds: float) -> str:
    """A line a file, then what failed and how the conversation went there, then the count."""
    lines = [line for found in files for line in (_marks(found), *_rates(found))]
    for found in files:
        lines += [f"\nERROR {printing.one_line(found.file)}"] if found.faults else []
        lines += [f"  {printing.one_line(str(fault))}" for fault in found.faults]
        lines += [
            line for result in found.results if not result.passed for line in _failed(found.file, result)
        ]
    noticed = [f"  {printing.one_line(str(warning))}" for found in files for warning in found.warnings]
    blocks = [*lines, *(["", *noticed] if noticed else []), *([""] if lines else [])]
    return "\n".join((*blocks, summary(files, seconds)))


def _marks(found: FileResult) -> str:
    marks = "".join(_MARKS[status(result)] for result in found.results)
    return f"{printing.one_line(found.file)} {'E' if found.faults else ''}{marks}"


def _rates(found: FileResult) -> Iterator[str]:
    """How often each case passed, where it was played more than once."""
    for result in found.results:
        if result.runs != 1:
            share = f"{result.passes} of {result.runs}"
            yield f"  {share:>9}  {result.passes / result.runs:>4.0%}  {printing.one_line(result.name)}"


def _failed(file: str, result: Result) -> Iterator[str]:
    rate = "" if result.runs == 1 else f" ({result.passes} of {result.runs} runs passed)"
    yield f"\nFAILED {printing.one_line(file)}:{result.line} {printing.one_line(result.name)}{rate}"
    for failure in result.failures:
        yield f"  {_place(file, failure)}: {printing.one_line(failure.step)}: {printing.one_line(failure.message)}"
    for said in result.said:
        if said.heard is not None:
            yield f"    user  {printing.shortened(said.heard, _SHOWN)}"
        if said.text or said.heard is not None:
            yield f"    bot   {printing.shortened(said.text, _SHOWN)}  [{printing.one_line(said.state)}]"


def _place(file: str, failure: Failure) -> str:
    return f"{printing.one_line(file)}:{failure.line}:{failure.column}"


def summary(files: Sequence[FileResult], seconds: float) -> str:
    """The count in one line."""
    numbers = counts(files)
    shown = ("failed", "errors", "passed", "skipped", "warnings")
    named = {name: name[:-1] for name in ("errors", "warnings") if numbers[name] == 1}
    parts = [f"{numbers[name]} {named.get(name, name)}" for name in shown if numbers[name]]
    return f"{', '.join(parts) or 'no tests'} in {seconds:.2f} s"


def as_json(files: Sequence[FileResult], seconds: float) -> str:
    """Everything, as one object."""
    document: dict[str, Any] = {
        "files": [
            {
                "file": found.file,
                "errors": [asdict(fault) for fault in found.faults],
                "warnings": [asdict(warning) for warning in found.warnings],
                "cases": [_case(result) for result in found.results],
            }
            for found in files
        ],
        **counts(files),
        "seconds": round(seconds, 3),
    }
    return printing.as_json(document)


def _case(result: Result) -> dict[str, Any]:
    return {
        "name": result.name,
        **({"line": result.line} if result.line else {}),
        "status": status(result),
        "seconds": round(result.seconds, 6),
        "failures": [asdict(failure) for failure in result.failures],
        "said": [asdict(said) for said in result.said],
        **({"skipped": result.skipped} if result.skipped is not None else {}),
        **({"runs": result.runs, "passes": result.passes} if result.runs != 1 else {}),
    }


def github(files: Sequence[FileResult], seconds: float) -> str:
    """Workflow commands, which GitHub shows beside the lines of a change, and the count."""
    lines = [
        _command(fault, fault.file or found.file, "test file", str(fault))
        for found in files
        for fault in (*found.faults, *found.warnings)
    ]
    lines += [
        _command(failure, found.file, result.name, f"{failure.step}: {failure.message}")
        for found in files
        for result in found.results
        if not result.passed
        for failure in result.failures
    ]
    return "\n".join((*lines, summary(files, seconds)))


def _command(place: Fault | Failure, file: str, title: str, words: str) -> str:
    one_line = printing.one_line
    where = {"file": one_line(file), "line": place.line, "col": place.column, "title": one_line(title)}
    return annotation(place.level if isinstance(place, Fault) else "error", where, one_line(words))


def junit(files: Sequence[FileResult], seconds: float) -> str:
    """JUnit's XML: a suite for each file."""
    numbers = counts(files)
    total = sum(len(found.results) for found in files) + numbers["errors"]
    head = f'name="llm-fsm test" tests="{total}" failures="{numbers["failed"]}" errors="{numbers["errors"]}"'
    suites = "".join(_suite(found) for found in files)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites {head} skipped="{numbers["skipped"]}" time="{seconds:.3f}">\n{suites}</testsuites>'
    )


def _suite(found: FileResult) -> str:
    numbers, file = counts([found]), _xml(found.file)
    cases = "".join(_testcase(found.file, result) for result in found.results)
    if found.faults:
        words = _xml("\n".join(str(fault) for fault in found.faults))
        message = _xml(found.faults[0].message)
        error = f'<error message="{message}">{words}</error>'
        cases += f'    <testcase classname="{file}" name="file">\n      {error}\n    </testcase>\n'
    time = sum(result.seconds for result in found.results)
    head = f'name="{file}" tests="{len(found.results) + bool(found.faults)}" failures="{numbers["failed"]}"'
    if found.warnings:
        cases += f"    <system-out>{_xml(chr(10).join(map(str, found.warnings)))}</system-out>\n"
    return (
        f'  <testsuite {head} errors="{numbers["errors"]}" skipped="{numbers["skipped"]}" time="{time:.3f}">\n'
        f"{cases}  </testsuite>\n"
    )


def _testcase(file: str, result: Result) -> str:
    head = f'    <testcase classname="{_xml(file)}" name="{_xml(result.name)}" time="{result.seconds:.3f}"'
    if result.skipped is not None:
        return f'{head}>\n      <skipped message="{_xml(result.skipped)}"/>\n    </testcase>\n'
    if result.passed:
        return f"{head}/>\n"
    words = "\n".join(f"{_place(file, item)}: {item.step}: {item.message}" for item in result.failures)
    first = result.failures[0].message if result.failures else "too few runs passed"
    return f'{head}>\n      <failure message="{_xml(first)}">{_xml(words)}</failure>\n    </testcase>\n'


def _xml(value: str) -> str:
    return escape(_NOT_IN_XML.sub("\ufffd", printing.words(value))).replace("\n", "&#10;")


FORMATS: Mapping[str, Callable[[Sequence[FileResult], float], str]] = {
    "text": text,
    "json": as_json,
    "junit": junit,
    "github": github,
}
"""Name of a format to what makes it."""
