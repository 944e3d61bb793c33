"""What the file store reads and writes, for one thread; `file_files` knows how it lies on the disk."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from heapq import nsmallest
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any

from llm_fsm.errors import StoreError
from llm_fsm.stores.base import Commit, Due, Listed, ListQuery, Loaded, OutboxQuery, Posted
from llm_fsm.stores.errors import answered_already, step_exists, unknown_definition, wrong_version
from llm_fsm.stores.file.disk import Files
from llm_fsm.stores.locks.file_locks import locks_beside

_PATIENCE = 5.0
_DEFINITIONS = ""
"""No conversation has this id."""

_LISTED = ("conversation_id", "definition", "state", "ended", "version", "created", "updated", "definition_sha")
"""The keys of a commit that make a `Listed`."""

Head = Mapping[str, Any]


class Folder:
    """The methods of a store on a folder. Two of them, in one process or in two, may use the same folder."""

    def __init__(self, root: Path) -> None:
        self.files = Files(root)
        self._locks = locks_beside(root / "writing")
        self._prepared = False

    def close(self) -> None:
        """Free the files."""
        self._locks.close()

    def load(self, name: str, request_id: str | None) -> Loaded | None:
        head = self.files.head(name)
        if head is None:
            return None
        recorded = None if request_id is None else self.files.recorded(name, head["bytes"], request_id)
        return Loaded(
            session=head["session"],
            version=head["version"],
            recorded=recorded,
            definition_sha=head["definition_sha"],
        )

    def save(self, commit: Commit) -> None:
        name, sha = commit.conversation_id, commit.definition_sha
        before = self.files.head(name)
        moves = before is None or before["definition_sha"] != sha
        with self._alone(_DEFINITIONS) if moves else nullcontext(), self._alone(name):
            head = self.files.head(name)
            version, size = (0, 0) if head is None else (head["version"], head["bytes"])
            if version != commit.expected:
                raise wrong_version(commit, version)
            if (
                commit.request_id is not None
                and self.files.recorded(name, size, commit.request_id) is not None
            ):
                raise answered_already(commit)
            if sha is not None and commit.definition_text is not None:
                self.files.keep_definition(sha, commit.definition_text)
            elif sha is not None and self.files.definition(sha) is None:
                raise unknown_definition(commit)
            lines = [[number, request, record] for number, record, request in commit.numbered]
            size = self.files.append_records(name, lines, size)
            self.files.replace_head(name, _head(commit, head, size))
            self.files.drop_journal(name)
            if head is not None and head["definition_sha"] not in (None, sha):
                self._drop_unused(head["definition_sha"])

    def records(self, name: str, after: int, limit: int | None) -> Sequence[str]:
        head = self.files.head(name)
        if head is None:
            return ()
        found = (record for number, _, record in self.files.records(name, head["bytes"]) if number > after)
        return tuple(islice(found, None if limit is None else max(limit, 0)))

    def journal(self, name: str, step: int, text: str) -> None:
        with self._alone(name):
            version = self._version(name)
            if any(known == step for number, known, _ in self.files.journal(name) if number == version):
                raise step_exists(name, step)
            self.files.append_journal(name, [version, step, text])

    def journalled(self, name: str) -> Sequence[str]:
        version = self._version(name)
        steps = ((step, text) for number, step, text in self.files.journal(name) if number == version)
        return tuple(text for _, text in sorted(steps))

    def forget_journal(self, name: str) -> None:
        with self._alone(name):
            self.files.drop_journal(name)

    def listed(self, query: ListQuery) -> Sequence[Listed]:
        lines = filter(query.admits, (Listed(*(head[key] for key in _LISTED)) for head in self.files.heads()))
        return tuple(nsmallest(max(query.limit, 0), lines, key=attrgetter("conversation_id")))

    def due(self, now: float, limit: int, definition: str | None) -> Sequence[Due]:
        rows = (
            (at, head["conversation_id"], kind)
            for head in self.files.heads()
            if definition in (None, head["definition"])
            for at, kind in head["due"]
            if at <= now
        )
        return tuple(Due(name, at, kind) for at, name, kind in nsmallest(max(limit, 0), rows))

    def outbox(self, query: OutboxQuery) -> Sequence[Posted]:
        rows = sorted(
            (head["conversation_id"], *row)
            for head in self.files.heads()
            if query.admits(head["conversation_id"], head["definition"])
            for row in head["outbox"]
        )
        posted = (Posted(*row) for row in rows)
        return tuple(islice((row for row in posted if query.sink in (None, row.sink)), max(query.limit, 0)))

    def acknowledge(self, posted: Posted) -> None:
        name = posted.conversation_id
        with self._alone(name):
            head = self.files.head(name)
            if head is None:
                return
            told = [posted.number, posted.index]
            left = [row for row in head["outbox"] if row[2] != posted.sink or row[:2] > told]
            if left != head["outbox"]:
                self.files.replace_head(name, {**head, "outbox": left})

    def delete(self, name: str) -> bool:
        with self._alone(_DEFINITIONS), self._alone(name):
            head = self.files.head(name)
            found = self.files.drop(name)
            if head is not None and head["definition_sha"] is not None:
                self._drop_unused(head["definition_sha"])
            return found

    def faults(self) -> Sequence[str]:
        """What is wrong with commits of which nobody can tell whose they are."""
        unreadable: list[str] = []
        for _ in self.files.heads(unreadable):
            pass
        return unreadable

    def _version(self, name: str) -> int:
        head = self.files.head(name)
        return 0 if head is None else int(head["version"])

    def _drop_unused(self, sha: str) -> None:
        """Forget a definition that nobody is pinned to, unless there are conversations of which nobody knows."""
        unreadable: list[str] = []
        if not any(head["definition_sha"] == sha for head in self.files.heads(unreadable)) and not unreadable:
            self.files.drop_definition(sha)

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """Between reading and writing nobody else writes: a version is checked and raised in one go."""
        if not self._prepared:
            self.files.prepare()
            self._prepared = True
        deadline = time.monotonic() + _PATIENCE
        while not self._locks.take(name):
            if time.monotonic() > deadline:
                raise StoreError(
                    f"{self.files.root}: another program is writing and does not end: try again, or end it",
                    retryable=True,
                )
            time.sleep(0.001)
        try:
            yield
        finally:
            self._locks.give(name)


def _head(commit: Commit, before: Head | None, size: int) -> Head:
    """What is to be known of a conversation after a commit; `size` is how many bytes its records have."""
    posted = [
        [commit.number, index, event.sink, event.key, event.text] for index, event in enumerate(commit.outbox)
    ]
    return {
        "conversation_id": commit.conversation_id,
        "version": commit.number,
        "definition": commit.definition,
        "state": commit.state,
        "ended": commit.ended,
        "created": commit.began if before is None else before["created"],
        "updated": commit.time,
        "definition_sha": commit.definition_sha,
        "bytes": size,
        "due": [list(row) for row in sorted(set(commit.due))],
        "outbox": [*(() if before is None else before["outbox"]), *posted],
        "session": commit.session,
    }
