"""The port to stores: documents of text go in, the same documents come out.

A store knows nothing of machines. It keeps for each conversation:

- one session document with a version,
- turn records, appended once, numbered from 1,
- the number of the record that answered each request id, for idempotency; one record may answer
  several,
- the outbox: events that sinks have not acknowledged yet,
- rows of the due table: time-outs and reminders,
- the journal of the unfinished turn. A journal with a step 0 is open until its last entry closes
  it,
- messages that were accepted for it, and that a worker answers.

It also keeps one copy of every definition that a conversation is pinned to. A journal of an id that
begins with `RESERVED` is no conversation's: it holds the texts of a release, from step 1 on.

All documents are JSON text that is valid in UTF-8. Other characters are escaped, so that every
string of Python survives in every store. Conversation ids, request ids and the names for listings
are text without NUL and lone surrogates (see `storable`). Ids have at most 200 characters, and are
otherwise arbitrary.

A store raises ConversationConflict if the version does not fit. It raises StoreError for everything
else: locked, unreachable, read-only, full, another version, damaged, a lost lock. The message names
the file or server.

`docs/stores.md` is for the author of a store.
`llm_fsm.testing.store_suite` tests a store against this contract.
"""

from __future__ import annotations

import heapq
import json
import re
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from typing import Any, Literal, NamedTuple, Protocol, Self

from llm_fsm._json import TextMap, json_text, member
from llm_fsm._text import sha256_of
from llm_fsm.errors import ConversationConflict, UnreadableError

RESERVED = "llm_fsm:"
"""The beginning of ids that are no conversation's and no request's."""
END_HANDLERS = f"{RESERVED}end_conversation"
"""The name under which the outbox keeps END_CONVERSATION handlers that are still to run. No sink
has it.
"""
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_NOT_IN_IDS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_LABEL_KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
MAX_LABELS = 16
MAX_LABEL_CHARS = 512
_LONGEST_ID = 200
"""Characters. Ids are keys in every database, and some limit the width of a key."""


def checked_id(text: object, what: str) -> str:
    """Check an id that a caller gave.

    Args:
        text: The id.
        what: The name of the id in the message, such as "request id".

    Returns:
        The id, unchanged.

    Raises:
        ValueError: No store could keep it.
    """
    if not isinstance(text, str) or not text or len(text) > _LONGEST_ID:
        raise ValueError(f"a {what} is a text of 1 to {_LONGEST_ID} characters")
    if _NOT_IN_IDS.search(text):
        raise ValueError(
            f"a {what} must not contain control characters or halves of surrogate pairs"
        )
    if text.startswith(RESERVED):
        raise ValueError(f"a {what} must not begin with {RESERVED!r}: choose another one")
    return text


def labels_of(metadata: TextMap) -> list[str]:
    """Return each label as one text, for stores whose keys must not have every character."""
    return [json_text(label) for label in metadata.items()]


def checked_metadata(metadata: object) -> dict[str, str]:
    """Check the labels of a conversation, or those to find.

    Args:
        metadata: {key: text}. A key has 1 to 64 letters, digits, `_`, `-` and `.`. A text has 1 to
            512 characters, and no control characters. There are at most 16.

    Returns:
        The labels.

    Raises:
        ValueError: They are no labels.
    """
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise ValueError(f"metadata is an object of texts by key, not a {type(metadata).__name__}")
    if len(metadata) > MAX_LABELS:
        raise ValueError(f"metadata has at most {MAX_LABELS} keys, not {len(metadata)}")
    for key, value in metadata.items():
        if not isinstance(key, str) or not _LABEL_KEY.fullmatch(key):
            raise ValueError(
                f"a key of metadata has 1 to 64 letters, digits, _, - and ., unlike {key!r:.80}"
            )
        if (
            not isinstance(value, str)
            or not 0 < len(value) <= MAX_LABEL_CHARS
            or _NOT_IN_IDS.search(value)
        ):
            raise ValueError(
                f"metadata.{key} is a text of 1 to {MAX_LABEL_CHARS} characters without control characters, "
                f"not {value!r:.80}"
            )
    return dict(metadata)


def storable(name: str) -> str:
    r"""Write a name for listings so that every store can keep it.

    Args:
        name: The name.

    Returns:
        The name, with NUL and lone surrogates written as `\x00` and `\ud800`.
    """
    # The usual case: only names from broken files have such characters.
    if _UNSTORABLE.search(name) is None:
        return name
    return name.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()


