"""The files of one folder tree: nothing outside of it is read or written, by links neither."""

from __future__ import annotations

import codecs
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from llm_fsm.definition.json_source import SourceError, parse
from llm_fsm.documents.files import MAX_BYTES, FilePath, beside, decoded, write
from llm_fsm.editor.models import FileConflict
from llm_fsm.errors import DefinitionError, hinted, os_reason
from llm_fsm.server.problems import Problem

MAX_FILES = 2_000
"""Files of a listing. More are no help to a reader."""
MAX_SEEN = 20_000
"""Entries of the folder tree that a listing looks at, so that a home folder is listed at once."""
_ENDING = ".json"
_TEXTS = ".po"
"""The ending of a file with the texts of a definition in another language."""
_SKIPPED = frozenset({"node_modules", "__pycache__"})


@dataclass(frozen=True, slots=True)
class OnDisk:
    """A file as it is on disk. `sha256` is that of its bytes."""

    text: str
    sha256: str
    has_mark: bool
    modified: float
    writable: bool


class Folder:
    """A folder tree with JSON files.

    Args:
        root: The folder.
    """

    def __init__(self, root: FilePath) -> None:
        self.root = os.path.realpath(root)

    def place(self, path: str) -> str:
        """Return the absolute path of a file below the folder.

        Args:
            path: The path below the folder, with `/`.

        Returns:
            The absolute path, with all links followed.

        Raises:
            Problem: 403 for a path out of the folder, 422 for one that is no JSON file.
        """
        parts = path.split("/")
        if (
            not path
            or "\\" in path
            or any(ord(letter) < 32 or ord(letter) == 127 for letter in path)
        ):
            raise Problem(
                "invalid",
                "a path is a name below the folder, without control characters and backslashes",
            )
        if path.startswith("/") or ".." in parts or "." in parts or "" in parts:
            raise Problem("forbidden", f"{path[:200]!r} is no path below the folder of the studio")
        if not path.endswith((_ENDING, _TEXTS)):
            raise Problem(
                "invalid", f"{path[:200]!r}: the studio opens files whose names end with {_ENDING}"
            )
        if any(part.startswith(".") for part in parts):
            raise Problem("forbidden", f"{path[:200]!r}: the studio opens no hidden files")
        whole = os.path.join(self.root, *parts)
        try:
            real = os.path.realpath(whole)
        except (OSError, ValueError) as error:
            raise Problem("invalid", f"{path[:200]!r} cannot be a path here") from error
        if not real.startswith(os.path.join(self.root, "")):
            raise Problem(
                "forbidden", f"{path[:200]!r}: a link leads out of the folder of the studio"
            )
        return real

    def shortened(self, words: str) -> str:
        """Return words in which the paths of files begin below the folder."""
        return words.replace(self.root + os.sep, "")

    def exists(self, path: str) -> bool:
        """Return true if there is a file at a path below the folder."""
        try:
            return os.path.isfile(self.place(path))
        except Problem:
            return False

    def read(self, path: str) -> OnDisk:
        """Read a file.

        Raises:
            Problem: 404 if it is gone, 403 if it may not be read, 413 for more than 10 MB, 422 for
                bytes that are no UTF-8.
        """
        return self._read_at(self.place(path), path)

    def find(self, path: str) -> OnDisk | None:
        """Read a file; None if there is none. Raises Problem like `read`."""
        place = self.place(path)
        if not os.path.lexists(place):
            return None
        return self._read_at(place, path)

    def _read_at(self, place: str, path: str) -> OnDisk:
        try:
            told = os.stat(place)
            if not stat.S_ISREG(told.st_mode):
                raise Problem("invalid", f"{path}: this is no regular file")
            with open(place, "rb") as stream:
                data = stream.read(MAX_BYTES + 1)
        except FileNotFoundError as error:
            raise Problem("not-found", f"{path}: this file is not there any more") from error
        except OSError as error:
            reason = os_reason(error)
            raise Problem("forbidden", f"{path}: the file cannot be read: {reason}") from error
        return _on_disk(data, path, told.st_mtime, is_writable=os.access(place, os.W_OK))

    def write(
        self, path: str, text: str, *, base: str | None, overwrite: bool = False
    ) -> tuple[OnDisk, bool]:
        """Write a file as a whole, if it still is the version that the author began from.

        Args:
            path: The path below the folder.
            text: The text. A byte order mark of the file stays.
            base: The SHA-256 of the version that the author began from; None: there was no file.
            overwrite: True writes over any version.

        Returns:
            The file, and true if its bytes are new.

        Raises:
            Problem: 409 with `conflict` if the file is another one now, 403 if it cannot be
                written.
        """
        place = self.place(path)
        now = self.find(path)
        mark = codecs.BOM_UTF8 if now is not None and now.has_mark else b""
        data = mark + _encoded(text, path)
        if now is not None and now.sha256 == hashlib.sha256(data).hexdigest():
            return now, False
        found = None if now is None else now.sha256
        if found != base and not overwrite:
            raise _conflict(path, now)
        if now is not None and not now.writable:
            raise _read_only(path)
        if len(data) > MAX_BYTES:
            raise Problem(
                "too-large", f"{path}: a definition has at most {MAX_BYTES // 1_000_000} MB"
            )
        try:
            Path(place).parent.mkdir(parents=True, exist_ok=True)
            write(place, data)
        except OSError as error:
            reason = os_reason(error)
            raise Problem(
                "forbidden", f"{path}: the file cannot be written: {reason}; nothing was saved"
            ) from error
        return self.read(path), True

    def delete(self, path: str, *, base: str) -> None:
        """Delete a file and its positions, if it still is the version that its author saw.

        Args:
            path: The path below the folder.
            base: The SHA-256 of that version.

        Raises:
            Problem: 409 with `conflict` if the file is another one now, 403 if it cannot be deleted.
        """
        now = self.find(path)
        if now is None or now.sha256 != base:
            raise _conflict(path, now)
        try:
            os.unlink(self.place(path))
            with suppress(FileNotFoundError):
                os.unlink(self.place(layout_path(path)))
        except OSError as error:
            reason = os_reason(error)
            raise Problem("forbidden", f"{path}: the file cannot be deleted: {reason}") from error

    def listing(self) -> tuple[list[str], bool]:
        """Return the paths of all JSON files below the folder, and true if there are more."""
        found: list[str] = []
        for seen, path in enumerate(self._walk()):
            if len(found) == MAX_FILES or seen == MAX_SEEN:
                return found, True
            if path.endswith(_ENDING):
                found.append(path)
        return found, False

    def values(self, ending: str = _ENDING) -> Iterator[tuple[str, str, object]]:
        """Yield the path, the text and the value of each file that can be read as JSON."""
        for path in self.listing()[0]:
            if not path.endswith(ending):
                continue
            with suppress(Problem, SourceError):
                text = self.read(path).text
                yield path, text, parse(text)

    def _walk(self) -> Iterator[str]:
        for place, folders, names in os.walk(self.root):
            kept = [name for name in folders if not name.startswith(".") and name not in _SKIPPED]
            folders[:] = sorted(kept)
            below = os.path.relpath(place, self.root)
            for name in sorted(names):
                path = name if below == "." else f"{below}/{name}".replace(os.sep, "/")
                if not name.startswith("."):
                    yield path


