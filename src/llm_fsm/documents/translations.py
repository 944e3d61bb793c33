"""Read and write the translations of a definition: a gettext file for each language beside it.

`order.de.po` has the German texts of `order.json`. The context of an entry is the JSON pointer of
its text, so equal texts may have different translations.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO, StringIO
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, TextMap, object_at, step, steps
from llm_fsm.definition.codes import finding
from llm_fsm.documents.files import read_called, stem_of
from llm_fsm.errors import DefinitionError, Finding
from llm_fsm.languages import locale_of
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.facts.translations import further_languages, spoken_texts

_FORMATS = frozenset(("python-format", "python-brace-format"))
# Babel takes an entry without a quotation mark for one without a text.
_UNQUOTED = re.compile(
    r'^(?>msg\w+(?:\[\d+\])?[ \t]*|(?="))(?!"(?:[^"\\\n]|\\.)*"[ \t\r]*$)', re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Translation:
    """A text in another language. `source` is the definition's own text that it was made from."""

    source: str
    text: str
    fuzzy: bool = False


Edits = Mapping[str, Translation]
"""Translations that are not in their files yet, by their place: `/texts/TAG/POINTER`."""


@dataclass(frozen=True, slots=True)
class Translated:
    """A document with its translations.

    Attributes:
        document: The document; `texts` has what the files have.
        findings: What is wrong with the files.
        places: The pointer of a translation to its file and line.
    """

    document: JsonMap
    findings: list[Finding] = field(default_factory=list)
    places: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    def placed(self, found: Finding) -> Finding:
        """Return a finding about a translation with its place in the `.po` file."""
        if found.pointer not in self.places:
            return found
        file, line = self.places[found.pointer]
        return replace(found, file=file, line=line, column=1)


def file_of_language(file: str, tag: str) -> str:
    """Return the path of the file with the texts of a language."""
    return f"{os.path.splitext(file)[0]}.{tag}.po"


def languages_of(document: JsonMap) -> list[str]:
    """Return the languages beside the definition's own."""
    return [tag for _, tag in further_languages(Document(Placed("", document)))]


def with_translations(
    document: JsonMap, file: str | None, edits: Edits | None = None
) -> Translated:
    """Return a document with the texts that are in the files beside it.

    An entry that is fuzzy, or whose text is another one today, does not count.

    Args:
        document: The document in today's form.
        file: The path of its file. Nothing is read where there is no such file.
        edits: Translations that count in place of those in the files.
    """
    tags = languages_of(document)
    if not tags or file is None or not os.path.exists(file):
        return Translated(document)
    texts: JsonDict = dict(object_at(document, "texts"))
    found = Translated({**document, "texts": texts}, [], places := {})
    sources = texts_of(document)
    for tag in tags:
        place = file_of_language(file, tag)
        try:
            catalog = with_edits(read_catalog(file, tag), tag, edits or {})
        except DefinitionError as error:
            found.findings.extend(error.findings)
            continue
        for pointer, text in sources.items():
            entry = catalog.get(text, context=pointer)
            if entry is None or not entry.string:
                continue
            spot = f"/texts/{tag}{step(pointer)}"
            places[spot] = place, entry.lineno
            if entry.fuzzy:
                hint = "check the translation, and remove the mark `fuzzy`"
                message = f"this text is fuzzy: {pointer}"
                fuzzy = finding("fuzzy-translation", message, pointer=spot, hint=hint)
                found.findings.append(replace(fuzzy, file=place, line=entry.lineno, column=1))
            else:
                texts[tag] = {**texts.get(tag, {}), pointer: entry.string}
    return found


def texts_of(document: JsonMap) -> dict[str, str]:
    """Return the texts of a document that users read, by pointer."""
    return dict(spoken_texts(Document(Placed("", document))))


def read_catalog(file: str, tag: str) -> Any:
    """Return the catalogue of a `.po` file; an empty one if there is no such file.

    Args:
        file: The path of the definition.
        tag: The language.

    Raises:
        DefinitionError: It cannot be read. The finding has the line and a cure.
    """
    from babel.messages import pofile  # noqa: PLC0415 - few definitions have several languages

    place = file_of_language(file, tag)
    if not os.path.exists(place):
        return catalog_of({}, stem_of(file), tag)
    text = read_called(place, file)
    unquoted = _UNQUOTED.search(text)
    try:
        if unquoted is None:
            return pofile.read_po(StringIO(text), locale=locale_of(tag), abort_invalid=True)
        line, reason = text.count("\n", 0, unquoted.start()) + 1, "a text is not in quotation marks"
    except pofile.PoFileError as error:
        line, reason = error.lineno + 1, str(error).rpartition(" on ")[0]
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        line, reason = 1, f"its head cannot be read: {error}"
    hint = 'write each text in one line as msgstr "…", with \\" for a quote'
    bad = finding("bad-translations", f"this is no gettext file: {reason}", hint=hint)
    raise DefinitionError([replace(bad, file=place, line=line, column=1)])


def with_edits(catalog: Any, tag: str, edits: Edits) -> Any:
    """Return a catalogue with the edits of its language.

    Args:
        catalog: The catalogue, which is changed.
        tag: The language.
        edits: The edits of all languages.
    """
    for place, edit in edits.items():
        _, language, pointer = steps(place)
        if language != tag or not edit.source:
            continue
        entry = catalog.get(edit.source, context=pointer)
        if entry is None:
            entry = catalog.add(edit.source, context=pointer)
        # Half a character is an error here; Babel would write another text.
        edit.text.encode()
        entry.string = edit.text
        entry.flags.discard("fuzzy")
        if edit.fuzzy:
            entry.flags.add("fuzzy")
    return catalog


def updated(catalog: Any, texts: TextMap) -> Any:
    """Return a catalogue with the texts of today: new ones are added, changed ones are fuzzy.

    Args:
        catalog: The catalogue, which is changed.
        texts: Each text, by its pointer.
    """
    template = catalog_of(texts, catalog.project)
    # Else the file would change each time.
    template.creation_date = catalog.creation_date
    catalog.update(template)
    return catalog


def catalog_of(texts: TextMap, name: str, tag: str | None = None) -> Any:
    """Return a catalogue of texts without translations.

    Args:
        texts: Each text, by its pointer.
        name: The name of the project.
        tag: The language; None: it is for every language.
    """
    from babel.messages import Catalog  # noqa: PLC0415 - as above

    locale = locale_of(tag) if tag else None
    catalog = Catalog(locale=locale, project=name, header_comment="", charset="utf-8", fuzzy=False)
    for pointer, text in texts.items():
        catalog.add(text, context=pointer)
    return catalog


def as_po(catalog: Any) -> bytes:
    """Return the text of a catalogue as gettext writes it."""
    from babel.messages.pofile import write_po  # noqa: PLC0415 - as above

    stream = BytesIO()
    for entry in catalog:
        # A template looks like a format of Python, and is none.
        entry.flags -= _FORMATS
    write_po(stream, catalog, width=0)
    return stream.getvalue()