class Loaded(NamedTuple):
    """A conversation as stored.

    Attributes:
        session: The session document.
        version: The number of the last commit.
        recorded: The record that answered the request id of the call; None if there is none.
        definition_sha: SHA-256 of the definition that the last commit pinned the conversation to.
    """

    session: str
    version: int
    recorded: str | None = None
    definition_sha: str | None = None

    @property
    def has_journal(self) -> bool:
        """True if the conversation has a journal with a step 0."""
        return isinstance(self, LoadedWithJournal)


class LoadedWithJournal(Loaded):
    """A conversation as stored, which has a journal with a step 0."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """An event for a sink.

    Attributes:
        sink: The name of the sink.
        key: The idempotency key, by which the sink recognises a repeated event.
        text: The event as JSON text.
    """

    sink: str
    key: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Commit:
    """All that one turn writes, in one transaction. It empties the journal of the conversation.

    An imported conversation has `expected` 0 and `earlier` records. Its version becomes
    `len(earlier) + 1`.

    Attributes:
        conversation_id: The conversation.
        expected: The version that was loaded; 0 if the conversation must not exist yet.
        session: The session document after the turn.
        record: The record of the turn, stored under `number`.
        request_id: The request that this turn answers, for idempotency.
        merged: Further request ids, each with the number of the record that answers it. One turn
            answers several requests if their messages came close together.
        definition: The name of the definition, for listings.
        state: The id of the state, for listings.
        ended: True if no further message can be sent, for listings.
        paused: The kind of answer that it waits for, such as "approval", for listings; "" if it
            waits for none.
        time: The time at which the turn ended, in seconds since the epoch.
        due: Time (seconds since the epoch) and kind of each time-out and reminder. Replaces all due
            rows.
        outbox: Events for sinks, in this order, after the events that the sinks have not
            acknowledged yet.
        definition_sha: SHA-256 of the definition that the conversation is pinned to from this
            commit on.
        definition_text: Canonical JSON of that definition, if the conversation was not pinned to it
            before. The store keeps one copy of each definition until no conversation is pinned to
            it.
        earlier: Records before `record`, each with its request id or None.
        created: The time at which the conversation began, in seconds since the epoch; None: `time`.
        metadata: Labels by which listings find the conversation, as {key: text}. The first commit
            of a conversation decides; a store ignores those of later ones.

    Raises:
        ValueError: `earlier` records are given for a conversation that exists.
        ConversationConflict: Two records have the same request id.
    """

    conversation_id: str
    expected: int
    session: str
    record: str
    request_id: str | None = None
    merged: tuple[tuple[str, int], ...] = ()
    definition: str = ""
    state: str = ""
    ended: bool = False
    time: float = 0.0
    due: tuple[tuple[float, str], ...] = ()
    outbox: tuple[Outgoing, ...] = ()
    definition_sha: str | None = None
    definition_text: str | None = None
    earlier: tuple[tuple[str, str | None], ...] = ()
    created: float | None = None
    metadata: TextMap = field(default_factory=dict)
    paused: str = ""

    def __post_init__(self) -> None:
        # Records before the first one would change the numbers of those that exist.
        if self.earlier and self.expected:
            raise ValueError("earlier records are for a conversation that does not exist yet")
        if not self.earlier and not self.merged:
            return  # an ordinary turn has one request id at most
        request_ids = [request_id for request_id, _ in self.answered]
        if len(set(request_ids)) < len(request_ids):
            raise ConversationConflict(
                f'conversation "{self.conversation_id}" cannot be imported: two turns have the same request id; '
                "give each record its own"
            )

    @property
    def number(self) -> int:
        """The number of `record`, which is the new version."""
        return self.expected + len(self.earlier) + 1

    @property
    def began(self) -> float:
        """The time at which the conversation began, if this commit begins it."""
        return self.time if self.created is None else self.created

    @property
    def numbered(self) -> Sequence[tuple[int, str, Sequence[str]]]:
        """Number, record and request ids of all records that this commit appends."""
        # an ordinary turn, which stores write all the time
        if not self.earlier and not self.merged:
            request_ids = [] if self.request_id is None else [self.request_id]
            return ((self.expected + 1, self.record, request_ids),)
        # Imported or merged: the own record comes last, and has the highest number.
        appended = (*self.earlier, (self.record, self.request_id))
        found = []
        for number, (record, request_id) in enumerate(appended, self.expected + 1):
            request_ids = [merged for merged, place in self.merged if place == number]
            # The own id comes first, because a sender asks for that one.
            if request_id is not None:
                request_ids.insert(0, request_id)
            found.append((number, record, request_ids))
        return found

    @property
    def answered(self) -> Sequence[tuple[str, int]]:
        """Every request id that this commit answers, with the number of the record that answers it."""
        found = []
        for number, _, request_ids in self.numbered:
            found += [(request_id, number) for request_id in request_ids]
        return found


@dataclass(frozen=True, slots=True)
class Posted:
    """A row of the outbox.

    Attributes:
        conversation_id: The conversation.
        number: The number of the turn record, from 1.
        index: The number of the event in the record, from 0.
        sink: The name of the sink.
        key: The idempotency key of the event.
        text: The event as JSON text.
    """

    conversation_id: str
    number: int
    index: int
    sink: str
    key: str
    text: str


@dataclass(frozen=True, slots=True)
class DueRow:
    """A row of the due table.

    Attributes:
        conversation_id: The conversation.
        time: The time at which it is due, in seconds since the epoch.
        kind: The kind of time-out or reminder.
    """

    conversation_id: str
    time: float
    kind: str


@dataclass(frozen=True, slots=True)
class Listed:
    """A line of the listing.

    Attributes:
        conversation_id: The conversation.
        definition: The name of its definition.
        state: The id of its state.
        ended: True if no further message can be sent.
        turns: The number of its records.
        created: The time at which it began, in seconds since the epoch.
        updated: The time of the last commit, in seconds since the epoch.
        definition_sha: SHA-256 of the definition that it is pinned to.
        metadata: Its labels, as {key: text}.
        paused: The kind of answer that it waits for; "" if it waits for none.
    """

    conversation_id: str
    definition: str
    state: str
    ended: bool
    turns: int
    created: float
    updated: float
    definition_sha: str | None = None
    metadata: TextMap = field(default_factory=dict)
    paused: str = ""


ANY_PAUSE = "any"
"""The name in `ListQuery.paused` of every kind of answer."""
Order = Literal["id", "updated", "-updated"]
"""The order of a listing: by ids, or by the time of the last commit and then by ids. `-` reverses
both.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """The conversations to list.

    Attributes:
        after: Only conversations after the one with this id, in the order of the listing; None:
            from the first.
        limit: At most this many.
        definition: Only conversations whose last commit had this name of a definition; None: all.
        state: Only conversations whose last commit left them in this state; None: all.
        ended: Only conversations that have ended, or only those that have not; None: both.
        metadata: Only conversations that have all these labels.
        updated_since: Only conversations whose last commit was at this time or later, in seconds
            since the epoch.
        updated_before: Only conversations whose last commit was before this time, in seconds since
            the epoch.
        order: The order of the listing. Ids are compared by code points.
        after_updated: With an order by `updated`: the time of the conversation `after`, in seconds
            since the epoch.
        begins: Only conversations whose ids begin with this text.
        ids: Only these conversations; None: all.
        paused: Only conversations that wait for an answer of this kind; "any": for any answer;
            None: all.

    Raises:
        ValueError: The order is unknown, or one of `after` and `after_updated` is missing in an
            order by `updated`.
    """

    after: str | None = None
    limit: int = 100
    definition: str | None = None
    state: str | None = None
    ended: bool | None = None
    metadata: TextMap = field(default_factory=dict)
    updated_since: float | None = None
    updated_before: float | None = None
    order: Order = "id"
    after_updated: float | None = None
    begins: str = ""
    ids: frozenset[str] | None = None
    paused: str | None = None

    def __post_init__(self) -> None:
        if self.order not in ("id", "updated", "-updated"):
            raise ValueError(f"order is 'id', 'updated' or '-updated', not {self.order!r}")
        # The place in an order by time is a pair, and half of it is none.
        if self.order != "id" and (self.after is None) != (self.after_updated is None):
            raise ValueError(
                "a listing by time goes on after an id and its time: give both, or neither"
            )

    @property
    def descends(self) -> bool:
        """True if the newest conversation comes first."""
        return self.order == "-updated"

    def key(self, line: Listed) -> tuple[float, str]:
        """Return the place of a line in the order of the listing.

        Args:
            line: The line.

        Returns:
            A value that sorts lines, ascending; with `descends`, descending.
        """
        return (0.0 if self.order == "id" else line.updated), line.conversation_id

    def admits(self, line: Listed) -> bool:
        """Return true if a line matches the query. `limit` does not matter.

        Args:
            line: The line.

        Returns:
            True for a match.
        """
        return (
            self._follows(line)
            and self.definition in (None, line.definition)
            and self.state in (None, line.state)
            and self.ended in (None, line.ended)
            and (self.updated_since is None or line.updated >= self.updated_since)
            and (self.updated_before is None or line.updated < self.updated_before)
            and line.conversation_id.startswith(self.begins)
            and (self.ids is None or line.conversation_id in self.ids)
            and self._admits_pause(line.paused)
            and self.metadata.items() <= line.metadata.items()
        )

    def _admits_pause(self, paused: str) -> bool:
        """Return true if a line that waits for this kind of answer matches."""
        if self.paused == ANY_PAUSE:
            return paused != ""
        return self.paused in (None, paused)

    def _follows(self, line: Listed) -> bool:
        """Return true if a line comes after the place at which the listing begins."""
        if self.after is None:
            return True
        place = (
            (0.0 if self.after_updated is None or self.order == "id" else self.after_updated),
            self.after,
        )
        return self.key(line) < place if self.descends else self.key(line) > place

    def page(self, lines: Iterable[Listed]) -> Sequence[Listed]:
        """Choose the lines of a listing from all lines of a store, for stores without indexes.

        Args:
            lines: Lines, in any order.

        Returns:
            Those that match, in order, at most `limit`.
        """
        # A heap keeps one page, and not all lines of the store.
        choose = heapq.nlargest if self.descends else heapq.nsmallest
        return tuple(choose(max(self.limit, 0), filter(self.admits, lines), key=self.key))

    def following(self, line: Listed) -> ListQuery:
        """Return the query of the next page.

        Args:
            line: The last line of a page.

        Returns:
            The query that goes on after this line.
        """
        at = None if self.order == "id" else line.updated
        return replace(self, after=line.conversation_id, after_updated=at)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxQuery:
    """The rows of the outbox to read.

    Attributes:
        sink: Only rows for this sink; None: for all.
        after: Only conversations with ids after this one; None: from the first.
        limit: At most this many rows.
        conversation_id: Only rows of this conversation; None: of all.
        definition: Only conversations whose last commit had this name of a definition; None: all.
    """

    sink: str | None = None
    after: str | None = None
    limit: int = 100
    conversation_id: str | None = None
    definition: str | None = None

    def admits(self, conversation_id: str, definition: str) -> bool:
        """Return true if the rows of a conversation match the query.

        Args:
            conversation_id: The conversation.
            definition: The name of its definition.

        Returns:
            True for a match.
        """
        return (
            (self.after is None or conversation_id > self.after)
            and self.conversation_id in (None, conversation_id)
            and self.definition in (None, definition)
        )

    def page(self, rows: Iterable[Posted]) -> Sequence[Posted]:
        """Choose the rows of the sink, from those of conversations that match, in order."""
        wanted = (row for row in rows if self.sink in (None, row.sink))
        return tuple(islice(wanted, max(self.limit, 0)))


