"""From a file, a text or a mapping to a definition, with everything that is wrong with it said at once.

A document is parsed, put into today's form (`foreign`, `legacy`), held against the models (`form`) and
judged by rules (`lint`): by all of them when it is checked, by those that find errors when it is loaded.
Loading runs nothing, imports nothing and fetches nothing; `read` is the only function here that opens a
file.
"""

from __future__ import annotations

import codecs
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from llm_fsm import form, source
from llm_fsm.codes import finding, step, steps
from llm_fsm.definition import Definition
from llm_fsm.errors import DefinitionError
from llm_fsm.findings import Finding
from llm_fsm.foreign import rewrite
from llm_fsm.legacy import Upgraded, upgrade
from llm_fsm.lint.ignores import read_ignores
from llm_fsm.lint.rules import BY_NAME, RULES
from llm_fsm.lint.subject import FlowReader, Placed, Subject, TemplateFault
from llm_fsm.source import MAX_DEPTH
from llm_fsm.templates import template_fault

MAX_BYTES = 10_000_000
"""The most that a definition file may hold."""
_MAX_INT = 2**63

_WIDE = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A definition that can be used, and what was noticed on the way (warnings and notes), in file order.

    `check` says more: loading runs only the rules that find errors.
    """

    definition: Definition
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Court:
    """How a document is judged. `loading`: for use, so that rules which find no errors may be left out."""

    file: str | None = None
    template: TemplateFault = template_fault
    token_budget: int | None = None
    flow: FlowReader | None = None
    loading: bool = False


def load(path: str | os.PathLike[str]) -> Definition:
    """The definition of a file. Raises DefinitionError with all findings if one of them is an error."""
    return load_text(read(path), file=os.fspath(path)).definition


def load_text(text: str, *, file: str | None = None, template: TemplateFault = template_fault) -> Loaded:
    """The definition of a JSON text; comments and trailing commas are accepted.

    `file` is the name that findings carry. `template` tells why a fixed reply does not compile.
    Raises DefinitionError with all findings if one of them is an error.
    """
    return _loaded(*_examine_text(text, _Court(file=file, template=template, loading=True)))


def load_dict(
    document: Mapping[str, Any], *, file: str | None = None, template: TemplateFault = template_fault
) -> Loaded:
    """The definition of a mapping, as `load_text`; findings have pointers and no positions."""
    return _loaded(*_examine_value(document, _Court(file=file, template=template, loading=True)))


def check(
    what: str | os.PathLike[str] | Mapping[str, Any],
    *,
    template: TemplateFault = template_fault,
    token_budget: int | None = None,
) -> list[Finding]:
    """Everything there is to say about a file (given by its path) or a mapping, sorted by position.

    `token_budget`: the most that a state's prompt may take, in tokens, where the document sets none.
    """
    if not isinstance(what, str | os.PathLike):
        return _examine_value(what, _Court(template=template, token_budget=token_budget))[1]
    name = os.fspath(what)
    try:
        text = read(what)
    except DefinitionError as error:
        return list(error.findings)
    flow = partial(_read_flow, name)
    return _examine_text(text, _Court(file=name, template=template, token_budget=token_budget, flow=flow))[1]


def check_data(data: bytes, *, file: str, token_budget: int | None = None) -> list[Finding]:
    """As `check`, for the bytes of a file that stands nowhere; other files that it names are not looked at."""
    try:
        text = _decoded(data, file)
    except DefinitionError as error:
        return list(error.findings)
    return _examine_text(text, _Court(file=file, token_budget=token_budget))[1]


def read(path: str | os.PathLike[str]) -> str:
    """The text of a file of at most 10 MB in UTF-8. Raises DefinitionError with one finding."""
    name = os.fspath(path)
    try:
        with Path(name).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except IsADirectoryError as error:
        raise _refused(name, "unreadable-file", "this is a directory", "name one JSON file in it") from error
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise _refused(name, "unreadable-file", f"the file cannot be read: {reason}") from error
    return _decoded(data, name)


def _read_flow(file: str, path: str, named_in: str | None) -> tuple[str, Mapping[str, Any] | None]:
    """The document that a subflow names, by a path relative to the file that names it."""
    place = os.path.normpath(Path(named_in or file).parent / path)
    try:
        document = source.parse(read(place))
    except (DefinitionError, source.SourceError):
        return place, None
    return place, document if isinstance(document, dict) else None


def _decoded(data: bytes, name: str) -> str:
    if len(data) > MAX_BYTES:
        message = f"the file is larger than {MAX_BYTES // 1_000_000} MB, the most that a definition may be"
        raise _refused(name, "too-large", message)
    for mark, encoding in _WIDE:
        if data.startswith(mark):
            raise _refused(name, "not-utf8", f"the file is encoded in {encoding}", "save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        offset = error.start + (len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0)
        before = data[:offset]
        message = f"byte 0x{data[offset]:02x} at offset {offset} is not UTF-8"
        [found] = _refused(name, "not-utf8", message, "save the file as UTF-8").findings
        line = before.count(b"\n") + 1
        column = len(before.rpartition(b"\n")[2].decode("utf-8-sig", "replace")) + 1
        raise DefinitionError([replace(found, line=line, column=column)]) from error


def _refused(file: str, name: str, message: str, hint: str | None = None) -> DefinitionError:
    return DefinitionError([replace(finding(name, message, hint=hint), file=file)])


def _loaded(definition: Definition | None, findings: Sequence[Finding]) -> Loaded:
    if definition is None or any(found.level == "error" for found in findings):
        raise DefinitionError(findings)
    return Loaded(definition, tuple(findings))


Examined = tuple[Definition | None, list[Finding]]


def _examine_text(text: str, court: _Court) -> Examined:
    file = court.file
    if not text.strip("\ufeff \t\r\n"):
        empty = finding("empty-file", "the file is empty", hint="a definition is one JSON object")
        return None, [replace(empty, file=file)]
    try:
        scan = source.scan(text)
    except source.SourceError as error:
        bad = finding("bad-json", error.message, hint=error.hint)
        return None, [replace(bad, file=file, line=error.line, column=error.column)]
    definition, findings = _examine(scan.value, court)
    duplicates = [_duplicate(found) for found in scan.duplicates]
    placed = [*duplicates, *(_placed(found, scan) for found in findings)]
    placed = [replace(found, file=file) for found in placed]
    return definition, sorted(placed, key=lambda found: (found.line or 0, found.column or 0))


def _duplicate(found: source.Duplicate) -> Finding:
    """Two values for one key: the author cannot know which one counts."""
    key = json.dumps(found.key[:80], ensure_ascii=False)
    message = f"the key {key} stands here a second time, first in line {found.first.line}"
    duplicate = finding("duplicate-key", message, pointer=found.pointer, hint="keep one of them")
    return replace(duplicate, line=found.position.line, column=found.position.column)


def _placed(found: Finding, scan: source.Scan) -> Finding:
    at_key = BY_NAME[found.name].at_key
    place = scan.key_position(found.pointer) if at_key else scan.position(found.pointer)
    return replace(found, line=place.line, column=place.column)


def _examine_value(document: object, court: _Court) -> Examined:
    definition, findings = _examine(document, court)
    placed = [replace(found, file=court.file) for found in findings]
    return definition, sorted(placed, key=lambda found: _order(document, found.pointer))


def _examine(value: object, court: _Court) -> Examined:
    """The definition, if the form allows one, and all findings; pointers are those of `value`."""
    try:
        plain = _Plain([]).of(value)
    except _NotPlainError as error:
        return None, [error.finding]
    if not isinstance(plain, dict):
        message = f"a definition is one JSON object, not {form.describe(plain)}"
        return None, [finding("not-a-definition", message)]
    stem = Path(court.file).stem if court.file else None
    upgraded = upgrade(plain, partial(rewrite, stem=stem))
    formed = form.examine(upgraded.document)
    found = [*upgraded.findings, *_written(formed.findings, upgraded)]
    subject = Subject(Placed("", formed.document), court.file, court.template, court.token_budget, court.flow)
    sound = formed.definition is not None
    found += _written(_judged(subject, sound, grave=True), upgraded)
    ignores = read_ignores(plain)
    if court.loading and not any(one.level == "error" for one in found):
        return formed.definition, ignores.kept(found)
    found += _written(_judged(subject, sound, grave=False), upgraded)
    return formed.definition, [*ignores.kept(found), *ignores.remarks(found)]


def _judged(subject: Subject, sound: bool, *, grave: bool) -> Iterator[Finding]:
    """The findings of the rules that find errors, or of the others. `sound`: the form has no errors."""
    for rule in RULES:
        if (rule.level == "error") == grave and (sound or not rule.needs_form):
            yield from rule.check(subject)


def _written(findings: Iterable[Finding], upgraded: Upgraded) -> list[Finding]:
    """Findings about today's form, with the pointers of the document as written."""
    return [replace(found, pointer=upgraded.origin(found.pointer)) for found in findings]


