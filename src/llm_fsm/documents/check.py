"""Check a document, without making it ready to run.

A document is parsed, upgraded to today's form (`foreign`, `legacy`), and validated by the published
schema. Then the rules of `lint` run: all of them for a check, only those that find errors for
loading. Nothing is run, imported or fetched.
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

from llm_fsm._json import JsonMap, json_text, places_of, step
from llm_fsm.definition import json_source as source
from llm_fsm.definition import validation as form
from llm_fsm.definition.codes import finding
from llm_fsm.definition.compat.foreign import rewrite
from llm_fsm.definition.compat.legacy import Upgraded, upgrade
from llm_fsm.definition.compat.other_tools import (
    NODE_RED,
    OtherTool,
    is_node_red,
    tool_of,
    yaml_keys,
)
from llm_fsm.definition.plain import NotPlainError, plain
from llm_fsm.documents.files import FilePath, beside, decoded, name_of, read, read_called, stem_of
from llm_fsm.documents.translations import Edits, with_translations
from llm_fsm.errors import DefinitionError, Finding, Place
from llm_fsm.lint.blocking import BLOCKING
from llm_fsm.lint.document import Called, Document, FlowReader, Placed
from llm_fsm.lint.facts.subflows import flow_paths
from llm_fsm.lint.registry import BY_NAME, RULES
from llm_fsm.lint.suppressions import read_suppressions


class CheckOptions(NamedTuple):
    """Options of a check. With `loading`, only the rules run that keep a machine from running.

    `edits` are translations that are not in their files yet.
    """

    file: str | None = None
    token_budget: int | None = None
    flow: FlowReader | None = None
    loading: bool = False
    edits: Edits | None = None


class Checked(NamedTuple):
    """The document as the models read it, or None if they would refuse it, and all findings."""

    document: JsonMap | None
    findings: list[Finding]


def check(what: FilePath | JsonMap, *, token_budget: int | None = None) -> list[Finding]:
    """Check a definition, and return everything that the checker finds.

    Args:
        what: The path of a file, or the definition as JSON data.
        token_budget: Tokens that a state's prompt may take, if the document sets no budget; None:
            no limit.

    Returns:
        The findings, sorted by position; none for a definition without problems.
    """
    name = name_of(what)
    if name is None:
        return check_value(what, CheckOptions(token_budget=token_budget)).findings
    try:
        text = read(name)
    except DefinitionError as error:
        return list(error.findings)
    flow = partial(_read_flow, name)
    options = CheckOptions(name, token_budget, flow)
    return check_text(text, options).findings


def check_data(data: bytes, *, file: str, token_budget: int | None = None) -> list[Finding]:
    """Check the bytes of a file that is not on disk. Files that it names are not read.

    Args:
        data: The bytes.
        file: The file name for findings.
        token_budget: Tokens that a state's prompt may take, if the document sets no budget; None:
            no limit.

    Returns:
        The findings, sorted by position.
    """
    try:
        text = decoded(data, file)
    except DefinitionError as error:
        return list(error.findings)
    return check_text(text, CheckOptions(file=file, token_budget=token_budget)).findings


def check_edited(text: str, *, file: str, edits: Edits | None = None) -> list[Finding]:
    """Check a text that was not saved yet, as if it were in its file.

    Args:
        text: The text.
        file: The path of its file, which need not exist. Definitions that it calls are read
            beside it.
        edits: Translations that were not saved yet.

    Returns:
        The findings, sorted by position. Those about a file of translations have no position.
    """
    options = CheckOptions(file=file, flow=partial(_read_flow, file), edits=edits)
    return [_in_text(found, file) for found in check_text(text, options).findings]


def _in_text(found: Finding, file: str) -> Finding:
    """Return a finding about another file as one about the translation, or about the languages."""
    if found.file == file:
        return found
    message = f"{found.file}:{found.line or 1}: {found.message}"
    pointer = found.pointer or "/languages"
    return replace(found, file=file, message=message, pointer=pointer, line=None, column=None)


def called_by(files: Sequence[str]) -> set[str]:
    """Return the normal paths of the files that some of these call.

    Args:
        files: The paths of definition files.
    """
    found: set[str] = set()
    for file in files:
        document = _read_flow(file, os.path.basename(file), None).document
        found.update(beside(file, path) for path in flow_paths(document))
    return found


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the garbage collector in all threads: a check makes many values that live until its
    end, and few cycles.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@_collector_paused()
def check_text(text: str, options: CheckOptions) -> Checked:
    """Check a JSON text. Findings are in file order. Comments and trailing commas are allowed."""
    file = options.file
    if not text.strip("\ufeff \t\r\n"):
        empty = finding("empty-file", "the file is empty", hint="a definition is one JSON object")
        return Checked(None, [replace(empty, file=file)])
    try:
        scan = source.scan(text)
    except source.SourceError as error:
        bad = _of_another_form(text) or finding("bad-json", error.message, hint=error.hint)
        return Checked(None, [replace(bad, file=file, line=error.line, column=error.column)])
    document, findings = _check(scan.value, options)
    duplicates = [replace(_duplicate(found), file=file) for found in scan.duplicates]
    found = [*duplicates, *_placed(findings, scan, file)]
    return Checked(document, sorted(found, key=lambda one: (one.line or 0, one.column or 0)))


@_collector_paused()
def check_value(value: object, options: CheckOptions) -> Checked:
    """Check a value. Findings have pointers and no positions."""
    document, findings = _check(value, options)
    placed = [replace(found, file=found.file or options.file) for found in findings]
    if len(placed) > 1:
        text = source.scan(json.dumps(plain(value)))
        placed.sort(key=lambda found: text.position(found.pointer))
    return Checked(document, placed)


def _check(value: object, options: CheckOptions) -> Checked:
    """Return all findings, unordered, with pointers into `value`."""
    try:
        written = plain(value)
    except NotPlainError as error:
        return Checked(None, [error.finding])
    if is_node_red(written):
        return Checked(None, [_of_another(NODE_RED)])
    if not isinstance(written, dict):
        message = f"a definition is one JSON object, not {form.describe(written)}"
        return Checked(None, [finding("not-a-definition", message)])
    if "states" not in written and isinstance(written.get("cases"), list):
        message = "this is a file of conversation tests, not a definition"
        fault = finding("not-a-definition", message, hint="llm-fsm test plays it")
        return Checked(None, [fault])
    tool = tool_of(written)
    if tool is not None:
        return Checked(None, [_of_another(tool)])
    stem = None
    if options.file:
        stem = stem_of(options.file)
    upgraded = upgrade(written, partial(rewrite, stem=stem))
    translated = with_translations(upgraded.document, options.file, options.edits)
    formed = form.examine(translated.document)
    found = [*upgraded.findings, *translated.findings, *_written(formed.findings, upgraded)]
    judged = formed.document if options.loading else formed.meant
    subject = Document(
        Placed("", judged), options.file, options.token_budget, options.flow, formed.unread
    )
    document = formed.document if formed.sound else None
    suppressions = read_suppressions(written)
    judgements: list[Finding] = []
    with closing(subject):
        for rule in BLOCKING if options.loading else RULES:
            if formed.sound or not rule.needs_form:
                judgements += rule.findings(subject)
        found += _written(_stated(judgements, formed), upgraded)
    remarks = () if options.loading else suppressions.remarks(found)
    kept = map(translated.placed, suppressions.kept(found))
    return Checked(document, [*kept, *remarks])


def _of_another(tool: OtherTool) -> Finding:
    """Return the finding that a file belongs to another tool."""
    return finding("not-a-definition", f"this is {tool.name}, no definition", hint=tool.hint)


def _of_another_form(text: str) -> Finding | None:
    """Return the finding that a text is XML or YAML, by its tool if that is known; None for another
    text.
    """
    if text.lstrip().startswith("<"):
        return finding("bad-json", "this is XML; a definition is JSON", hint="write it as JSON")
    keys = yaml_keys(text)
    if keys is None:
        return None
    tool = tool_of(keys)
    if tool is not None:
        return _of_another(tool)
    return finding("bad-json", "this is YAML; a definition is JSON", hint="write it as JSON")


def blocking(found: Finding) -> bool:
    """Return true if a machine with this finding cannot run."""
    return found.level == "error" and BY_NAME[found.name].blocks


def _stated(findings: Iterable[Finding], formed: form.Form) -> Iterator[Finding]:
    """Return findings about the content, except for content under misspelt keys."""
    renamed = frozenset(formed.renamed)
    return (found for found in findings if renamed.isdisjoint(places_of(found.pointer)))


def _written(findings: Iterable[Finding], upgraded: Upgraded) -> list[Finding]:
    """Return findings about today's form, with the pointers of the document as written."""
    written = []
    # Paths may be long and many.
    states = cache(lambda name: Place(upgraded.origin("/states" + step(name))))
    for found in findings:
        pointer = upgraded.origin(found.pointer)
        where = tuple(map(states, found.path))
        same = pointer == found.pointer and not where
        written.append(found if same else replace(found, pointer=pointer, where=where))
    return written


