"""The texts of a definition in its further languages: as the page shows them, and as it saves them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os.path import exists

from llm_fsm._json import JsonMap, steps
from llm_fsm.definition.json_source import SourceError, parse
from llm_fsm.definition.plain import NotPlainError
from llm_fsm.documents.renaming import Renaming, followed
from llm_fsm.documents.translations import (
    Translation,
    as_po,
    file_of_language,
    languages_of,
    read_catalog,
    texts_of,
    updated,
    with_edits,
)
from llm_fsm.editor.checked import kind_of_value, todays
from llm_fsm.editor.folder import Folder
from llm_fsm.editor.models import EditedBody, SaveBody, TextRow, Texts


def all_texts(body: EditedBody, folder: Folder) -> Texts:
    """Return the texts of a definition with their translations, as `llm-fsm texts update` has them.

    Args:
        body: The definition, and the translations that are not saved yet.
        folder: The folder, in which the files of texts are.

    Returns:
        The texts; none for a text that is no definition yet.

    Raises:
        DefinitionError: A file of texts cannot be read.
    """
    document = _document(body.text, body.path)
    texts = texts_of(document)
    found = Texts(language=str(document.get("language") or "en"), languages=languages_of(document))
    found.rows = [TextRow(pointer=pointer, text=text) for pointer, text in texts.items()]
    file = folder.place(body.path)
    for tag in found.languages:
        catalog = updated(with_edits(read_catalog(file, tag), tag, body.translations), texts)
        for row in found.rows:
            entry = catalog.get(row.text, context=row.pointer)
            row.translations[tag] = Translation(row.text, entry.string or "", entry.fuzzy)
    return found


def edited_files(
    body: SaveBody, folder: Folder, renamings: Sequence[Renaming]
) -> Iterator[tuple[str, str]]:
    """Yield the path below the folder of each file of texts that changes, and its new text.

    Args:
        body: The text to save, with the edits of translations.
        folder: The folder.
        renamings: The renamings, which the files follow.

    Raises:
        DefinitionError: A file of texts cannot be read.
    """
    tags = {steps(place)[1] for place in body.translations}
    document = _document(body.text, body.path) if tags or renamings else {}
    texts = texts_of(document)
    file = folder.place(body.path)
    if renamings:
        tags.update(tag for tag in languages_of(document) if exists(file_of_language(file, tag)))
    for tag in sorted(tags):
        catalog = followed(read_catalog(file, tag), renamings)
        catalog = with_edits(catalog, tag, body.translations)
        # A definition that cannot be read now would make every text an old one.
        if texts:
            catalog = updated(catalog, texts)
        yield file_of_language(body.path, tag), as_po(catalog).decode()


def _document(text: str, path: str) -> JsonMap:
    """Return a definition in today's form; an empty one for a text that is none yet."""
    try:
        value = parse(text)
        is_definition = kind_of_value(value, path) == "definition"
        return todays(value, path).document if is_definition else {}
    except (SourceError, NotPlainError):
        return {}
