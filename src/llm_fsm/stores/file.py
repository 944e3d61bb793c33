"""Conversations as files in one folder, for a few hundred that should be readable and backed up as
files.

Every turn is on the disk before `save` returns, and costs the same at turn 10 and at turn 500.
Listings, due rows and the outbox read the last commit of every conversation. Operating-system locks
ensure one writer per conversation across processes (see `locks.file_locks`), as with SQLite. It is
not for network file systems.

A crash leaves the complete old or new state of a conversation. It has these files, named by the
SHA-256 of its id:

| file | is |
|---|---|
| `<hash>.json` | the commit: all that changes with a turn, replaced as a whole |
| `<hash>.records` | one record a line, appended; lines after the commit's `bytes` were never committed |
| `<hash>.accepted` | messages that a worker is to answer, replaced as a whole |
| `<hash>.journal` | one step a line, appended; lines with another version than the commit's belong to a finished turn |

`definitions/<hash>.json` are the definitions that conversations are pinned to.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from heapq import nsmallest
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from llm_fsm._text import sha256_of
from llm_fsm.errors import StoreError, UnreadableError
from llm_fsm.stores.base import (
    WAITING,
    AcceptedMessage,
    AcceptedQuery,
    Commit,
    DueRow,
    IsHeld,
    JournalQuery,
    Listed,
    ListQuery,
    Loaded,
    LoadedWithJournal,
    OutboxQuery,
    Posted,
)
from llm_fsm.stores.errors import (
    answered_already,
    os_fault,
    step_exists,
    unknown_definition,
    wrong_version,
)
from llm_fsm.stores.forwarding import Calls
from llm_fsm.stores.local import LocalStore, each
from llm_fsm.stores.locks.file_locks import locks_beside

T = TypeVar("T")

FORMAT = 1
_TIMEOUT = 5.0
_DEFINITIONS = ""
"""The name of the folder of definitions. No conversation has this id."""


class _Format(msgspec.Struct):
    format: int


class _Definition(_Format):
    sha: str
    text: str


class _Head(_Format, kw_only=True):
    """The last commit of a conversation. `bytes` is the size of its records, `outbox` holds rows
    without the id.
    """

    conversation_id: str
    version: int
    definition: str
    state: str
    ended: bool
    created: float
    updated: float
    definition_sha: str | None
    bytes: int
    due: list[tuple[float, str]]
    outbox: list[tuple[int, int, str, str, str]]
    session: str
    metadata: dict[str, str] = {}
    paused: str = ""


_line = attrgetter(
    *(
        "conversation_id",
        "definition",
        "state",
        "ended",
        "version",
        "created",
        "updated",
        "definition_sha",
    ),
    *("metadata", "paused"),
)
"""The fields of a commit for listings."""


class _Record(msgspec.Struct, array_like=True):
    number: int
    request_id: str | None
    record: str
    merged: tuple[str, ...] = ()
    """Further request ids."""


class _FileStep(msgspec.Struct, array_like=True):
    version: int
    """The version before the turn."""
    step: int
    text: str
    conversation: str = ""
    """The id, in step 0."""


class _FileMessage(msgspec.Struct, array_like=True):
    """An accepted message, without the id of its conversation."""

    request_id: str
    definition: str
    text: str
    due: float
    place: int
    state: str


class _Messages(_Format, kw_only=True):
    conversation_id: str
    messages: list[_FileMessage]


class FileStore(LocalStore["_Folder"]):
    """A `Store` in the folder `path`. Construction touches nothing. The folder is made on first
    use.

    May be used from several event loops and threads.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        place = os.path.abspath(os.fspath(path))
        super().__init__(place, "a file", locked=Path(place, "conversations"))

    async def unlisted(self) -> Sequence[str]:
        """Find faults of conversations that listings leave out, in sentences."""
        return await self.faults()

    def _files(self) -> _Folder:
        return _Folder(Path(self._path))


