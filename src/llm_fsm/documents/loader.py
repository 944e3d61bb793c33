"""From a file, a text or a mapping to a definition that can be used.

A document about which there is nothing to say is told by its form and the few rules that block; only for the
others is the whole judge (`checking`) loaded, which says everything that is wrong at once. Loading runs nothing,
imports nothing that a definition names, and fetches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from llm_fsm.definition import json_source as source
from llm_fsm.definition import validation as form
from llm_fsm.definition.compat.foreign import rewrite
from llm_fsm.definition.compat.legacy import upgrade
from llm_fsm.definition.models import Definition
from llm_fsm.definition.plain import NotPlainError, plain
from llm_fsm.documents.files import FilePath, name_of, read, stem_of
from llm_fsm.errors import DefinitionError, Finding
from llm_fsm.lint.blocking import BLOCKING
from llm_fsm.lint.document import Document, Placed


@dataclass(frozen=True, slots=True)
class Loaded:
    """A definition that can be used, and what was noticed on the way (warnings and notes), in file order.

    `check` says more: loading runs only the rules that find what keeps a machine from running.
    """

    definition: Definition
    findings: tuple[Finding, ...] = ()


def load(path: FilePath) -> Definition:
    """The definition of a file. Raises DefinitionError with all findings if one of them keeps it from running."""
    return load_text(read(path), file=name_of(path)).definition


def load_text(text: str, *, file: str | None = None) -> Loaded:
    """The definition of a JSON text; comments and trailing commas are accepted.

    `file` is the name that findings carry.
    Raises DefinitionError with all findings if one of them keeps the machine from running.
    """
    try:
        scan = source.scan(text)
    except source.SourceError:
        scan = None
    document = None if scan is None or scan.duplicates else _sound(scan.value, file)
    return _judged(text, file) if document is None else Loaded(Definition.model_validate(document))


def load_dict(document: Mapping[str, Any], *, file: str | None = None) -> Loaded:
    """The definition of a mapping, as `load_text`; findings have pointers and no positions."""
    sound = _sound(document, file)
    return _judged(document, file) if sound is None else Loaded(Definition.model_validate(sound))


def _sound(value: object, file: str | None) -> Mapping[str, Any] | None:
    """The document as the models read it, if reading it leaves nothing to say; else None."""
    try:
        written = plain(value)
    except NotPlainError:
        return None
    if not isinstance(written, dict):
        return None
    upgraded = upgrade(written, partial(rewrite, stem=stem_of(file) if file else None))
    formed = form.examine(upgraded.document)
    if upgraded.findings or formed.findings or not formed.sound:
        return None
    document = Document(Placed("", formed.document), file)
    if any(True for rule in BLOCKING for _ in rule.check(document)):
        return None
    return formed.document


def _judged(what: object, file: str | None) -> Loaded:
    """Check a document as a whole and load it. Raises DefinitionError."""
    from llm_fsm.documents.check import CheckOptions, blocking, check_text, check_value  # noqa: PLC0415 - seldom needed, slow

    options = CheckOptions(file=file, loading=True)
    document, findings = check_text(what, options) if isinstance(what, str) else check_value(what, options)
    if document is None or any(blocking(found) for found in findings):
        raise DefinitionError(findings)
    return Loaded(Definition.model_validate(document), tuple(findings))
