"""Export, import and fork whole conversations.

The text of a conversation is JSON:
{"conversation": id, "format": 2, "definition": name, "created": seconds, "updated": seconds,
 "definition_sha": … or null, "definition_document": {…} or null, "session": {…}, "records": [{…},
 …], "checksum": SHA-256 of the text without it}
Undelivered events and a turn under way are not exported. A text of format 1 has no checksum.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from msgspec import structs

from llm_fsm._json import JsonDict, JsonMap, KeyTest, without
from llm_fsm._text import sha256_of
from llm_fsm.definition.subflows import read_document, secret_keys
from llm_fsm.definition.validation import describe
from llm_fsm.errors import ConversationNotFound, StoreError, UnreadableError
from llm_fsm.records.session_reader import SessionReader
from llm_fsm.session import events as ev
from llm_fsm.session.deadlines import due_rows, pause_kind
from llm_fsm.session.integrity import integrity_faults
from llm_fsm.session.large_values import without_large
from llm_fsm.session.redaction import blotted, shown_event
from llm_fsm.session.session import Session, dump_session, parse_session
from llm_fsm.session.turn_record import (
    Records,
    TurnRecord,
    dump,
    events_of,
    first_of,
    parse,
    replay,
    without_undone,
)
from llm_fsm.stores.base import (
    Commit,
    Listed,
    ListQuery,
    Loaded,
    Store,
    checked_id,
    checked_metadata,
    just_before,
    kept_definition,
)
from llm_fsm.turn.secrets import secrets_in

FORMAT = 2
_WAIT = 30.0
_PAGE = 500
_CLOSE = 0.01
"""Seconds. Stores round times."""
_YEAR_10000 = 253402300800


async def export(store: Store, conversation_id: str, *, with_secrets: bool = True) -> str:
    """Export a conversation as one JSON text in ASCII.

    Args:
        store: The store that holds it.
        conversation_id: The conversation.
        with_secrets: Whether values of secret keys stand in it. Otherwise dots take the place of
            each that was ever given.

    Raises:
        ConversationNotFound: There is none with this id.
        UnreadableError: A part of it is damaged, or nothing says which of its keys are secret.
    """
    async with store.lock(checked_id(conversation_id, "conversation id"), _WAIT):
        loaded, line, records = await _whole(store, conversation_id)
        text = await kept_definition(store, loaded.definition_sha)
        session, _ = await SessionReader(store).read(conversation_id, loaded.session)
    told = [parse(record) for record in records]
    parts = [json.loads(text) for text in (dump_session(session), *records)]
    if not with_secrets:
        secret = await _secret_keys(store, conversation_id, session, told)
        parts = _masked(told, session, secret.__contains__)
    document = {
        "conversation": conversation_id,
        "format": FORMAT,
        "definition": line.definition,
        "created": line.created,
        "updated": line.updated,
        "definition_sha": loaded.definition_sha,
        "definition_document": None if text is None else json.loads(text),
        "session": parts[0],
        "records": parts[1:],
    }
    return json.dumps({**document, "checksum": _checksum(document)}, separators=(",", ":"))


def _checksum(document: JsonMap) -> str:
    rest = without(document, {"checksum"})
    return sha256_of(json.dumps(rest, sort_keys=True))


async def _secret_keys(
    store: Store, conversation_id: str, session: Session, records: Iterable[TurnRecord]
) -> frozenset[str]:
    """Return the keys that are secret in any definition that the conversation ran on."""
    events = events_of(records)
    ran_on = {event.definition for event in events if isinstance(event, ev.Started | ev.Migrated)}
    texts = [await kept_definition(store, sha) for sha in ran_on | {session.definition}]
    if not any(texts):
        raise UnreadableError(
            f"the store does not keep the definition of {conversation_id!r}, which says what is "
            "secret: "
            "export it with its secrets"
        )
    known = (secret_keys(text) for text in texts if text is not None)
    return frozenset(chain.from_iterable(known))


def _masked(records: Records, session: Session, is_secret: KeyTest) -> list[JsonDict]:
    """Return a session and its records as JSON, with dots for all values that were ever given for
    secret keys."""
    events = list(events_of(records))
    secrets = secrets_in(events, is_secret, (session.context, session.root_context()))
    found = []
    for record in records:
        hidden = [blotted(secrets, shown_event(event, is_secret)) for event in record.events]
        found.append({**json.loads(dump(record)), "events": hidden})
    kept = [one for _, one in without_undone([parse(json.dumps(document)) for document in found])]
    return [json.loads(dump_session(replay(session.conversation_id, kept))), *found]


async def import_conversation(store: Store, text: str, conversation_id: str | None = None) -> str:
    """Import a conversation that `export` wrote.

    Args:
        store: The store that will hold it.
        text: The exported JSON.
        conversation_id: A new id; None keeps its own.

    Returns:
        The id of the conversation in this store.

    Raises:
        ValueError: The text is no exported conversation. The message says why.
        StoreError: A newer version exported it.
        ConversationConflict: The id exists.
    """
    if conversation_id is not None:
        checked_id(conversation_id, "conversation id")
    try:
        document = _object(text)
        name = conversation_id or checked_id(document["conversation"], "conversation id")
        if document["format"] not in (1, FORMAT):
            raise StoreError(
                f"this conversation was exported in format {document['format']!r}; this version "
                "reads format "
                f"{FORMAT}: upgrade llm-fsm"
            )
        checksum = None if document["format"] == 1 else document["checksum"]
        pin, pinned = document["definition_sha"], document["definition_document"]
        records = [parse(json.dumps(record)) for record in document["records"]]
        session = parse_session(json.dumps(document["session"]))
        line = Listed(
            conversation_id=name,
            definition=str(document["definition"]),
            state=session.state,
            ended=session.ended,
            turns=len(records),
            created=_moment(document["created"]),
            updated=_moment(document["updated"]),
            definition_sha=pin,
            metadata=checked_metadata(session.metadata),
        )
    except RecursionError as error:
        raise ValueError("this is no exported conversation: it is nested too deep") from error
    except KeyError as error:
        raise ValueError(f"this is no exported conversation: it has no {error}") from error
    except (TypeError, AttributeError) as error:
        raise ValueError(f"this is no exported conversation: {error!r}") from error
    except (ValueError, UnreadableError) as error:
        raise ValueError(f"this is no exported conversation: {error}") from error
    if not records:
        raise ValueError("this is no exported conversation: it has no records")
    definition = None if pinned is None else json.dumps(pinned, separators=(",", ":"))
    if definition is not None and sha256_of(definition) != pin:
        raise ValueError(
            "this is no exported conversation: its definition is not the one that it is pinned to"
        )
    found = (*integrity_faults(session, records), *listing_faults(line, records, definition))
    fault = next(iter(found), None)
    if fault is not None:
        raise ValueError(f"this is no exported conversation, or was changed since: {fault}")
    if checksum not in (None, _checksum(document)):
        raise ValueError("this was changed since it was exported: its checksum is another one")
    await _keep(store, line, session, records, definition)
    return name


async def fork(store: Store, conversation_id: str, new_id: str, turn: int | None = None) -> None:
    """Copy a conversation to a new id, as it was after a turn (None: as it is now).

    Raises:
        ConversationNotFound: There is none with this id.
        ConversationConflict: The new id exists.
        ValueError: There is no such turn.
    """
    checked_id(new_id, "conversation id")
    async with store.lock(checked_id(conversation_id, "conversation id"), _WAIT):
        loaded, line, texts = await _whole(store, conversation_id)
        records = [parse(text) for text in texts]
        head, _ = await SessionReader(store).read(conversation_id, loaded.session)
        session = head
        if turn is not None:
            records, session = _until(conversation_id, records, turn)
            session = structs.replace(session, acts=head.acts)
        pinned = await kept_definition(store, session.definition)
    updated = line.updated if records[-1].time is None else records[-1].time
    copy = replace(line, conversation_id=new_id, definition_sha=session.definition, updated=updated)
    await _keep(store, copy, session, records, pinned)


async def _whole(store: Store, conversation_id: str) -> tuple[Loaded, Listed, Sequence[str]]:
    loaded = await store.load(conversation_id)
    line = await line_of(store, conversation_id)
    records = await store.records(conversation_id)
    # A conversation can be deleted without its lock.
    if loaded is None or line is None or not records:
        raise ConversationNotFound(f"there is no conversation {conversation_id!r} in this store")
    return loaded, line, records


async def line_of(store: Store, conversation_id: str) -> Listed | None:
    """Find a conversation's line in the listing. It is the first line after all smaller ids."""
    page = await store.list(ListQuery(after=just_before(conversation_id), limit=1))
    return page[0] if page and page[0].conversation_id == conversation_id else None


