"""Files: list, open, save, keep positions, check a text, and make gestures on it."""

from __future__ import annotations

from fastapi import APIRouter, Query

from llm_fsm import __version__
from llm_fsm._json import member
from llm_fsm.definition.json_source import SourceError, parse
from llm_fsm.documents.patch import PatchError
from llm_fsm.editor.checked import check_written, kind_of_value
from llm_fsm.editor.folder import layout_path
from llm_fsm.editor.followers import save
from llm_fsm.editor.gestures import perform
from llm_fsm.editor.layouts import layout_text, read_layout
from llm_fsm.editor.models import (
    CheckedText,
    EditedBody,
    FileEntry,
    GestureBody,
    Layout,
    LayoutBody,
    Listing,
    Opened,
    Patched,
    SaveBody,
    SavedFile,
    StudioSettings,
    Texts,
)
from llm_fsm.editor.releases import release_row
from llm_fsm.editor.studio import Studio
from llm_fsm.editor.translations import all_texts
from llm_fsm.releases.file import ENDING
from llm_fsm.server.problems import Problem


def router(studio: Studio) -> APIRouter:
    """Return the routes of files."""
    made = APIRouter(prefix="/api", tags=["files"])
    folder = studio.folder

    @made.get("/settings")
    def settings() -> StudioSettings:
        """Say what this studio can do."""
        return StudioSettings(
            version=__version__,
            folder=folder.root,
            file=studio.file,
            models=studio.all_models,
            has_store=studio.store is not None,
            can_draw=studio.can_draw,
            has_git=studio.has_git,
        )

    @made.get("/files")
    def list_files() -> Listing:
        """List the JSON files of the folder, without those of positions."""
        paths, is_truncated = folder.listing()
        entries = [entry for entry in (_entry(studio, path) for path in paths) if entry is not None]
        found = [release_row(folder, path) for path in paths if path.endswith(ENDING)]
        return Listing(folder=folder.root, files=entries, releases=found, truncated=is_truncated)

    @made.get("/file")
    def open_file(path: str = Query(max_length=4096), findings: bool = True) -> Opened:
        """Open a file: its text, its graph, the positions of its states, and its findings if they
        are wanted now.
        """
        found = folder.read(path)
        checked = check_written(found.text, path, folder, findings=findings)
        return Opened(
            path=path,
            text=found.text,
            sha256=found.sha256,
            writable=found.writable,
            checked=checked,
            layout=read_layout(folder, path, checked.value),
        )

    @made.put("/file")
    def save_file(body: SaveBody) -> SavedFile:
        """Save a text, finished or not, the tests that follow its renamings, and translations.

        409 with `conflict` if the file is another one now.
        """
        return save(folder, body)

    @made.delete("/file", status_code=204)
    def delete_file(path: str = Query(max_length=4096), base: str = Query()) -> None:
        """Delete a file and its positions.

        409 with `conflict` if the file is another one now than `base`, its SHA-256.
        """
        folder.delete(path, base=base)

    @made.put("/layout")
    def save_layout(body: LayoutBody) -> Layout:
        """Keep positions beside a file. The file itself is not touched."""
        folder.read(body.path)
        beside = layout_path(body.path)
        text = layout_text(body.positions, body.folded)
        found, _ = folder.write(beside, text, base=None, overwrite=True)
        return Layout(positions=body.positions, folded=body.folded, sha256=found.sha256)

    @made.post("/check")
    def check_text(body: EditedBody) -> CheckedText:
        """Check a text that need not be saved."""
        return check_written(body.text, body.path, folder, edits=body.translations)

    @made.post("/texts")
    def list_texts(body: EditedBody) -> Texts:
        """List the texts of a definition with their translations. Nothing is saved."""
        return all_texts(body, folder)

    @made.post("/patch")
    def patch_text(body: GestureBody) -> Patched:
        """Make gestures on a text, in order. All bytes that they do not name stay."""
        text = body.text
        for one in body.gestures:
            try:
                text = perform(text, one.gesture, body.path)
            except PatchError as error:
                raise Problem("invalid", f"{one.gesture.do}: {error}") from error
        checked = check_written(text, body.path, folder, edits=body.translations, fixes=False)
        return Patched(text=text, checked=checked)

    return made


def _entry(studio: Studio, path: str) -> FileEntry | None:
    """Return the row of a file; None for one that is gone, unreadable, or holds positions."""
    if path.endswith(".layout.json"):
        return None
    try:
        found = studio.folder.read(path)
    except Problem:
        return None
    try:
        value = parse(found.text)
    except SourceError:
        value = None
    name = member(value, "name")
    return FileEntry(
        path=path,
        kind=kind_of_value(value, path),
        name=name if isinstance(name, str) else "",
        bytes=len(found.text.encode("utf-8", "surrogatepass")),
        modified=found.modified,
        writable=found.writable,
    )
