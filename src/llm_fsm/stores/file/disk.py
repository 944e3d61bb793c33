"""The folder of the file store: which files there are, how they are written so that a crash leaves old or new, whole.

Of a conversation there are, under the SHA-256 of its id:

| file | is |
|---|---|
| `<hash>.json` | all that changes with a turn, replaced as a whole: the commit |
| `<hash>.records` | a line a record, appended; what lies behind the `bytes` that the commit names was never committed |
| `<hash>.journal` | a line a step, appended; those of another version than the commit's are of a turn that is over |

`definitions/<hash>.json` are the definitions that conversations are pinned to.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from llm_fsm.errors import StoreError, UnreadableError
from llm_fsm.stores.errors import os_fault

FORMAT = 1
_NUMBER = 32
"""More than the number of a record takes before the request id."""
_HEAD = {
    **dict.fromkeys(("conversation_id", "definition", "state", "session"), str),
    **dict.fromkeys(("version", "bytes"), int),
    **dict.fromkeys(("created", "updated"), int | float),
    **dict.fromkeys(("due", "outbox"), list),
    "ended": bool,
    "definition_sha": str | None,
}
_DEFINITION = {"sha": str, "text": str}
"""What stands in a file of a kind, and as what."""


class Files:
    """Reads and writes the files of one folder. Raises StoreError for what the file system says no to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.conversations = root / "conversations"
        self.definitions = root / "definitions"

    def prepare(self) -> None:
        """Make the folders, for this user only."""
        for folder in (self.root, self.conversations, self.definitions):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise os_fault(folder, error) from error

    def head(self, name: str) -> dict[str, Any] | None:
        """What the last commit of a conversation says; None if there is no such conversation."""
        path = self._file(name, "json")
        document = _document(path, _HEAD)
        if document is not None and document["conversation_id"] != name:
            raise StoreError(f"{path}: is the file of another conversation: remove it, or use another folder")
        return document

    def heads(self, unreadable: list[str] | None = None) -> Iterator[dict[str, Any]]:
        """The last commits of all conversations, in no order; what is wrong with those that are damaged is added."""
        try:
            paths = sorted(self.conversations.glob("*.json"))
        except OSError as error:
            raise os_fault(self.conversations, error) from error
        for path in paths:
            try:
                document = _document(path, _HEAD)
            except UnreadableError as error:  # one that is damaged is no hindrance for the others
                if unreadable is not None:
                    unreadable.append(str(error))
            else:
                if document is not None:
                    yield document

    def replace_head(self, name: str, document: Mapping[str, Any]) -> None:
        """Commit: after this the conversation is as `document` says, whatever happens."""
        _replace(self._file(name, "json"), {"format": FORMAT, **document})

    def append_records(self, name: str, lines: list[list[Any]], size: int) -> int:
        """Write lines behind the first `size` bytes of the records, durably; the new size."""
        return _append(self._file(name, "records"), lines, size)

    def records(self, name: str, size: int) -> Iterator[list[Any]]:
        """The lines within the first `size` bytes: number, request id, record."""
        return iter(_lines(self._file(name, "records"), size))

    def recorded(self, name: str, size: int, request_id: str) -> str | None:
        """The record that answered a request. Only lines that may be the one are parsed."""
        words = json.dumps(request_id).encode()
        lines = _raw_lines(self._file(name, "records"), size)
        for line in (line for line in lines if words in line[: len(words) + _NUMBER]):
            _, known, record = json.loads(line)
            if known == request_id:
                return str(record)
        return None

    def append_journal(self, name: str, line: list[Any]) -> None:
        """Write a line of the journal, durably: version, step, text."""
        path = self._file(name, "journal")
        _append(path, [line], _whole(path))

    def journal(self, name: str) -> Iterator[list[Any]]:
        """The lines of the journal, those of turns that are over as well."""
        path = self._file(name, "journal")
        return iter(_lines(path, _whole(path)))

    def drop_journal(self, name: str) -> None:
        """Forget the journal."""
        _remove(self._file(name, "journal"))

    def drop(self, name: str) -> bool:
        """Remove all files of a conversation, the commit first; False if there was none."""
        found = _remove(self._file(name, "json"))
        removed = [_remove(self._file(name, kind)) for kind in ("records", "journal")]
        if found or any(removed):
            _sync_folder(self.conversations)
        return found

    def definition(self, sha: str) -> str | None:
        """A definition's text; None if it is not kept."""
        document = _document(self.definitions / f"{_hash(sha)}.json", _DEFINITION)
        return None if document is None else str(document["text"])

    def keep_definition(self, sha: str, text: str) -> None:
        """Keep a definition, durably, unless it is kept already."""
        path = self.definitions / f"{_hash(sha)}.json"
        if not path.exists():
            _replace(path, {"format": FORMAT, "sha": sha, "text": text})

    def drop_definition(self, sha: str) -> None:
        """Forget a definition."""
        _remove(self.definitions / f"{_hash(sha)}.json")

    def _file(self, name: str, kind: str) -> Path:
        return self.conversations / f"{_hash(name)}.{kind}"


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _document(path: Path, kinds: Mapping[str, Any]) -> dict[str, Any] | None:
    """The JSON of a file, or None where there is no such file."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _fault(path, error) from error
    try:
        document: dict[str, Any] = json.loads(text)
        written = document["format"]
        sound = written != FORMAT or all(isinstance(document[key], kind) for key, kind in kinds.items())
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(path) from error
    if not sound:
        raise _damaged(path)
    if written != FORMAT:
        raise StoreError(
            f"{path}: written by a newer version (format {written}; this one reads {FORMAT}): upgrade llm-fsm"
        )
    return document


def _replace(path: Path, document: Mapping[str, Any]) -> None:
    """Write beside, then rename: a crash leaves the old file or the new one."""
    beside = path.with_suffix(".new")
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _write(handle, json.dumps(document, separators=(",", ":")).encode())
        finally:
            os.close(handle)
        os.replace(beside, path)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise _fault(path, error) from error


def _append(path: Path, lines: list[list[Any]], size: int) -> int:
    text = b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(handle, size)
            os.lseek(handle, size, os.SEEK_SET)
            _write(handle, text)
        finally:
            os.close(handle)
        if size == 0:
            _sync_folder(path.parent)
    except OSError as error:
        raise _fault(path, error) from error
    return size + len(text)


def _write(handle: int, text: bytes) -> None:
    rest = memoryview(text)
    while rest:
        rest = rest[os.write(handle, rest) :]
    os.fsync(handle)


def _raw_lines(path: Path, size: int) -> list[bytes]:
    """The lines within the first `size` bytes, which must be there: a request whose record is gone counts as new."""
    try:
        with open(path, "rb") as file:
            text = file.read(size)
    except FileNotFoundError:
        text = b""
    except OSError as error:
        raise _fault(path, error) from error
    if len(text) < size:
        raise _damaged(path)
    return text.splitlines()


def _lines(path: Path, size: int) -> list[list[Any]]:
    try:
        return [json.loads(line) for line in _raw_lines(path, size)]
    except ValueError as error:
        raise _damaged(path) from error


def _damaged(path: Path) -> UnreadableError:
    return UnreadableError(f"{path}: the file is damaged: restore it from a backup, or remove it")


def _fault(path: Path, error: OSError) -> StoreError:
    """What the system says about one file of a conversation or definition; a folder there hinders no other one."""
    if isinstance(error, IsADirectoryError):
        return UnreadableError(f"{path}: is a folder in place of a file: move it away, and restore the file")
    return os_fault(path, error)


def _whole(path: Path) -> int:
    """How many bytes whole lines have: a crash may have cut the last one short."""
    try:
        return path.read_bytes().rfind(b"\n") + 1
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise _fault(path, error) from error


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _fault(path, error) from error
    return True


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