def listing_faults(line: Listed, records: Records, definition: str | None) -> Sequence[str]:
    """Return sentences that say which columns of a conversation's line disagree with its records.

    Args:
        line: The line of the listing.
        records: All its records.
        definition: The text of the definition that it is pinned to; None if nobody knows it.
    """
    times = (
        ("created", line.created, records[0].time),
        ("updated", line.updated, records[-1].time),
    )
    known = [(name, shown, was) for name, shown, was in times if was is not None]
    wrong = [name for name, shown, was in known if abs(shown - was) > _CLOSE]
    name = line.definition if definition is None else read_document(definition).root.definition.name
    wrong += ["definition"] if line.definition != name else []
    wrong += ["metadata"] if dict(line.metadata) != _labels(records[0]) else []
    return [f"the listing shows another value of {name!r} than its records have" for name in wrong]


def _labels(record: TurnRecord) -> dict[str, str]:
    """Return the labels that a conversation began with."""
    began = first_of(record.events, ev.Started)
    return {} if began is None else dict(began.metadata)


def _until(name: str, records: Records, turn: int) -> tuple[list[TurnRecord], Session]:
    """Return the records up to the last one of a turn, without undone turns, and the session after
    it."""
    ends = [number for number, record in without_undone(records) if record.turn == turn]
    if not ends:
        turns = sorted({record.turn for _, record in without_undone(records)})
        raise ValueError(
            f"conversation {name!r} has no turn {turn}; its turns are {', '.join(map(str, turns))}"
        )
    kept = list(records[: ends[-1]])
    return kept, replay(name, [record for _, record in without_undone(kept)])


