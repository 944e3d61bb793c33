"""Load a definition that can be used, from a file, a text or a mapping.

A document without findings passes the form check and the few rules that block. Only for other
documents, the whole checker (`documents.check`) is loaded, which reports all findings at once.
Loading runs nothing, imports nothing that a definition names, and fetches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from llm_fsm._json import JsonMap
from llm_fsm.definition import json_source as source
from llm_fsm.definition import validation as form
from llm_fsm.definition.compat.foreign import rewrite
from llm_fsm.definition.compat.legacy import upgrade
from llm_fsm.definition.models import Definition
from llm_fsm.definition.plain import NotPlainError, plain
from llm_fsm.documents.files import FilePath, name_of, read, stem_of
from llm_fsm.documents.translations import with_translations
from llm_fsm.errors import DefinitionError, Finding
from llm_fsm.lint.blocking import BLOCKING
from llm_fsm.lint.document import Document, Placed


@dataclass(frozen=True, slots=True)
class LoadedDefinition:
    """A definition that can be used, with its warnings and notes.

    Loading runs only the rules that find errors; `check` reports more.

    Attributes:
        definition: The definition.
        findings: Warnings and notes, in file order.
    """

    definition: Definition
    findings: tuple[Finding, ...] = ()


def load(path: FilePath) -> Definition:
    """Load the definition of a file.

    Args:
        path: The JSON file. Comments and trailing commas are allowed.

    Returns:
        The definition.

    Raises:
        DefinitionError: The file cannot be read, or the definition cannot be used. The error has
            all findings.

    Example:
        >>> load("pizza.json").initial_state
        'order'
    """
    return load_text(read(path), file=name_of(path)).definition


def load_text(text: str, *, file: str | None = None) -> LoadedDefinition:
    """Load the definition of a JSON text.

    Args:
        text: The text. Comments and trailing commas are allowed.
        file: The file name for findings.

    Returns:
        The definition, with warnings and notes.

    Raises:
        DefinitionError: The definition cannot be used. The error has all findings.
    """
    try:
        scan = source.scan(text)
    except source.SourceError:
        scan = None
    document = None if scan is None or scan.duplicates else _sound(scan.value, file)
    if document is None:
        return _judged(text, file)
    return LoadedDefinition(Definition.model_validate(document))


def load_dict(document: JsonMap, *, file: str | None = None) -> LoadedDefinition:
    """Load the definition of a mapping.

    Args:
        document: The definition as JSON data.
        file: The file name for findings, which have pointers and no positions.

    Returns:
        The definition, with warnings and notes.

    Raises:
        DefinitionError: The definition cannot be used. The error has all findings.
    """
    sound = _sound(document, file)
    if sound is None:
        return _judged(document, file)
    return LoadedDefinition(Definition.model_validate(sound))


def _sound(value: object, file: str | None) -> JsonMap | None:
    """Return the document as the models read it; None if there is any finding."""
    try:
        written = plain(value)
    except NotPlainError:
        return None
    if not isinstance(written, dict):
        return None
    upgraded = upgrade(written, partial(rewrite, stem=stem_of(file) if file else None))
    translated = with_translations(upgraded.document, file)
    formed = form.examine(translated.document)
    if upgraded.findings or translated.findings or formed.findings or not formed.sound:
        return None
    document = Document(Placed("", formed.document), file)
    for rule in BLOCKING:
        # One finding is enough: the full check then finds all of them, with their places.
        if any(True for _ in rule.check(document)):
            return None
    return formed.document


def _judged(what: object, file: str | None) -> LoadedDefinition:
    """Check a document as a whole and load it.

    Raises:
        DefinitionError: An error was found.
    """
    # It is slow to import, and loading a definition seldom needs it.
    from llm_fsm.documents import check as checker  # noqa: PLC0415

    def checked(options: checker.CheckOptions) -> checker.Checked:
        if isinstance(what, str):
            return checker.check_text(what, options)
        return checker.check_value(what, options)

    document, findings = checked(checker.CheckOptions(file=file, loading=True))
    if document is None or any(map(checker.blocking, findings)):
        # The full check reports content under misspelt keys, too.
        whole = checked(checker.CheckOptions(file=file)).findings
        raise DefinitionError(whole if any(map(checker.blocking, whole)) else findings)
    return LoadedDefinition(Definition.model_validate(document), tuple(findings))
