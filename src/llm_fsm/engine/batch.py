"""A batch: a file of inputs, and one conversation of a machine for each of its lines.

Line 7 of the batch `BATCH` is the conversation `BATCH/7`. Its lock is the claim on the line, and
its record is the result. So a batch needs no queue and no table: any number of processes may play
the same file on one store. A line that a killed process left goes on where its last turn was saved.

Open `play_lines` first. `read_lines` reads a file, and `result_of` reads a result from the store.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from msgspec.structs import asdict

from llm_fsm._async import cancel_all
from llm_fsm._json import JsonDict, JsonMap
from llm_fsm.engine.conversation import turn_of
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.engine.turn_runner import TurnResult
from llm_fsm.engine.validation import checked_message
from llm_fsm.errors import (
    ConfigurationError,
    ConversationConflict,
    DefinitionError,
    LLMFSMError,
    StoreError,
    UnreadableError,
    told,
)
from llm_fsm.session.events import Started
from llm_fsm.session.messages import Usage
from llm_fsm.session.redaction import blotted, shown_values
from llm_fsm.session.session import Session
from llm_fsm.session.turn_record import Records, events_of, first_of, parse, replay, transcript
from llm_fsm.stores.base import ListQuery, Store
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.secrets import secrets_in

LIMIT = 8
"""Lines that one process plays at a time."""
_AWAY = 60.0
"""Seconds that the store may be away before a batch ends."""
_PAUSE = 0.25
"""Seconds between two looks at a line that another process plays."""
_KEYS = frozenset({"input", "messages", "context"})

ERROR = "error"
"""The outcome of a line whose turn failed. It is played again by the next call."""
INVALID = "invalid"
"""The outcome of a line that could not be read."""


class LineFault(ValueError):
    """A line of a batch that cannot be played, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLine:
    """One line of a batch.

    Attributes:
        number: Its number in the file, from 1.
        conversation_id: The conversation that it is.
        input: The input of a run, as JSON.
        messages: The messages of a user; None: the line is a run.
        context: Values that are known from the start.
    """

    number: int
    conversation_id: str
    input: Any = None
    messages: tuple[str, ...] | None = None
    context: JsonMap | None = None

    def request_id(self, place: int) -> str:
        """Return the request id of a message, by its place from 0."""
        return f"{self.conversation_id}/{place + 1}"

    @property
    def request_ids(self) -> frozenset[str]:
        """The request ids of all messages; none for a run."""
        return frozenset(self.request_id(place) for place in range(len(self.messages or ())))


@dataclass(slots=True)
class Batch:
    """The lines of a file: those that can be played, and the faults of the others by number."""

    lines: list[BatchLine] = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.lines) + len(self.faults)


def read_lines(data: bytes, name: str, *, talks: bool, context: JsonMap | None = None) -> Batch:
    """Read the lines of a batch. Blank lines do not count as lines of the batch.

    Args:
        data: The file: `{"input": …}` or `{"messages": […]}` a line, each with `context` if needed.
        name: The name of the batch, with which the ids of its conversations begin.
        talks: True if the definition begins by talking to a user, and needs messages.
        context: Values that are known at the start of every line.

    Returns:
        The batch.
    """
    batch = Batch()
    # Blank lines keep their numbers, because the number is part of a conversation's id.
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            batch.lines.append(_read(line, number, name, talks=talks, context=context))
        except LineFault as fault:
            batch.faults[number] = str(fault)
    return batch


def _read(
    line: bytes, number: int, name: str, *, talks: bool, context: JsonMap | None
) -> BatchLine:
    document = _document(line)
    unknown = sorted(document.keys() - _KEYS)
    if unknown:
        raise LineFault(
            f"has the key {unknown[0]!r:.60}; it may have input or messages, and context"
        )
    if ("input" in document) is ("messages" in document):
        raise LineFault("needs one of input and messages")
    if talks and "input" in document:
        raise LineFault("has an input, but the definition begins by talking: give messages")
    if not talks and "messages" in document:
        raise LineFault("has messages, but the definition begins with work: give an input")
    own = document.get("context")
    if own is not None and not isinstance(own, dict):
        raise LineFault("has a context that is no object")
    return BatchLine(
        number=number,
        conversation_id=f"{name}/{number}",
        input=document.get("input"),
        messages=_messages(document["messages"]) if "messages" in document else None,
        context={**(context or {}), **(own or {})} or None,
    )