async def _keep(
    store: Store, line: Listed, session: Session, records: Records, pinned: str | None
) -> None:
    """Write a whole conversation in one commit, under the id in `line`."""
    name = line.conversation_id
    session = structs.replace(session, conversation_id=name)
    lasting = {"origin": session.origin, "acts": session.acts}
    appended = []
    merged = []
    for number, record in enumerate(records, 1):
        request_ids = record.request_ids
        first = request_ids[0] if request_ids else None
        appended.append((dump(_renamed(record, name, lasting)), first))
        merged += [(other, number) for other in request_ids[1:]]
    *earlier, (last, request_id) = appended
    lean, large, _ = without_large(
        session, (), {number: record.events for number, record in enumerate(records, 1)}
    )
    async with store.lock(name, _WAIT):
        await store.save(
            Commit(
                conversation_id=name,
                expected=0,
                session=dump_session(lean, large),
                record=last,
                request_id=request_id,
                merged=tuple(merged),
                earlier=tuple(earlier),
                definition=line.definition,
                state=session.state,
                ended=session.ended,
                time=line.updated,
                created=line.created,
                due=due_rows(session),
                definition_sha=line.definition_sha if pinned is not None else None,
                definition_text=pinned,
                metadata=session.metadata,
                paused=pause_kind(session),
            )
        )


def _object(text: str) -> JsonDict:
    """Read the object of a JSON text.

    Raises:
        ValueError: It is no object.
        RecursionError: It is nested too deep.
    """
    found = json.loads(text, parse_float=_finite, parse_constant=_finite)
    if isinstance(found, dict):
        return found
    raise ValueError(f"it is {describe(found)}, not an object")


def _finite(given: str) -> float:
    """Read a number of a JSON text.

    Raises:
        ValueError: It is NaN or not finite.
    """
    number = float(given)
    if not math.isfinite(number):
        raise ValueError(f"{given:.20} is no number that JSON can hold")
    return number


def _moment(given: object) -> float:
    """Check a time in seconds since the epoch.

    Raises:
        ValueError: It is none.
    """
    if (
        isinstance(given, bool)
        or not isinstance(given, int | float)
        or not 0 <= given < _YEAR_10000
    ):
        raise ValueError(f"{given!r} is no time in seconds since the epoch")
    return float(given)


def _renamed(record: TurnRecord, name: str, lasting: JsonMap) -> TurnRecord:
    """Put the new id into a record, wherever it names the conversation.

    `lasting`: what a copy keeps, so that no act is done once more in it.
    """
    events = tuple(_told_of(event, name, lasting) for event in record.events)
    return structs.replace(record, events=events)


def _told_of(event: ev.Event, name: str, lasting: JsonMap) -> ev.Event:
    match event:
        case ev.Started() if event.conversation_id != name:
            return structs.replace(event, conversation_id=name, **lasting)
        case ev.TurnUndone():
            return structs.replace(event, session={**event.session, "conversation_id": name})
    return event
