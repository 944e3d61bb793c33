"""Findings as a SARIF log (OASIS, Static Analysis Results Interchange Format, 2.1.0)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

from llm_fsm import __version__
from llm_fsm._json import JsonDict
from llm_fsm.errors import Finding, Place, hinted
from llm_fsm.lint.docs import Page, pages

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')


def sarif(findings: Sequence[Finding], files: Sequence[str]) -> JsonDict:
    """Return the log of one run. It describes every rule and lists `files` as checked."""
    every = pages()
    index = {page.rule.name: number for number, page in enumerate(every)}
    driver = {
        "name": "llm-fsm",
        "semanticVersion": __version__,
        "rules": [_rule(page) for page in every],
    }
    prints = _fingerprints(findings)
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "artifacts": [{"location": {"uri": uri(name)}} for name in files],
        "results": [
            _result(found, index[found.name], mark)
            for found, mark in zip(findings, prints, strict=True)
        ],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def uri(path: str) -> str:
    """Return a path as a URI reference (RFC 3986). Relative paths stay relative."""
    forward = path.replace("\\", "/").removeprefix("./")
    quoted = quote(forward.encode("utf-8", "surrogateescape"))
    if quoted.startswith("/"):
        return f"file://{quoted}"
    return quoted


def _rule(page: Page) -> JsonDict:
    rule = page.rule
    words = f"{page.why}\n\nFix: {page.fix}"
    return {
        "id": rule.code,
        "name": "".join(part.capitalize() for part in rule.name.split("-")),
        "shortDescription": {"text": f"{rule.name}: {_line(page.summary)}"},
        "fullDescription": {"text": f"{_line(page.summary)} {_line(page.why)}"},
        "help": {"text": words, "markdown": f"{words}\n\n```\n{page.example}\n```"},
        "defaultConfiguration": {"level": _LEVELS[rule.level]},
        "properties": {"tags": [rule.name]},
    }


def _line(text: str) -> str:
    return " ".join(text.split())


def _result(found: Finding, index: int, mark: str) -> JsonDict:
    words = hinted(found.message, found.hint)
    result: JsonDict = {
        "ruleId": found.code,
        "ruleIndex": index,
        "level": _LEVELS[found.level],
        "message": {"text": words},
        "locations": [_location(found.file, Place(found.pointer, found.line, found.column))],
        "partialFingerprints": {"llmFsmFinding/v1": mark},
    }
    if found.path:
        result["codeFlows"] = [_flow(found)]
    return result


def _location(file: str | None, place: Place, message: str | None = None) -> JsonDict:
    physical: JsonDict = {"artifactLocation": {"uri": uri(file or "definition.json")}}
    if place.line is not None:
        physical["region"] = {"startLine": place.line, "startColumn": place.column or 1}
    location: JsonDict = {"physicalLocation": physical}
    if place.pointer:
        location["logicalLocations"] = [{"fullyQualifiedName": place.pointer, "kind": "member"}]
    if message is not None:
        location["message"] = {"text": message}
    return location


def _flow(found: Finding) -> JsonDict:
    """Return the path of states. Each step has the place and the id of its state."""
    places = found.where or [Place(found.pointer, found.line, found.column)] * len(found.path)
    steps = [
        {"location": _location(found.file, place, f"state {name}")}
        for name, place in zip(found.path, places, strict=True)
    ]
    return {"threadFlows": [{"locations": steps}], "message": {"text": " → ".join(found.path)}}


def _fingerprints(findings: Iterable[Finding]) -> list[str]:
    """Return marks that stay if lines move or lists grow: rule, file, place, names in the message.

    A mark is a name-based UUID (RFC 9562). The place is the pointer without the positions in lists.
    Equal marks are numbered in order.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    marks = []
    for found in findings:
        place = "/".join("*" if part.isdecimal() else part for part in found.pointer.split("/"))
        document = (found.name, uri(found.file or ""), place, *_QUOTED.findall(found.message))
        seen[document] += 1
        text = "\x1f".join((*document, str(seen[document])))
        marks.append(uuid5(NAMESPACE_URL, ascii(text)).hex)
    return marks
