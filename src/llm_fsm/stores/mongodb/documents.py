"""The collections of a MongoDB database, and the methods of a store on them.

| collection | a document is |
|---|---|
| `turns` | one commit: its records, the session after it, what listings show, due rows and outbox |
| `journal` | one step of the turn after version `version` |
| `definitions` | a definition that conversations are pinned to |
| `accepted` | a message that a worker is to answer |
| `counters` | the last place of an accepted message |
| `locks` | the writer of a conversation, and the end of its lease |

The newest turn of a conversation is its current state. Sessions of older turns are emptied after a
commit. A crash before that leaves one session too many, which the next commit empties. A
conversation whose newest turn has no session was being deleted.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from pymongo import ASCENDING, DESCENDING, ReturnDocument
from pymongo import errors as faults

from llm_fsm._json import JsonDict, JsonMap, TextMap, without_none
from llm_fsm.stores.base import (
    ANY_PAUSE,
    BEGUN_MESSAGE,
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
    Order,
    OutboxQuery,
    Posted,
    just_before,
    labels_of,
)
from llm_fsm.stores.errors import check, lock_lost, step_exists, wrong_version

Document = JsonMap
_LISTED = ("conversation", "definition", "state", "ended", "number", "created", "updated", "sha")
"""The keys of a turn that make a `Listed`."""
_ORDERS: Mapping[Order, Sequence[tuple[str, int]]] = {
    "id": [("conversation", ASCENDING)],
    "updated": [("updated", ASCENDING), ("conversation", ASCENDING)],
    "-updated": [("updated", DESCENDING), ("conversation", DESCENDING)],
}
_UNIQUE = (
    ("turns", "conversation first"),
    ("journal", "conversation version step"),
    ("accepted", "conversation request_id"),
)
_INDEXES = (
    *_UNIQUE,
    ("turns", "conversation requests"),
    ("turns", "current conversation"),
    ("turns", "labels"),
    ("turns", "current updated conversation"),
    ("turns", "paused conversation"),
    ("turns", "due.time"),
    ("turns", "outbox.sink"),
    ("journal", "step conversation"),
    ("locks", "holder"),
    ("accepted", "due place"),
)
"""Collections, and the keys of each of their indexes."""
_MESSAGE = ("conversation", "request_id", "definition", "text", "due", "place", "state")
"""The keys of an accepted message, in the order of `AcceptedMessage`."""


class Documents:
    """The methods of a store on a database, for threads. `held`: the locks and their holders.
    Raises PyMongoError.
    """

    def __init__(self, database: Any, held: TextMap) -> None:
        self._held = held
        self._database = database
        self._turns = database["turns"]
        self._journal = database["journal"]
        self._definitions = database["definitions"]
        self._locks = database["locks"]
        self._accepted = database["accepted"]
        self._counters = database["counters"]
        self._prepared = False

    def load(self, name: str, request_id: str | None) -> Loaded | None:
        newest = self._newest(name)
        if newest is None:
            return None
        kind = LoadedWithJournal if self._has_journal(name, newest["number"]) else Loaded
        return kind(
            session=newest["session"],
            version=newest["number"],
            recorded=None if request_id is None else self._recorded(name, request_id),
            definition_sha=newest["sha"],
        )

    def _has_journal(self, name: str, version: int) -> bool:
        first = {"conversation": name, "version": version, "step": 0}
        return self._journal.find_one(first) is not None

    def save(self, commit: Commit) -> None:
        self._prepare()
        name, sha = commit.conversation_id, commit.definition_sha
        newest = self._newest(name)
        version = 0 if newest is None else newest["number"]
        answered = newest is not None and any(
            self._recorded(name, request_id) is not None for request_id, _ in commit.answered
        )
        defined = sha is not None and self.definition(sha) is not None
        check(commit, version, answered=answered, defined=defined)
        # Checked as late as possible: between here and the write the lease can hardly end.
        self._check_lock(name)
        self._keep_definition(commit)
        # The unique index decides between two writers, without a transaction.
        if not self._insert(_turn(commit, newest)):
            self._drop_unused(sha)
            raise wrong_version(commit, commit.expected + 1)
        # another writer may have dropped it as unused just before the pin
        self._keep_definition(commit)
        older = {"conversation": name, "number": {"$lt": commit.number}, "current": True}
        self._turns.update_many(
            older, {"$set": {"current": False, "session": None, "due": [], "labels": []}}
        )
        # Last: steps of an older version are not read any more, even if this does not happen.
        self._journal.delete_many({"conversation": name, "version": {"$lte": commit.expected}})
        if newest is not None and newest["sha"] != sha:
            self._drop_unused(newest["sha"])

    def records(self, name: str, after: int, limit: int | None) -> Sequence[str]:
        if self._newest(name) is None:
            return ()
        turns = self._turns.find({"conversation": name, "number": {"$gt": after}}).sort(
            "first", ASCENDING
        )
        # A turn may hold several records, so the limit is not that of documents.
        most = None if limit is None else max(limit, 0)
        return tuple(islice(_records_after(turns, after), most))

    def journal(self, name: str, step: int, text: str) -> None:
        self._prepare()
        self._check_lock(name)
        entry = {"conversation": name, "version": self._version(name), "step": step, "text": text}
        try:
            self._journal.insert_one(entry)
        except faults.DuplicateKeyError:
            raise step_exists(name, step) from None

    def journalled(self, name: str) -> Sequence[str]:
        steps = self._journal.find({"conversation": name, "version": self._version(name)})
        return tuple(entry["text"] for entry in steps.sort("step", ASCENDING))

    def forget_journal(self, name: str) -> None:
        self._check_lock(name)
        self._journal.delete_many({"conversation": name})

    def unfinished(self, query: JournalQuery, is_held: IsHeld) -> Sequence[str]:
        asked: JsonDict = {"step": 0}
        if query.after is not None:
            asked["conversation"] = {"$gt": query.after}
        found: list[str] = []
        for entry in self._journal.find(asked).sort("conversation", ASCENDING):
            if len(found) >= query.limit:
                break
            name = entry["conversation"]
            # A turn under a lock is being played, and so is not left behind.
            if is_held(name) or self._is_locked(name):
                continue
            steps = self.journalled(name)
            if (
                steps
                and entry["version"] == self._version(name)
                and query.admits(steps[0], steps[-1])
            ):
                found.append(name)
        return tuple(found)

    def _is_locked(self, name: str) -> bool:
        """Return true if a writer whose lease goes on holds a conversation."""
        return self._locks.find_one({"_id": name, "until": {"$gte": time.time()}}) is not None

    def accept(self, message: AcceptedMessage) -> AcceptedMessage:
        self._prepare()
        asked = {"conversation": message.conversation_id, "request_id": message.request_id}
        known = self._accepted.find_one(asked)
        if known is None:
            # A counter of the server, because several processes accept messages at a time.
            counted = self._counters.find_one_and_update(
                {"_id": "accepted"},
                {"$inc": {"last": 1}},
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
            fresh = {"definition": message.definition, "text": message.text, "due": message.due}
            fresh |= {"place": counted["last"], "state": WAITING}
            with suppress(faults.DuplicateKeyError):  # another caller was faster
                self._accepted.insert_one({**asked, **fresh})
            known = self._accepted.find_one(asked)
        return message if known is None else _message(known)

    def accepted(self, query: AcceptedQuery) -> Sequence[AcceptedMessage]:
        asked: JsonDict = {} if query.closed else {"state": {"$in": [WAITING, BEGUN_MESSAGE]}}
        if query.now is not None:
            asked["due"] = {"$lte": query.now}
        if query.definition is not None:
            asked["definition"] = query.definition
        if query.conversation_id is not None:
            asked["conversation"] = query.conversation_id
        found = self._accepted.find(asked).sort([("due", ASCENDING), ("place", ASCENDING)])
        return tuple(map(_message, islice(found, max(query.limit, 0))))

    def mark_accepted(
        self, name: str, request_id: str, state: str, before: Collection[str]
    ) -> str | None:
        asked = {"conversation": name, "request_id": request_id}
        changing = {**asked, "state": {"$in": [*before]}}
        self._accepted.update_one(changing, {"$set": {"state": state}})
        known = self._accepted.find_one(asked)
        return None if known is None else str(known["state"])

    def drop_accepted(self, name: str, request_id: str) -> None:
        self._accepted.delete_one({"conversation": name, "request_id": request_id})

    def listed(self, query: ListQuery) -> Sequence[Listed]:
        return tuple(islice(self._lines(query), max(query.limit, 0)))

    def counted(self, query: ListQuery) -> int:
        return sum(1 for _ in self._lines(query))

    def _lines(self, query: ListQuery) -> Iterator[Listed]:
        """Yield the lines that match a query, in its order, without its limit."""
        asked: JsonDict = {}
        if query.ids is not None:
            asked["conversation"] = {"$in": sorted(query.ids)}
        elif query.after is not None and query.order == "id":
            asked["conversation"] = {"$gt": query.after}
        elif query.begins:
            asked["conversation"] = {"$gt": just_before(query.begins)}
        if query.metadata:
            asked["labels"] = {"$all": labels_of(query.metadata)}
        if query.paused is not None:
            asked["paused"] = {"$gt": ""} if query.paused == ANY_PAUSE else query.paused
        if query.updated_since is not None:
            asked["updated"] = {"$gte": query.updated_since}
        # The server narrows by what it has indexes for. The query itself decides about the rest.
        lines = map(_line, self._current(asked, query.order))
        return filter(query.admits, lines)

    def definition(self, sha: str) -> str | None:
        found = self._definitions.find_one({"_id": sha})
        return None if found is None else str(found["text"])

    def due(self, now: float, limit: int, definition: str | None) -> Sequence[DueRow]:
        rows = []
        for turn in self._current({"due.time": {"$lte": now}}):
            if definition is None or turn["definition"] == definition:
                name, due = turn["conversation"], turn["due"]
                rows += [(row["time"], name, row["kind"]) for row in due if row["time"] <= now]
        # One conversation may have several rows, so the order of documents is not that of rows.
        rows.sort()
        return tuple(DueRow(name, at, kind) for at, name, kind in rows[: max(limit, 0)])

    def outbox(self, query: OutboxQuery) -> Sequence[Posted]:
        asked: JsonDict = (
            {"outbox.0": {"$exists": True}} if query.sink is None else {"outbox.sink": query.sink}
        )
        bounds = {"$gt": query.after, "$eq": query.conversation_id}
        if narrowed := without_none(bounds):
            asked["conversation"] = narrowed
        turns = self._turns.find(asked).sort([("conversation", ASCENDING), ("first", ASCENDING)])
        return query.page(self._posted(turns, query.definition))

    def _posted(self, turns: Iterable[Document], definition: str | None) -> Iterator[Posted]:
        """Yield the rows of turns whose conversations are at a definition; None: at any."""
        for turn in turns:
            name = turn["conversation"]
            # An older turn may still have rows, and the definition of the newest one counts.
            newest = self._newest(name) or turn
            if definition not in (None, newest["definition"]):
                continue
            for row in turn["outbox"]:
                yield Posted(
                    name, turn["number"], row["index"], row["sink"], row["key"], row["text"]
                )

    def acknowledge(self, posted: Posted) -> None:
        mine = {"conversation": posted.conversation_id, "outbox.sink": posted.sink}
        before = {**mine, "number": {"$lt": posted.number}}
        # Rows before it were delivered as well, because a sink takes them in order.
        self._turns.update_many(before, {"$pull": {"outbox": {"sink": posted.sink}}})
        acknowledged = {"sink": posted.sink, "index": {"$lte": posted.index}}
        self._turns.update_many(
            {**mine, "number": posted.number}, {"$pull": {"outbox": acknowledged}}
        )

    def delete(self, name: str) -> bool:
        """See `Store.delete`. The newest turn is deleted first, and with it the conversation does
        not exist any more.
        """
        newest = self._newest(name)
        if newest is not None:
            # Without its newest turn the conversation is unknown, even if the rest stays after a
            # crash.
            self._turns.delete_one({"_id": newest["_id"]})
            self._newest(name)
            self._drop_unused(newest["sha"])
        self._journal.delete_many({"conversation": name})
        self._accepted.delete_many({"conversation": name})
        return newest is not None

    def take(self, name: str, holder: str, lease: float) -> bool:
        """Take a lock that is free, expired or held by the same holder."""
        now = time.time()
        free = {"_id": name, "$or": [{"until": {"$lt": now}}, {"holder": holder}]}
        mine = {"holder": holder, "until": now + lease}
        # An expired lock is taken over in one step, so two cannot both find it free.
        if self._locks.update_one(free, {"$set": mine}).matched_count:
            return True
        try:
            self._locks.insert_one({"_id": name, **mine})
        except faults.DuplicateKeyError:
            return False
        return True

    def renew(self, holder: str, names: Sequence[str], lease: float) -> None:
        """Renew locks of a holder. A lock whose grant was not received ends with its lease."""
        self._locks.update_many(
            {"_id": {"$in": names}, "holder": holder}, {"$set": {"until": time.time() + lease}}
        )

    def give(self, name: str, holder: str) -> None:
        """Release a lock, unless it was lost to another holder."""
        self._locks.delete_one({"_id": name, "holder": holder})

    def _prepare(self) -> None:
        if self._prepared:
            return
        for collection, keys in _INDEXES:
            unique = (collection, keys) in _UNIQUE
            asked = [(key, ASCENDING) for key in keys.split()]
            self._database[collection].create_index(asked, unique=unique)
        self._prepared = True

    def _newest(self, name: str) -> Document | None:
        """Find the newest turn, which is the state of a conversation, and remove the rest of a
        deletion.
        """
        found: Document | None = self._turns.find_one(
            {"conversation": name}, sort=[("first", DESCENDING)]
        )
        # A newest turn without a session is what a deletion has left.
        if found is not None and found["session"] is None:
            self._turns.delete_many({"conversation": name, "first": {"$lte": found["first"]}})
            return None
        return found

    def _version(self, name: str) -> int:
        newest = self._newest(name)
        return 0 if newest is None else int(newest["number"])

    def _current(self, asked: Document, order: Order = "id") -> Iterator[Document]:
        """Yield newest turns in an order, without turns that a crash left current beside a newer
        one.
        """
        for turn in self._turns.find({**asked, "current": True}).sort(_ORDERS[order]):
            newest = self._newest(turn["conversation"])
            # Two turns may be current after a crash between two writes.
            if newest is not None and newest["number"] == turn["number"]:
                yield turn

    def _recorded(self, name: str, request_id: str) -> str | None:
        turn = self._turns.find_one({"conversation": name, "requests": request_id})
        if turn is None:
            return None
        return next(str(record) for record, *known in turn["appended"] if request_id in known)

    def _check_lock(self, name: str) -> None:
        holder = self._held.get(name)
        if holder is not None and self._locks.find_one({"_id": name, "holder": holder}) is None:
            raise lock_lost(name)

    def _insert(self, turn: Document) -> bool:
        """Write a turn; return false if another one is in its place. After a broken connection, it
        searches the turn.
        """
        try:
            self._turns.insert_one(dict(turn))
        except faults.DuplicateKeyError:
            # A driver that sent it twice meets its own turn here.
            return self._turns.find_one({"_id": turn["_id"]}) is not None
        except faults.AutoReconnect:
            if self._turns.find_one({"_id": turn["_id"]}) is None:
                raise
        return True

    def _keep_definition(self, commit: Commit) -> None:
        if commit.definition_sha is not None and commit.definition_text is not None:
            kept = {"$setOnInsert": {"text": commit.definition_text}}
            self._definitions.update_one({"_id": commit.definition_sha}, kept, upsert=True)

    def _drop_unused(self, sha: str | None) -> None:
        if sha is not None and self._turns.find_one({"current": True, "sha": sha}) is None:
            self._definitions.delete_one({"_id": sha})


def _message(found: Document) -> AcceptedMessage:
    return AcceptedMessage.of_row([found[key] for key in _MESSAGE])


def _records_after(turns: Iterable[Document], after: int) -> Iterator[str]:
    """Yield the records of turns with numbers above `after`."""
    for turn in turns:
        for number, (record, *_) in enumerate(turn["appended"], turn["first"]):
            if number > after:
                yield record


def _line(turn: Document) -> Listed:
    labels = dict(map(json.loads, turn.get("labels", [])))
    values = [*(turn[key] for key in _LISTED), labels, turn.get("paused", "")]
    return Listed(*values)


def _turn(commit: Commit, before: Document | None) -> Document:
    """Return the document of a commit."""
    return {
        "_id": uuid.uuid4().hex,
        "conversation": commit.conversation_id,
        "first": commit.expected + 1,
        "number": commit.number,
        "appended": [[record, *request_ids] for _, record, request_ids in commit.numbered],
        "requests": [request_id for request_id, _ in commit.answered],
        "session": commit.session,
        "definition": commit.definition,
        "state": commit.state,
        "ended": commit.ended,
        "paused": commit.paused,
        "created": commit.began if before is None else before["created"],
        "updated": commit.time,
        "sha": commit.definition_sha,
        "labels": labels_of(commit.metadata) if before is None else before.get("labels", []),
        "due": [{"time": at, "kind": kind} for at, kind in sorted(set(commit.due))],
        "outbox": [
            {"index": index, "sink": event.sink, "key": event.key, "text": event.text}
            for index, event in enumerate(commit.outbox)
        ],
        "current": True,
    }