IsHeld = Callable[[str], bool]
"""Returns true for a conversation whose lock is held."""
PARKED = "parked"
CLOSING_KINDS = ("failed", "stopped", PARKED)
"""Kinds of journal entries after which nobody takes the turn up by itself."""
CLOSING = r'^\{"kind": ?"(failed|stopped|parked)"'
"""The beginning of a closing entry, as a regular expression of Python and of PostgreSQL."""
_CLOSING = re.compile(CLOSING)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalQuery:
    """The journals to find, for stores.

    Attributes:
        limit: At most this many.
        definitions: Only journals whose first entry has one of these names as its `definition`;
            None: all.
        after: Only conversations with ids after this one; None: from the first.
        parked: True for journals whose last entry is `parked`, false for open ones.
    """

    limit: int = 100
    definitions: Collection[str] | None = None
    after: str | None = None
    parked: bool = False

    def admits(self, first: str, last: str) -> bool:
        """Return true if a journal matches. `limit` and `after` do not matter.

        Args:
            first: The entry of step 0, as JSON text.
            last: The entry of the highest step, as JSON text.

        Returns:
            True for a match.
        """
        closing = _CLOSING.match(last)
        closed_as = None if closing is None else closing[1]
        # A turn that failed or was stopped is in neither listing: nobody takes it up.
        if closed_as != (PARKED if self.parked else None):
            return False
        return self.definitions is None or _definition_in(first) in self.definitions

    def page(self, journals: Iterable[tuple[str, str, str]], is_held: IsHeld) -> Sequence[str]:
        """Choose the conversations of journals that match, in order.

        Args:
            journals: Conversation ids, each with the first and the last entry of its journal.
            is_held: Tells the conversations to leave out.

        Returns:
            Conversation ids, at most `limit`.
        """
        names = (
            name
            for name, *ends in journals
            if name > (self.after or "") and not is_held(name) and self.admits(*ends)
        )
        return tuple(islice(names, max(self.limit, 0)))