def _duplicate(found: source.Duplicate) -> Finding:
    """Return the finding that one key has two values, because the author cannot know which one is
    used.
    """
    key = json_text(found.key[:80])
    message = f"the key {key} is repeated here, first in line {found.first.line}"
    duplicate = finding("duplicate-key", message, pointer=found.pointer, hint="keep one of them")
    return replace(duplicate, line=found.position.line, column=found.position.column)


def _placed(findings: Iterable[Finding], text: source.Scan, file: str | None) -> Iterator[Finding]:
    """Yield findings with their lines and columns."""
    known = cache(lambda pointer: Place(pointer, *text.position(pointer, at_key=True)))
    for found in findings:
        if found.file is not None:  # a file of translations
            yield found
            continue
        line, column = text.position(found.pointer, at_key=BY_NAME[found.name].at_key)
        where = tuple(known(place.pointer) for place in found.where)
        yield replace(found, file=file, line=line, column=column, where=where)


def _read_flow(file: str, path: str, named_in: str | None) -> Called:
    """Return the document that a subflow names, in today's form. The path is relative to the file
    that names it.
    """
    place = beside(named_in or file, path)
    try:
        document = plain(source.parse(read_called(place, file)))
    except DefinitionError as error:
        return Called(place, None, error.findings[0].message)
    except (source.SourceError, NotPlainError):
        return Called(place, None, "it is not JSON")
    if not isinstance(document, dict):
        return Called(place, None, "it is no JSON object")
    return Called(place, upgrade(document, partial(rewrite, stem=stem_of(place))).document)
