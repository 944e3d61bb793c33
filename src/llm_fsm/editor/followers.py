"""Tests that follow the renamings in their definition when it is saved."""

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
from llm_fsm.server.problems import Problem
from llm_fsm.testing.scenarios.names import renamed


class Follower(NamedTuple):
    """A file of tests as it is on disk, and its text after the renamings."""

    path: str
    found: OnDisk
    text: str


def save(folder: Folder, body: SaveBody) -> SavedFile:
    """Save a text, and the tests beside it that follow its renamings.

    All that can refuse the save is tried before the first byte is written.

    Args:
        folder: The folder.
        body: The text, and the renamings since the last save.

    Returns:
        The file, and the files of tests that followed.

    Raises:
        Problem: 409 with `conflict` if the file is another one now, 403 if it or a file of tests
            cannot be written, 422 if tests have the old and the new name in one object.
    """
    followers = _followers(folder, body)
    for one in followers:
        if not one.found.writable:
            words = f"{one.path} follows the renaming, but it is read-only: allow writing it"
            raise Problem("forbidden", f"{words}; nothing was saved")
    found, is_new = folder.write(body.path, body.text, base=body.base, overwrite=body.overwrite)
    for one in followers:
        folder.write(one.path, one.text, base=one.found.sha256)
    return SavedFile(
        path=body.path,
        sha256=found.sha256,
        modified=found.modified,
        unchanged=not is_new,
        tests=[one.path for one in followers],
    )


def _followers(folder: Folder, body: SaveBody) -> list[Follower]:
    """Return the files of tests that the renamings change."""
    given = [Renaming(one.kind, one.name, one.to) for one in body.renamings]
    renamings = _known(composed(given), body.text)
    if not renamings:
        return []
    followers = []
    for path in tests_of(folder, body.path):
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