class FindsJournals(ABC):
    """A store that finds journals by a query."""

    async def unfinished(
        self,
        limit: int = 100,
        definitions: Collection[str] | None = None,
        *,
        after: str | None = None,
        parked: bool = False,
    ) -> Sequence[str]:
        """Find conversations with an open journal; see `Store.unfinished`."""
        return await self._unfinished(
            JournalQuery(limit=limit, definitions=definitions, after=after, parked=parked)
        )

    @abstractmethod
    async def _unfinished(self, query: JournalQuery) -> Sequence[str]: ...


def _definition_in(first: str) -> str | None:
    """Return the name of the definition in the first entry of a journal; None if it has none."""
    try:
        entry = json.loads(first)
    except ValueError:
        return None
    name = member(entry, "definition")
    return name if isinstance(name, str) else None


WAITING = "waiting"
BEGUN_MESSAGE = "begun"
CANCELLED_MESSAGE = "cancelled"
REFUSED_MESSAGE = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedMessage:
    """A message that was accepted for a conversation, and that no caller waits for.

    Attributes:
        conversation_id: The conversation, which need not exist yet.
        request_id: The id of the message, unique in its conversation.
        definition: The name of the definition of the workers that answer it.
        text: The message as JSON text.
        due: The time from which on it may be answered, in seconds since the epoch.
        place: Its place in the order of acceptance. The store gives it, growing.
        state: "waiting" or "begun"; "cancelled" or "refused" if it will never be answered.
    """

    conversation_id: str
    request_id: str
    definition: str
    text: str
    due: float
    place: int = 0
    state: str = WAITING

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> Self:
        """Return the message of a row with all fields, in the order above."""
        # Stores keep rows in this order, so the fields are never sorted anew.
        names = [one.name for one in fields(cls)]
        return cls(**dict(zip(names, row, strict=True)))

    @property
    def is_open(self) -> bool:
        """True if it is still to be answered."""
        return self.state in (WAITING, BEGUN_MESSAGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedQuery:
    """The accepted messages to find.

    Attributes:
        now: Only messages that are due at this time, in seconds since the epoch; None: all.
        limit: At most this many.
        definition: Only messages for workers with this definition; None: all.
        conversation_id: Only messages of this conversation; None: of all.
        closed: True finds messages that will never be answered, too. It needs a `conversation_id`.
    """

    now: float | None = None
    limit: int = 100
    definition: str | None = None
    conversation_id: str | None = None
    closed: bool = False

    def admits(self, message: AcceptedMessage) -> bool:
        """Return true if a message matches. `limit` does not matter."""
        return (
            (self.closed or message.is_open)
            and (self.now is None or message.due <= self.now)
            and self.definition in (None, message.definition)
            and self.conversation_id in (None, message.conversation_id)
        )

    def page(self, messages: Iterable[AcceptedMessage]) -> Sequence[AcceptedMessage]:
        """Choose the messages that match, in order, for stores without indexes."""
        found = sorted(filter(self.admits, messages), key=_due_and_place)
        return tuple(found[: max(self.limit, 0)])


def _due_and_place(message: AcceptedMessage) -> tuple[float, int]:
    return message.due, message.place


class Store(Protocol):
    """The methods that the engine needs of a store. All of them raise StoreError if the store
    cannot be used.
    """

    async def load(self, conversation_id: str, request_id: str | None = None) -> Loaded | None:
        """Read a conversation.

        Args:
            conversation_id: The conversation.
            request_id: A request that may have been answered already.

        Returns:
            The conversation, with the record that answered the request; None if the conversation is
            unknown. It is a `LoadedWithJournal` if it has a journal with a step 0.
        """

    async def save(self, commit: Commit) -> None:
        """Write one turn, all or nothing, durably before it returns.

        Args:
            commit: The turn.

        Raises:
            ConversationConflict: The stored version is not `commit.expected`, or the request is
                answered already.
            StoreError: The store has no copy of the definition that the commit is pinned to. With
                `retryable` true, the conversation's lock was lost since it was taken.
        """

    async def records(
        self, conversation_id: str, after: int = 0, limit: int | None = None
    ) -> Sequence[str]:
        """Read turn records, in order.

        Args:
            conversation_id: The conversation.
            after: Only records with numbers above this one.
            limit: At most this many; None: all.

        Returns:
            The records; none for an unknown conversation.
        """

    async def journal(self, conversation_id: str, step: int, text: str) -> None:
        """Keep the result of one step of the unfinished turn, durably. Works before the first save,
        too.

        Args:
            conversation_id: The conversation.
            step: The number of the step.
            text: The result as JSON text.

        Raises:
            ConversationConflict: The step is written already; its first result stays.
            StoreError: With `retryable` true, the conversation's lock was lost.
        """

    async def journalled(self, conversation_id: str) -> Sequence[str]:
        """Read the results of the unfinished turn.

        Args:
            conversation_id: The conversation.

        Returns:
            The results, in order of their steps.
        """

    async def forget_journal(self, conversation_id: str) -> None:
        """Drop the journal of a turn that will not be finished.

        Args:
            conversation_id: The conversation.

        Raises:
            StoreError: With `retryable` true, the conversation's lock was lost.
        """

    async def unfinished(
        self,
        limit: int = 100,
        definitions: Collection[str] | None = None,
        *,
        after: str | None = None,
        parked: bool = False,
    ) -> Sequence[str]:
        """Find conversations with an open journal, without a look at conversations that have none.

        A journal is open if it has a step 0 and its last entry does not close it. An entry closes
        it if its JSON begins with a `kind` of `CLOSING_KINDS`. A store leaves out conversations
        whose lock a living process holds, as far as it can tell. The caller takes the lock before
        it does anything.

        Args:
            limit: At most this many.
            definitions: Only journals whose first entry has one of these names as its `definition`;
                None: all.
            after: Only conversations with ids after this one; None: from the first.
            parked: True finds the journals whose last entry is `parked` instead.

        Returns:
            Conversation ids, in order. The conversation need not have been saved yet.
        """

    async def accept(self, message: AcceptedMessage) -> AcceptedMessage:
        """Keep a message durably, without the lock of its conversation.

        Its `place` and `state` do not matter.

        Args:
            message: The message.

        Returns:
            The message as it is kept. If its request id is kept already for its conversation, the
            one from before, unchanged.
        """

    async def accepted(self, query: AcceptedQuery) -> Sequence[AcceptedMessage]:
        """Find accepted messages, without a look at conversations that have none.

        Args:
            query: The messages to find.

        Returns:
            The messages, in order of `due`, then of `place`.
        """

    async def mark_accepted(
        self, conversation_id: str, request_id: str, state: str, before: Collection[str]
    ) -> str | None:
        """Change the state of an accepted message, if it is one of `before`, in one step.

        Args:
            conversation_id: The conversation.
            request_id: The message.
            state: The new state.
            before: The states that it may have now.

        Returns:
            The state afterwards; None if there is no such message.
        """

    async def drop_accepted(self, conversation_id: str, request_id: str) -> None:
        """Remove an accepted message, for example because it is answered. May be repeated.

        Args:
            conversation_id: The conversation.
            request_id: The message.
        """

    def lock(
        self, conversation_id: str, timeout: float | None = None
    ) -> AbstractAsyncContextManager[None]:
        """Become the only writer of a conversation, in order of the requests.

        The lock ends when its owner ends, even by a crash. A lock that depends on a connection or
        on a lease can be lost earlier. A store that lost a lock writes nothing for that
        conversation until it has taken the lock again.

        Args:
            conversation_id: The conversation, which need not exist yet.
            timeout: Seconds to wait; None: for ever.

        Returns:
            A context manager that holds the lock.

        Raises:
            StoreError: On entering, with `retryable` true, after `timeout` seconds.
        """

    async def list(self, query: ListQuery) -> Sequence[Listed]:
        """List conversations, by default in order of their ids.

        Args:
            query: The conversations to list.

        Returns:
            One line for each.
        """

    async def count(self, query: ListQuery) -> int:
        """Count the conversations that a listing without `limit` would have.

        Args:
            query: The conversations to count. Its `limit` does not matter.

        Returns:
            Their number.
        """

    async def definition(self, sha: str) -> str | None:
        """Read a definition that a conversation is pinned to.

        Args:
            sha: Its SHA-256.

        Returns:
            Its text, as the commit gave it; None if there is none.
        """

    async def due(
        self, now: float, limit: int = 100, definition: str | None = None
    ) -> Sequence[DueRow]:
        """Read the due table, in order of time, then of ids.

        Args:
            now: Only rows up to this time, in seconds since the epoch.
            limit: At most this many rows.
            definition: Only conversations whose last commit had this name of a definition; None:
                all.

        Returns:
            The rows.
        """

    async def outbox(self, query: OutboxQuery) -> Sequence[Posted]:
        """Read the outbox, in order of conversation ids and then of commits.

        Args:
            query: The rows to read.

        Returns:
            The rows.
        """

    async def acknowledge(self, posted: Posted) -> None:
        """Drop a row of the outbox, and the rows of the same sink and conversation before it. May
        be repeated.

        Args:
            posted: The row.
        """

    async def delete(self, conversation_id: str) -> bool:
        """Remove everything about a conversation, and its definition if no other one is pinned to
        it.

        Args:
            conversation_id: The conversation.

        Returns:
            False if there was no such conversation; its journal and accepted messages are removed
            all the same.
        """

    async def close(self) -> None:
        """Free files and connections. The store cannot be used afterwards."""


Wake = Callable[[], None]
"""Tells a worker to look again. It returns at once, and may be called as often as you like."""
Listen = Callable[[Wake], Coroutine[Any, Any, None]]
"""The method `listen` of a store. A store need not have it.

It calls `wake` when it begins to listen, and after each accepted message of any process. It never
returns. If it cannot listen, or listens no longer, it raises StoreError. It may lose a call,
because a worker looks at intervals, too.
"""


def listener_of(store: Any) -> Listen | None:
    """Find the method by which a store tells that a message was accepted.

    Args:
        store: The store.

    Returns:
        Its `listen`; None if it tells nobody.
    """
    found: Listen | None = getattr(store, "listen", None)
    return found


async def every_unfinished(
    store: Store,
    definitions: Collection[str] | None = None,
    *,
    parked: bool = False,
    page: int = 100,
) -> AsyncGenerator[str]:
    """Yield the ids of all conversations that `Store.unfinished` finds, page by page.

    Args:
        store: The store.
        definitions: As in `Store.unfinished`.
        parked: As in `Store.unfinished`.
        page: The size of a page.

    Returns:
        Conversation ids, in order.

    Raises:
        StoreError: The store cannot be read.
    """
    after = None
    while True:
        names = await store.unfinished(page, definitions, after=after, parked=parked)
        for name in names:
            yield name
        if len(names) < page:
            return
        after = names[-1]


async def every_line(store: Store, query: ListQuery) -> AsyncGenerator[Listed]:
    """Yield the lines of all conversations that match a query, page by page.

    Args:
        store: The store.
        query: The query. Its `limit` is the size of a page.

    Returns:
        The lines, in the order of the query. A conversation that changes while a listing by time is
        read may come twice or be left out.

    Raises:
        StoreError: The store cannot be read.
    """
    while page := await store.list(query):
        for line in page:
            yield line
        query = query.following(page[-1])


def just_before(start: str) -> str:
    """Return a text after which a listing begins with the ids that begin with `start`, for
    `ListQuery.after`.

    Args:
        start: An id, or the beginning of ids. It is not empty.

    Returns:
        A text that sorts before all of them, and after every smaller id.
    """
    last = ord(start[-1]) - 1
    return start[:-1] + chr(0xD7FF if 0xD800 <= last <= 0xDFFF else last) + "\U0010ffff" * 200


async def kept_definition(store: Store, sha: str | None) -> str | None:
    """Read a definition from a store, and check it.

    Args:
        store: The store.
        sha: SHA-256 of the definition; None: it is not known.

    Returns:
        The text of the definition; None if the store has none.

    Raises:
        UnreadableError: The text has another SHA-256.
    """
    if sha is None:
        return None
    text = await store.definition(sha)
    if text is not None and sha256_of(text) != sha:
        raise UnreadableError(
            f"the definition {sha[:12]} in the store is damaged: its conversations were begun with another text. "
            "Restore the store from a backup"
        )
    return text
