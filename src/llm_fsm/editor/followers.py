"""Files that are saved with a definition: tests that follow its renamings, and its texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from llm_fsm._json import object_at
from llm_fsm.definition.json_source import SourceError, parse
from llm_fsm.documents.patch import PatchError
from llm_fsm.documents.renaming import Renaming, composed
from llm_fsm.editor.folder import Folder, OnDisk
from llm_fsm.editor.models import SaveBody, SavedFile
from llm_fsm.editor.scenarios import tests_of
from llm_fsm.editor.translations import edited_files
from llm_fsm.server.problems import Problem
from llm_fsm.testing.scenarios.names import renamed


class Follower(NamedTuple):
    """A file as it is on disk, None if there is none yet, and its new text."""

    path: str
    found: OnDisk | None
    text: str


def save(folder: Folder, body: SaveBody) -> SavedFile:
    """Save a text, the tests beside it that follow its renamings, and its translations.

    All that can refuse the save is tried before the first byte is written.

    Args:
        folder: The folder.
        body: The text, and the renamings and translations since the last save.

    Returns:
        The file, and the files that were saved with it.

    Raises:
        Problem: 409 with `conflict` if the file is another one now, 403 if it or one of the others
            cannot be written, 422 if tests have the old and the new name in one object.
        DefinitionError: A file of texts cannot be read.
    """
    given = [Renaming(one.kind, one.name, one.to) for one in body.renamings]
    renamings = _known(composed(given), body.text)
    followers = _followers(folder, body.path, renamings)
    for path, text in edited_files(body, folder, renamings):
        followers.append(Follower(path, folder.find(path), text))
    for one in followers:
        if one.found is not None and not one.found.writable:
            words = f"{one.path} changes with it, but it is read-only: allow writing it"
            raise Problem("forbidden", f"{words}; nothing was saved")
    found, is_new = folder.write(body.path, body.text, base=body.base, overwrite=body.overwrite)
    for one in followers:
        base = None if one.found is None else one.found.sha256
        folder.write(one.path, one.text, base=base)
    return SavedFile(
        path=body.path,
        sha256=found.sha256,
        modified=found.modified,
        unchanged=not is_new,
        others=[one.path for one in followers],
    )


def _followers(folder: Folder, tested: str, renamings: Sequence[Renaming]) -> list[Follower]:
    """Return the files of tests that the renamings change."""
    if not renamings:
        return []
    followers = []
    for path in tests_of(folder, tested):
        found = folder.read(path)
        try:
            text = renamed(found.text, renamings)
        except PatchError as error:
            words = f"{path} cannot follow the renaming: {error}"
            raise Problem("invalid", f"{words}; mend it and save again") from error
        if text != found.text:
            followers.append(Follower(path, found, text))
    return followers


def _known(renamings: Sequence[Renaming], text: str) -> list[Renaming]:
    """Return the renamings that the text still has: a person may have typed the old name again."""
    try:
        document = parse(text)
    except SourceError:
        return list(renamings)  # an unfinished text; nothing says that a name is gone
    schema = object_at(document, "context_schema")
    names = {"state": object_at(document, "states"), "key": object_at(schema, "properties")}
    return [one for one in renamings if one.to in names[one.kind]]