def layout_path(path: str) -> str:
    """Return the path of the file with the positions of a definition file."""
    return path.removesuffix(_ENDING) + ".layout.json"


def beside_in(path: str, name: str) -> str:
    """Return the path of a file that a file of the folder names, below the folder."""
    return beside(path, name).replace(os.sep, "/")


def _on_disk(data: bytes, path: str, modified: float, *, is_writable: bool) -> OnDisk:
    try:
        text = decoded(data, path)
    except DefinitionError as error:
        [found] = error.findings
        kind = "too-large" if found.name == "too-large" else "invalid"
        raise Problem(kind, hinted(f"{path}: {found.message}", found.hint)) from error
    has_mark = data.startswith(codecs.BOM_UTF8)
    return OnDisk(text, hashlib.sha256(data).hexdigest(), has_mark, modified, is_writable)


def _encoded(text: str, path: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Problem(
            "invalid", f"{path}: half a character cannot be saved; write it as \\uXXXX"
        ) from error


def _conflict(path: str, now: OnDisk | None) -> Problem:
    if now is None:
        words = f"{path} was deleted or renamed meanwhile"
        changed = FileConflict(path=path, text=None, sha256=None)
    else:
        words = f"{path} was changed on disk meanwhile; choose between both versions"
        changed = FileConflict(path=path, text=now.text, sha256=now.sha256)
    return Problem("conflict", words, extra={"conflict": changed.model_dump()})


def _read_only(path: str) -> Problem:
    return Problem(
        "forbidden", f"{path} is read-only: allow writing it, or save under another name"
    )