def _document(line: bytes) -> JsonDict:
    try:
        # Spreadsheets write a mark before the first line.
        document = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise LineFault(f"is not UTF-8 at byte {error.start + 1}") from error
    except (ValueError, RecursionError) as error:
        raise LineFault(f"is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise LineFault('is no object such as {"input": …} or {"messages": […]}')
    return document


def _messages(given: object) -> tuple[str, ...]:
    if not isinstance(given, list) or not given:
        raise LineFault("needs a list of messages, with one at least")
    return tuple(_message(message, place) for place, message in enumerate(given, 1))


def _message(given: object, place: int) -> str:
    """Return the text of a message: a text, or an object in the form of chat APIs."""
    text = given
    if isinstance(given, dict) and given.get("role") == "user":
        text = given.get("content")
    if not isinstance(text, str):
        raise LineFault(
            f'needs texts or {{"role": "user", "content": …}} as messages; number {place} is neither'
        )
    try:
        return checked_message(text)
    except ValueError as error:
        raise LineFault(f"has a message that is none, number {place}: {error}") from error


# -- playing


async def in_order(store: Store, name: str, lines: Sequence[BatchLine]) -> Sequence[BatchLine]:
    """Return the lines in the order in which this process shall play them.

    A batch that nobody has begun is played from its first line on. A process that joins others
    takes an order of its own, so that they seldom meet at a line.
    """
    # Results come in the order of the file while one process plays alone.
    if not await store.list(ListQuery(begins=f"{name}/", limit=1)):
        return lines
    mixed = list(lines)
    random.Random().shuffle(mixed)
    return mixed


class _Patience:
    """The time for which the store has not answered."""

    def __init__(self) -> None:
        self._since: float | None = None

    def answered(self) -> None:
        """The store is there."""
        self._since = None

    def away(self, error: StoreError) -> None:
        """The store did not answer. Raises the error when it has been away for too long."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        # A restart of a server takes seconds. What is away longer needs a person.
        if not error.retryable or now - self._since > _AWAY:
            raise error


async def play_lines(
    machine: AsyncMachine,
    lines: Iterable[BatchLine],
    on_result: Callable[[JsonDict], None],
    *,
    limit: int = LIMIT,
) -> None:
    """Play lines until each has a result, here or in another process.

    Args:
        machine: The machine.
        lines: The lines.
        on_result: Receives the result of each line once, in any order; see `result_of`.
        limit: Lines that are played at a time.

    Raises:
        ConfigurationError: The model, a tool or a function cannot be used.
        StoreError: The store cannot be used, or has been away for a minute.
    """
    fresh, held = deque(lines), deque[BatchLine]()
    patience = _Patience()

    async def work() -> None:
        while fresh or held:
            # Fresh lines first: a held one is played by another process just now.
            if fresh:
                line = fresh.popleft()
            else:
                line = held.popleft()
                await asyncio.sleep(_PAUSE)
            result = await _result(machine, line, patience)
            if result is None:
                # Never dropped: the other process may die, and the line is free again.
                held.append(line)
            else:
                on_result(result)

    tasks = [asyncio.create_task(work()) for _ in range(max(1, limit))]
    try:
        await asyncio.gather(*tasks)
    finally:
        await cancel_all(tasks)


async def _result(machine: AsyncMachine, line: BatchLine, patience: _Patience) -> JsonDict | None:
    """Return the result of a line; None if it is to be tried again later."""
    try:
        result = await _played(machine, line)
    except (ConfigurationError, DefinitionError):
        raise  # every further line would fail alike
    except UnreadableError as error:
        return failure(line, told(error))
    except StoreError as error:
        patience.away(error)
        return None
    except (LLMFSMError, ValueError) as error:
        return failure(line, told(error))
    patience.answered()
    return result


async def _played(machine: AsyncMachine, line: BatchLine) -> JsonDict | None:
    """Play a line to its end; None if another process has it."""
    result = await result_of(machine, line)
    if result is not None:
        return result
    # Asked before the turn, which would wait for the lock as long as a turn may take.
    if not await _is_free(machine.store, line.conversation_id):
        return None
    if line.messages is None:
        await machine.run(line.input, line.context, line.conversation_id)
    else:
        await _talk(machine, line, line.messages)
    return await result_of(machine, line)


async def _is_free(store: Store, conversation_id: str) -> bool:
    """Return false if somebody holds the lock of a conversation. Raises StoreError."""
    try:
        async with store.lock(conversation_id, 0.0):
            return True
    except StoreError as error:
        if not error.retryable:
            raise
    await store.records(conversation_id, limit=1)  # raises if the store itself is away
    return False


async def _talk(machine: AsyncMachine, line: BatchLine, messages: Sequence[str]) -> None:
    """Send all messages. Those that were answered before give their recorded turns."""
    conversation = await machine.open(line.conversation_id, line.context)
    for place, message in enumerate(messages):
        # Messages behind an end are no fault of the line: the definition decides when it is over.
        if conversation.ended or conversation.paused is not None:
            return
        await conversation.send(message, request_id=line.request_id(place))


# -- results


async def result_of(machine: AsyncMachine, line: BatchLine) -> JsonDict | None:
    """Read the result of a line from the store.

    Args:
        machine: The machine.
        line: The line.

    Returns:
        {"line", "conversation", "outcome", "state", "output", "messages", "context", "usage"} as
        JSON; None if the line has not come to its end. Values of secret keys are dots.

    Raises:
        StoreError: The conversation cannot be read.
        ConversationConflict: It was begun with another line, under the same name of a batch.
    """
    texts = await machine.store.records(line.conversation_id)
    records = [parse(text) for text in texts]
    if not records:
        return None
    _check_same(line, records)
    session = replay(line.conversation_id, records)
    # Another process may be in the middle of it.
    if not _is_over(machine.program, line, session, records):
        return None
    turn = turn_of(TurnResult(record=records[-1], session=session))
    events = events_of(records)
    is_secret = machine.program.is_secret
    secrets = secrets_in(events, is_secret)
    said = [{"role": message.role, "content": message.text} for message in transcript(records)]
    context = shown_values(turn.context, is_secret)
    found: JsonDict = blotted(
        secrets,
        {
            "outcome": turn.outcome or "talking",
            "state": turn.state,
            "output": turn.output,
            "messages": said,
            "context": context,
        },
    )
    usage = sum((record.usage for record in records), Usage())
    head = {"line": line.number, "conversation": line.conversation_id}
    return {**head, **found, "usage": asdict(usage)}


def _check_same(line: BatchLine, records: Records) -> None:
    """Check that a conversation was begun with this line. Raises ConversationConflict."""
    what = ""
    started = first_of(records[0].events, Started)
    # Another input under the same name would silently give the result of the old one.
    if line.messages is None and started is not None and started.input != line.input:
        what = "input"
    expected = {line.request_id(place): text for place, text in enumerate(line.messages or ())}
    for record in records:
        heard = record.user_message
        wanted = None if heard is None else expected.get(heard.request_id or "")
        if heard is not None and wanted is not None and wanted != heard.text:
            what = "message"
    if what:
        raise ConversationConflict(
            f"conversation {line.conversation_id!r} was begun with another {what}; "
            "give the changed file a new name of a batch"
        )


def _is_over(program: CompiledMachine, line: BatchLine, session: Session, records: Records) -> bool:
    """Return true if nothing is left to do for a line."""
    if session.ended or session.pause is not None:
        return True
    if line.messages is None:
        state = program.states.get(session.state)
        # A run that has come to a user goes no further by itself.
        return state is not None and state.kind == "converse"
    answered = chain.from_iterable(record.request_ids for record in records)
    return line.request_ids <= set(answered)


def failure(line: BatchLine, reason: str) -> JsonDict:
    """Return the result of a line whose turn failed."""
    return {
        "line": line.number,
        "conversation": line.conversation_id,
        "outcome": ERROR,
        "error": reason,
    }


def invalid(number: int, name: str, fault: str) -> JsonDict:
    """Return the result of a line that could not be read."""
    return {
        "line": number,
        "conversation": f"{name}/{number}",
        "outcome": INVALID,
        "error": f"line {number} {fault}",
    }
