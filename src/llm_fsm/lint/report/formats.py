"""Findings as text, as JSON, for GitHub, as SARIF and as JUnit's XML. All functions use plain
values.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from llm_fsm._text import visible
from llm_fsm.errors import NO_FILE, Finding, hinted
from llm_fsm.lint.facts.suggestions import route
from llm_fsm.lint.report.sarif import sarif

Format = Callable[[Sequence[Finding], Sequence[str]], str]
"""A function that makes a report of findings and the names of all checked files; "" prints
nothing.
"""

_NOT_IN_JSON = "[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
_NOT_IN_XML = "[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
_GITHUB_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


def text(findings: Sequence[Finding], _files: Sequence[str]) -> str:
    """Write one finding a line, with the path of states that shows it below."""
    return "\n".join(_lines(found) for found in findings)


def _lines(found: Finding) -> str:
    way = f"\n    path: {visible(route(found.path))}" if found.path else ""
    return visible(str(found)) + way


def as_json(document: object) -> str:
    """Return a document as indented JSON, with escapes for characters that cannot be shown."""
    plain = json.dumps(document, ensure_ascii=False, indent=2)
    return re.sub(_NOT_IN_JSON, lambda found: f"\\u{ord(found[0]):04x}", plain)


def findings_json(findings: Sequence[Finding], _files: Sequence[str]) -> str:
    """`{"findings": [Finding, …]}`."""
    return as_json({"findings": [found.to_dict() for found in findings]})


def sarif_json(findings: Sequence[Finding], files: Sequence[str]) -> str:
    """SARIF 2.1.0."""
    return as_json(sarif(findings, files))


def github(findings: Sequence[Finding], _files: Sequence[str]) -> str:
    """Write workflow commands, which GitHub shows beside the lines of a change."""
    return "\n".join(_command(found) for found in findings)


def _command(found: Finding) -> str:
    place = {"file": found.file, "line": found.line, "col": found.column}
    place["title"] = f"{found.name} {found.code}"
    words = hinted(found.message, found.hint)
    way = f"\npath: {route(found.path)}" if found.path else ""
    return annotation(_GITHUB_LEVELS[found.level], place, words + way)


def annotation(level: str, place: Mapping[str, object], words: str) -> str:
    """Return a workflow command of GitHub: a text beside a place, without the parts of the place
    that are None.
    """
    shown = ",".join(
        f"{key}={_property(str(value))}" for key, value in place.items() if value is not None
    )
    return f"::{level} {shown}::{_data(words)}"


def _data(value: str) -> str:
    return _visible_but_breaks(value).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")


def _visible_but_breaks(value: str) -> str:
    return "\n".join(visible(line) for line in value.split("\n"))


def junit(findings: Sequence[Finding], files: Sequence[str]) -> str:
    """Write JUnit's XML: a suite for each file, a case for each finding. A clean file is one case
    that passes.

    Notes are cases that pass with an output.
    """
    shown = list(dict.fromkeys([*files, *(found.file or NO_FILE for found in findings)]))
    by_file: dict[str, list[Finding]] = {name: [] for name in shown}
    for found in findings:
        by_file[found.file or NO_FILE].append(found)
    failed = sum(found.level != "info" for found in findings)
    suites = "".join(_suite(name, inside) for name, inside in by_file.items())
    count = sum(max(1, len(inside)) for inside in by_file.values())
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites name="llm-fsm validate" tests="{count}" failures="{failed}"'
        f' errors="0">\n{suites}</testsuites>'
    )


def _suite(file: str, findings: Sequence[Finding]) -> str:
    failed = sum(found.level != "info" for found in findings)
    cases = "".join(_case(file, found) for found in findings)
    cases = cases or f'    <testcase classname="{_xml(file)}" name="definition"/>\n'
    head = f'name="{_xml(file)}" tests="{max(1, len(findings))}" failures="{failed}" errors="0"'
    return f"  <testsuite {head}>\n{cases}  </testsuite>\n"


def _case(file: str, found: Finding) -> str:
    place = "" if found.line is None else f" {found.line}:{found.column}"
    head = f'    <testcase classname="{_xml(file)}" name="{_xml(found.name)} {found.code}{place}">'
    words = _xml(_lines(found))
    if found.level == "info":
        return f"{head}\n      <system-out>{words}</system-out>\n    </testcase>\n"
    failure = f'<failure type="{found.level}" message="{_xml(found.message)}">{words}</failure>'
    return f"{head}\n      {failure}\n    </testcase>\n"


def _xml(value: str) -> str:
    plain = re.sub(_NOT_IN_XML, "\ufffd", _visible_but_breaks(value))
    for char, entity in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ('"', "&quot;"),
        ("\n", "&#10;"),
    ):
        plain = plain.replace(char, entity)
    return plain


def statistics(findings: Iterable[Finding]) -> str:
    """Return the number of findings by rule, the most frequent first."""
    counted = Counter((found.name, found.code, found.level) for found in findings)
    rows = sorted(counted.items(), key=lambda row: (-row[1], row[0][1]))
    return "\n".join(
        f"{number:6,}  {level:7}  {name} {code}" for (name, code, level), number in rows
    )


FORMATS: Mapping[str, Format] = MappingProxyType(
    {"text": text, "json": findings_json, "github": github, "sarif": sarif_json, "junit": junit}
)
"""Name of a format to its function."""