class _NotPlainError(Exception):
    """A value that no definition may hold, with the finding about it."""

    def __init__(self, found: Finding) -> None:
        self.finding = found
        super().__init__(found.message)


@dataclass(frozen=True, slots=True)
class _Plain:
    """A copy of a document as plain JSON values; `path` is where the copying is. Raises _NotPlainError."""

    path: list[str | int]

    def of(self, value: object) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int | float):
            return self.number(value)
        if len(self.path) > MAX_DEPTH:
            raise self.fault("too-deep", f"lists and objects are nested deeper than {MAX_DEPTH} levels")
        if isinstance(value, Mapping):
            return {self.key(name): self.at(name, item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.at(index, item) for index, item in enumerate(value)]
        raise self.fault("not-json", f"a value of type {type(value).__name__} has no place in JSON")

    def at(self, name: str | int, item: object) -> Any:
        self.path.append(name)
        plain = self.of(item)
        self.path.pop()
        return plain

    def key(self, name: object) -> str:
        if isinstance(name, str):
            return self.text(name)
        raise self.fault("not-json", f"the keys of an object are text, not {type(name).__name__}")

    def text(self, value: str) -> str:
        if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            raise self.fault("bad-text", "a text holds half of a surrogate pair, which is not a character")
        return str(value)

    def number(self, value: float) -> int | float:
        if isinstance(value, int):
            if abs(value) > _MAX_INT:
                raise self.fault("bad-number", "a whole number does not fit in 64 bits")
        elif not math.isfinite(value):
            raise self.fault("bad-number", "a number is not finite, or too large")
        return value

    def fault(self, name: str, message: str) -> _NotPlainError:
        return _NotPlainError(finding(name, message, pointer="".join(step(part) for part in self.path)))


def _order(document: object, pointer: str) -> tuple[int, ...]:
    """The place of a pointer in the order of a document."""
    order = []
    for part in steps(pointer):
        if isinstance(document, Mapping) and part in document:
            order.append(list(document).index(part))
            document = document[part]
        elif isinstance(document, list | tuple) and part.isdecimal() and int(part) < len(document):
            order.append(int(part))
            document = document[int(part)]
        else:
            break
    return tuple(order)