class _Folder:
    """The methods of a store, for one thread. Two folders, in one process or in two, may be the
    same.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._conversations = root / "conversations"
        self._definitions = root / "definitions"
        self._locks = locks_beside(root / "writing")
        self._prepared = False

    def read(self, calls: Calls) -> Sequence[Any]:
        return each(calls, self)

    write = read

    def close(self) -> None:
        self._locks.close()

    def load(self, name: str, request_id: str | None) -> Loaded | None:
        head = self._head(name)
        if head is None:
            return None
        recorded = None if request_id is None else self._recorded(name, head.bytes, request_id)
        has_journal = self._file(name, "journal").exists() and any(
            known.step == 0 for known in self._steps(name)
        )
        kind = LoadedWithJournal if has_journal else Loaded
        return kind(head.session, head.version, recorded, head.definition_sha)

    def save(self, commit: Commit) -> None:
        name, sha = commit.conversation_id, commit.definition_sha
        before = self._head(name)
        # Only a change of the pin needs the lock of the definitions, which all conversations share.
        moves = before is None or before.definition_sha != sha
        with self._alone(_DEFINITIONS) if moves else nullcontext(), self._alone(name):
            # Read again under the lock: another process may have written since.
            head = self._head(name)
            version, size = (0, 0) if head is None else (head.version, head.bytes)
            if version != commit.expected:
                raise wrong_version(commit, version)
            for request_id, _ in commit.answered:
                if self._recorded(name, size, request_id) is not None:
                    raise answered_already(commit)
            if sha is not None:
                self._keep_definition(commit, sha)
            lines = [_record_line(*item) for item in commit.numbered]
            # The records come first. Without the commit that names their size they do not count.
            size = _append(self._file(name, "records"), lines, size)
            _replace(self._file(name, "json"), _head_of(commit, head, size))
            # After the commit. Steps that a crash leaves have an older version, and are not read.
            _remove(self._file(name, "journal"))
            if head is not None and head.definition_sha != sha:
                self._drop_unused(head.definition_sha)

    def records(self, name: str, after: int, limit: int | None) -> Sequence[str]:
        head = self._head(name)
        if head is None:
            return ()
        lines = _lines(self._file(name, "records"), head.bytes, _Record)
        found = (line.record for line in lines if line.number > after)
        return tuple(islice(found, None if limit is None else max(limit, 0)))

    def journal(self, name: str, step: int, text: str) -> None:
        with self._alone(name):
            version, path = self._version(name), self._file(name, "journal")
            if any(known.step == step for known in self._steps(name)):
                raise step_exists(name, step)
            named = name if step == 0 else ""
            _append(path, [_FileStep(version, step, text, named)], _whole(path))

    def journalled(self, name: str) -> Sequence[str]:
        return tuple(known.text for known in sorted(self._steps(name), key=attrgetter("step")))

    def forget_journal(self, name: str) -> None:
        with self._alone(name):
            _remove(self._file(name, "journal"))

    def unfinished(self, query: JournalQuery, is_held: IsHeld) -> Sequence[str]:
        # Order of ids, because a page goes on after the last one.
        journals = sorted(self._journals().items())
        ends = ((name, steps[0].text, steps[-1].text) for name, steps in journals)
        return query.page(ends, is_held)

    def _journals(self) -> dict[str, list[_FileStep]]:
        """Read the journals of unfinished turns that have a step 0, by conversation. Step 0 comes
        first.
        """
        found = {}
        try:
            paths = sorted(self._conversations.glob("*.journal"))
        except OSError as error:
            raise os_fault(self._conversations, error) from error
        for path in paths:
            with suppress(UnreadableError):  # one that is damaged must not hide the others
                steps = sorted(_lines(path, _whole(path), _FileStep), key=attrgetter("step"))
                name = next((known.conversation for known in steps if known.conversation), "")
                version = self._version(name)
                steps = [known for known in steps if known.version == version]
                if name and steps and steps[0].step == 0:
                    found[name] = steps
        return found

    def accept(self, message: AcceptedMessage) -> AcceptedMessage:
        name = message.conversation_id
        with self._alone(name):
            kept = self._messages(name)
            known = next((one for one in kept if one.request_id == message.request_id), None)
            if known is not None:
                return _message_of(name, known)
            # Places order the messages of one conversation, and each has a file of its own.
            place = 1 + max((one.place for one in kept), default=0)
            fresh = _FileMessage(
                message.request_id, message.definition, message.text, message.due, place, WAITING
            )
            self._keep_messages(name, [*kept, fresh])
            return _message_of(name, fresh)

    def accepted(self, query: AcceptedQuery) -> Sequence[AcceptedMessage]:
        if query.conversation_id is not None:
            name = query.conversation_id
            return query.page(_message_of(name, one) for one in self._messages(name))
        found = []
        for path in sorted(self._conversations.glob("*.accepted")):
            with suppress(UnreadableError):  # one that is damaged must not hide the others
                document = _document(path, _Messages)
                if document is not None:
                    name = document.conversation_id
                    found += [_message_of(name, one) for one in document.messages]
        return query.page(found)

    def mark_accepted(
        self, name: str, request_id: str, state: str, before: Collection[str]
    ) -> str | None:
        with self._alone(name):
            kept = self._messages(name)
            known = next((one for one in kept if one.request_id == request_id), None)
            if known is None:
                return None
            # Marked only from an expected state: a caller may have cancelled it just before.
            if known.state in before:
                known.state = state
                self._keep_messages(name, kept)
            return known.state

    def drop_accepted(self, name: str, request_id: str) -> None:
        with self._alone(name):
            kept = self._messages(name)
            left = [one for one in kept if one.request_id != request_id]
            # Nothing to write if it is gone already: each write costs a sync to the disk.
            if len(left) < len(kept):
                self._keep_messages(name, left)

    def _messages(self, name: str) -> list[_FileMessage]:
        document = _document(self._file(name, "accepted"), _Messages)
        return [] if document is None else document.messages

    def _keep_messages(self, name: str, messages: list[_FileMessage]) -> None:
        path = self._file(name, "accepted")
        # An empty file would be read by every look for messages.
        if not messages:
            _remove(path)
            return
        beside = _Messages(format=FORMAT, conversation_id=name, messages=messages)
        _replace(path, beside)

    def listed(self, query: ListQuery) -> Sequence[Listed]:
        return query.page(self._listing(query))

    def counted(self, query: ListQuery) -> int:
        return sum(map(query.admits, self._listing(query)))

    def _listing(self, query: ListQuery) -> Iterator[Listed]:
        """Yield the lines of all conversations, or of those with the ids of a query."""
        heads = self._heads([]) if query.ids is None else self._heads_of(query.ids)
        return (Listed(*_line(head)) for head in heads)

    def _heads_of(self, names: Iterable[str]) -> Iterator[_Head]:
        """Yield the last commits of these conversations, without damaged ones."""
        for name in names:
            with suppress(UnreadableError):
                head = self._head(name)
                if head is not None:
                    yield head

    def definition(self, sha: str) -> str | None:
        document = _document(self._definition_file(sha), _Definition)
        return None if document is None else document.text

    def due(self, now: float, limit: int, definition: str | None) -> Sequence[DueRow]:
        rows = []
        for head in self._heads([]):
            if definition in (None, head.definition):
                # The time first, so that the smallest rows are the oldest.
                rows += [(at, head.conversation_id, kind) for at, kind in head.due if at <= now]
        return tuple(DueRow(name, at, kind) for at, name, kind in nsmallest(max(limit, 0), rows))

    def outbox(self, query: OutboxQuery) -> Sequence[Posted]:
        rows = []
        for head in sorted(self._heads([]), key=attrgetter("conversation_id")):
            if query.admits(head.conversation_id, head.definition):
                rows += [Posted(head.conversation_id, *row) for row in head.outbox]
        return query.page(rows)

    def acknowledge(self, posted: Posted) -> None:
        name = posted.conversation_id
        with self._alone(name):
            head = self._head(name)
            if head is None:
                return
            last = (posted.number, posted.index)
            # In order: whoever has taken a row has taken those before it.
            left = [row for row in head.outbox if row[2] != posted.sink or row[:2] > last]
            if left != head.outbox:
                _replace(self._file(name, "json"), msgspec.structs.replace(head, outbox=left))

    def delete(self, name: str) -> bool:
        with self._alone(_DEFINITIONS), self._alone(name):
            head = self._head(name)
            kinds = ("json", "records", "journal", "accepted")
            removed = [_remove(self._file(name, kind)) for kind in kinds]
            if any(removed):
                _sync_folder(self._conversations)
            if head is not None:
                self._drop_unused(head.definition_sha)
            # The first file is the commit, and without that the conversation did not exist.
            return removed[0]

    def faults(self) -> Sequence[str]:
        """Find damaged commits, whose conversations are unknown."""
        unreadable: list[str] = []
        for _ in self._heads(unreadable):
            pass
        return unreadable

    def _file(self, name: str, kind: str) -> Path:
        return self._conversations / f"{_hash(name)}.{kind}"

    def _definition_file(self, sha: str) -> Path:
        return self._definitions / f"{_hash(sha)}.json"

    def _head(self, name: str) -> _Head | None:
        path = self._file(name, "json")
        head = _document(path, _Head)
        # Names of files are hashes, and somebody may have copied a file to another name.
        if head is not None and head.conversation_id != name:
            raise StoreError(
                f"{path}: is the file of another conversation: remove it, or use another folder"
            )
        return head

    def _heads(self, unreadable: list[str]) -> Iterator[_Head]:
        """Yield the last commits of all conversations, and add messages about damaged ones to
        `unreadable`.
        """
        try:
            paths = sorted(self._conversations.glob("*.json"))
        except OSError as error:
            raise os_fault(self._conversations, error) from error
        for path in paths:
            try:
                head = _document(path, _Head)
            except UnreadableError as error:  # it must not block the others
                unreadable.append(str(error))
            else:
                if head is not None:
                    yield head

    def _version(self, name: str) -> int:
        head = self._head(name)
        return 0 if head is None else head.version

    def _recorded(self, name: str, size: int, request_id: str) -> str | None:
        lines = _lines(self._file(name, "records"), size, _Record)
        for line in lines:
            if line.request_id == request_id or request_id in line.merged:
                return line.record
        return None

    def _steps(self, name: str) -> Iterator[_FileStep]:
        version, path = self._version(name), self._file(name, "journal")
        return (
            known for known in _lines(path, _whole(path), _FileStep) if known.version == version
        )

    def _keep_definition(self, commit: Commit, sha: str) -> None:
        path = self._definition_file(sha)
        if commit.definition_text is None:
            if self.definition(sha) is None:
                raise unknown_definition(commit)
        # The name stands for the hash of the text, so a file that exists holds the same.
        elif not path.exists():
            _replace(path, _Definition(FORMAT, sha, commit.definition_text))

    def _drop_unused(self, sha: str | None) -> None:
        """Delete a definition without conversations, unless a damaged one may be pinned to it."""
        unreadable: list[str] = []
        is_used = any(head.definition_sha == sha for head in self._heads(unreadable))
        # A damaged commit may be pinned to it, and is repaired from a backup one day.
        if sha is not None and not is_used and not unreadable:
            _remove(self._definition_file(sha))

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """Exclude other writers between reading and writing, so that a version is checked and
        raised in one step.
        """
        if not self._prepared:
            for folder in (self._root, self._conversations, self._definitions):
                try:
                    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                except OSError as error:
                    raise os_fault(folder, error) from error
            self._prepared = True
        deadline = time.monotonic() + _TIMEOUT
        # Such a lock is held for one write, so polling costs less than a queue.
        while not self._locks.take(name):
            if time.monotonic() > deadline:
                raise StoreError(
                    f"{self._root}: another program is writing and does not end: try again, or end it",
                    retryable=True,
                )
            time.sleep(0.001)
        try:
            yield
        finally:
            self._locks.give(name)


def _message_of(name: str, one: _FileMessage) -> AcceptedMessage:
    return AcceptedMessage(conversation_id=name, **msgspec.structs.asdict(one))


def _record_line(number: int, record: str, request_ids: Sequence[str]) -> _Record:
    request_id = request_ids[0] if request_ids else None
    return _Record(number, request_id, record, tuple(request_ids[1:]))


def _head_of(commit: Commit, before: _Head | None, size: int) -> _Head:
    posted = [
        (commit.number, index, event.sink, event.key, event.text)
        for index, event in enumerate(commit.outbox)
    ]
    return _Head(
        format=FORMAT,
        conversation_id=commit.conversation_id,
        version=commit.number,
        definition=commit.definition,
        state=commit.state,
        ended=commit.ended,
        created=commit.began if before is None else before.created,
        updated=commit.time,
        definition_sha=commit.definition_sha,
        bytes=size,
        due=sorted(set(commit.due)),
        outbox=[*(() if before is None else before.outbox), *posted],
        session=commit.session,
        metadata=dict(commit.metadata) if before is None else before.metadata,
        paused=commit.paused,
    )


def _hash(name: str) -> str:
    return sha256_of(name)


def _document(path: Path, kind: type[T]) -> T | None:
    """Return the document of a file; None if there is no such file."""
    text = _read(path)
    if text is None:
        return None
    written = _decoded(path, text, _Format).format
    if written != FORMAT:
        raise StoreError(
            f"{path}: written by a newer version (format {written}; this one reads {FORMAT}): upgrade llm-fsm"
        )
    return _decoded(path, text, kind)


def _lines(path: Path, size: int, kind: type[T]) -> Iterator[T]:
    """Read the lines within the first `size` bytes. All must exist, because a request without its
    record counts as new.
    """
    # What lies behind belongs to a commit that did not come through.
    text = (_read(path) or b"")[:size]
    # The commit says how much there must be. Less means that the file was changed from outside.
    if len(text) < size:
        raise _damaged(path)
    return (_decoded(path, line, kind) for line in text.splitlines())


def _whole(path: Path) -> int:
    """Return the size of the complete lines, because a crash may have cut the last one."""
    return (_read(path) or b"").rfind(b"\n") + 1


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _fault(path, error) from error


def _decoded(path: Path, text: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(path) from error


def _replace(path: Path, document: _Format) -> None:
    """Write another file, then rename it, so that a crash leaves the old file or the new one."""
    beside = path.with_name(f"{path.name}.new")
    try:
        _write(beside, msgspec.json.encode(document), 0)
        os.replace(beside, path)
        # The name is durable only when the folder is, too.
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise _fault(path, error) from error


def _append(path: Path, lines: Sequence[msgspec.Struct], size: int) -> int:
    """Write lines after the first `size` bytes, durably, and return the new size."""
    text = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    try:
        _write(path, text, size)
        # A new file: its name is durable only when its folder is.
        if size == 0:
            _sync_folder(path.parent)
    except OSError as error:
        raise _fault(path, error) from error
    return size + len(text)


def _write(path: Path, text: bytes, size: int) -> None:
    """Write a text after the first `size` bytes of a file, and cut the rest."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # A crash may have left half a line behind the last commit.
        os.ftruncate(handle, size)
        os.lseek(handle, size, os.SEEK_SET)
        rest = memoryview(text)
        # The system may write less than it was given.
        while rest:
            rest = rest[os.write(handle, rest) :]
        os.fsync(handle)
    finally:
        os.close(handle)


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


def _damaged(path: Path) -> UnreadableError:
    return UnreadableError(f"{path}: the file is damaged: restore it from a backup, or remove it")


def _fault(path: Path, error: OSError) -> StoreError:
    """Return the error of the system about one file. A folder in its place affects no other
    conversation.
    """
    if isinstance(error, IsADirectoryError):
        return UnreadableError(
            f"{path}: is a folder in place of a file: move it away, and restore the file"
        )
    return os_fault(path, error)
