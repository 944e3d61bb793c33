"""Find the conversation of a transcript, for clients that send all messages every time.

The messages before the last one are looked up by their digest; see `transcript_index`. Three
digests lead to a turn: of all messages up to the question, of these with the answer, and of the
last question and answer alone. So a client may show half an answer, an edited or a lost one, or
only the end of the conversation.

The address of a transcript is its token, its definition, and the user and chat that the client
names. Users without a name may have the same messages. If a transcript fits several conversations,
the caller forks one of them.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from llm_fsm import AsyncMachine, ConversationNotFound, Turn
from llm_fsm import events as ev
from llm_fsm._json import json_text
from llm_fsm._text import sha256_of
from llm_fsm.errors import StoreError
from llm_fsm.languages import LANGUAGE, certain_sentence
from llm_fsm.server import transcript_index as index
from llm_fsm.server.machines import Served
from llm_fsm.server.rights import is_random, is_shared
from llm_fsm.server.secrecy import Redactor
from llm_fsm.server.service import Service
from llm_fsm.server.tokens import MARK, Caller
from llm_fsm.server.transcript_index import Entry
from llm_fsm.server.views import COLLEAGUE
from llm_fsm.session.turn_record import TurnRecord, parse, without_undone

_PREFIX = "t-"
_ADDRESS_CHARS = 16
_MARK_CHARS = 40
_NEAR = 8
"""Messages from the end that are looked up one by one. Further back, the last known one is found by
halving.
"""
_RETRY_SECONDS = 60.0
"""A client library tries again within a few seconds. Later, an equal message is another user's."""
_UNDER_WAY_SECONDS = 600.0
"""A turn that was asked longer ago is not waited for."""
_WAIT_SECONDS = 60.0
_JOINT = "\n\n"
_MOST_WAITING = 20
"""Messages without an answer that are looked at. More of them come from a client that never got
one.
"""


class Said(NamedTuple):
    """A message of a transcript: its role and its text."""

    role: str
    text: str


Transcript = Sequence[Said]
"""The messages of a client, oldest first."""


@dataclass(frozen=True, slots=True)
class Address:
    """The owner of a transcript. `is_named`: the client names its user or chat."""

    caller: Caller
    machine: AsyncMachine
    digest: str
    is_named: bool

    @property
    def id_prefix(self) -> str:
        """The beginning of the ids of its conversations."""
        return f"{_PREFIX}{self.digest[:_ADDRESS_CHARS]}-"


class Exchange(NamedTuple):
    """A turn on record, as it is in a transcript."""

    turn: int
    request_id: str | None
    said: Said
    words: str
    time: float


@dataclass(frozen=True, slots=True)
class TranscriptPoint:
    """A conversation as it was after a turn.

    `goes_on`: it may continue in place; otherwise it is forked after `turn`. `joined`: places of
    messages that were never answered, and are sent along with the last one.
    """

    served: Served
    turn: int
    goes_on: bool
    joined: tuple[int, ...] = ()


class _Fit(NamedTuple):
    """The comparison of messages with a conversation: the last exchange that they have, and
    unanswered ones.

    `is_faithful`: no answer differs from the recorded one. `is_lost`: an answer follows a message
    that is not on record.
    """

    place: int
    joined: tuple[int, ...]
    is_faithful: bool
    is_lost: bool


def address_of(caller: Caller, machine: AsyncMachine, names: Sequence[tuple[str, str]]) -> Address:
    """Return the address of a transcript. `names`: what the client says of its user and chat."""
    owner = [caller.name, machine.definition.name, sorted(names)]
    return Address(caller, machine, _digest(owner), bool(names))


def words_of(served: Served, turn: Turn) -> str:
    """Return the text of a turn in a transcript, with its pause as text."""
    return _words(served, turn.text, turn.paused)


def _words(served: Served, text: str, paused: Any) -> str:
    return "\n\n".join(part for part in (text, pause_words(served, text, paused)) if part)


def pause_words(served: Served, text: str, paused: Any) -> str:
    """Describe a pause in one sentence, after the text of its turn; "" if there is none, or if the
    text says it.
    """
    # a person answers, and the state's reply says so
    if paused is None or paused.messages == "record":
        return ""
    if not served.may_answer(paused):
        definition = served.machine.definition
        chosen = served.chat.context.get(LANGUAGE) if definition.languages else None
        notice = certain_sentence(chosen or definition.language, "somebody_answers")
        is_said = text.endswith(notice) or (paused.kind == "wait" and text != "")
        return "" if is_said else COLLEAGUE
    call = paused.call
    about = f" of {call['name']}({json_text(call['arguments'])})" if call else ""
    how = (
        'answer {"approved": true} or {"approved": false}'
        if paused.kind == "approval"
        else "answer with JSON"
    )
    return f"[waiting for {paused.what}{about}: {how}]"


def answer_text(value: Any) -> str:
    """Return an answer in the form of transcripts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def exchanges(served: Served, records: Iterable[TurnRecord]) -> list[Exchange]:
    """Return the exchanges of a conversation, without turns that were undone."""
    found = []
    for _, record in without_undone(records):
        asked = None
        paused = None
        for event in record.events:
            if asked is None and isinstance(event, ev.UserSaid | ev.Answered):
                asked = event
            elif isinstance(event, ev.Paused):
                paused = event
        if asked is not None:
            words = _words(served, record.text, paused)
            said = _said_by(asked)
            found.append(Exchange(record.turn, asked.request_id, said, words, asked.time))
    return found


def _said_by(event: ev.UserSaid | ev.Answered) -> Said:
    if isinstance(event, ev.UserSaid):
        return Said("user", event.text)
    return Said("tool", answer_text(event.value))


# -- digests


def _digest(value: object) -> str:
    return sha256_of(json.dumps(value, separators=(",", ":")))


def _next(mark: str, said: Said) -> str:
    return _digest([mark, said.role, said.text.strip()])[:_MARK_CHARS]


def marks(address: Address, messages: Iterable[Said]) -> list[str]:
    """Return the digest of the messages up to each one."""
    found = []
    mark = address.digest
    for said in messages:
        mark = _next(mark, said)
        found.append(mark)
    return found


def named_mark(address: Address, messages: Iterable[Said], name: str, after: str | None) -> str:
    """Return the digest of messages to a conversation that the client names."""
    said = marks(address, messages)[-1]
    return _digest([said, name, after])[:_MARK_CHARS]


def _pair_key(id_prefix: str, asked: Said, words: str) -> str:
    """Return the key of a question and its answer alone."""
    return _digest([id_prefix, asked.role, asked.text.strip(), words.strip()])[:_MARK_CHARS]


def new_request_id(mark: str) -> str:
    """Return a request id for the turn of a transcript, which tells its digest."""
    return f"{_PREFIX}{mark}-{secrets.token_hex(6)}"


def _keys_of(conversation: str, found: Sequence[Exchange]) -> set[str]:
    """Return the keys under which the exchanges of a conversation are in the index."""
    id_prefix = conversation[: len(_PREFIX) + _ADDRESS_CHARS + 1]
    keys = set()
    for exchange in found:
        last = exchange.said.text.rpartition(_JOINT)[2]  # of several messages that were joined
        for text in (exchange.said.text, last):
            keys.add(_pair_key(id_prefix, Said(exchange.said.role, text), exchange.words))
        request_id = exchange.request_id or ""
        if request_id.startswith(_PREFIX):
            mark = request_id[len(_PREFIX) :][:_MARK_CHARS]
            keys |= {mark, _next(mark, Said("assistant", exchange.words))}
    return keys


# -- the search


class Transcripts:
    """Finds conversations by their messages."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def asked(self, address: Address, messages: Transcript, entry: Entry) -> None:
        """Register a turn that is about to answer the last message."""
        await index.add(address.machine.store, marks(address, messages)[-1], entry)

    async def answered(self, address: Address, messages: Transcript, entry: Entry) -> None:
        """Register a turn under messages that end with its answer."""
        store = address.machine.store
        keys = [marks(address, messages)[-1]]
        *before, asked, answer = messages
        # else the digest of all messages is as exact
        if any(said.role == "user" for said in before):
            keys.append(_pair_key(address.id_prefix, asked, answer.text))
        await asyncio.gather(*(index.add(store, key, entry) for key in keys))

    async def forget(self, served: Served) -> None:
        """Remove a conversation from the index, before it is deleted."""
        # the id as its owner knows it, whoever deletes it
        name = served.stored.rpartition(MARK)[2]
        if name.startswith(_PREFIX):
            await index.remove(served.store, _keys_of(name, await self._exchanges(served)), name)

    async def retried(
        self, address: Address, messages: Transcript, key: str | None
    ) -> tuple[Served, Entry] | None:
        """Return the turn that has answered just these messages, or answers them now; None if it is
        not certain.

        `key`: the request id that it must have; None: one turn alone was asked in the last seconds.
        Of callers without a token, an equal message is as likely another user's.
        """
        if is_shared(address.caller) and not is_random(key or ""):
            return None
        found = await index.entries(address.machine.store, marks(address, messages)[-1])
        if key is None:
            since = time.time() - _RETRY_SECONDS
            found = [entry for entry in found if entry.time >= since]
            if len({entry.conversation for entry in found}) != 1:
                return None
        else:
            found = [entry for entry in found if entry.request_id == key]
        for entry in reversed(found):
            served = await self._served(address.caller, entry)
            if served is not None:
                return served, entry
        return None

    async def find(self, address: Address, before: Transcript) -> TranscriptPoint | None:
        """Return the conversation of these messages, the last of which was answered; None if there
        is none.
        """
        if not before:
            return None
        chain = marks(address, before)
        found = await self._longest(address, before, chain)
        if found is not None and not found[1].is_lost:
            return self._point(*found)
        end = await self._by_end(address, before)
        if end is not None:
            return end
        return None if found is None else self._point(*found)

    def _point(self, held: _Held, fit: _Fit) -> TranscriptPoint:
        is_head = fit.place == len(held.exchanges) - 1
        goes_on = is_head and fit.is_faithful and held.is_alone
        if is_shared(held.served.caller):  # who knows the messages need not have had them
            goes_on = False
        return TranscriptPoint(held.served, held.exchanges[fit.place].turn, goes_on, fit.joined)

    async def _longest(
        self, address: Address, before: Transcript, chain: Sequence[str]
    ) -> tuple[_Held, _Fit] | None:
        """Return the conversation that has the most of the first messages."""
        near = range(len(before) - 1, max(len(before) - 1 - _NEAR, -1), -1)
        for place in near:
            found = await self._at(address, before, chain, place)
            if found is not None:
                return found
        far = await self._last_known(address, before[: near[-1]], chain)
        return None if far is None else await self._at(address, before, chain, far)

    async def _last_known(
        self, address: Address, before: Transcript, chain: Sequence[str]
    ) -> int | None:
        """Return the place of the last question with a known digest. If one is known, all before it
        are.
        """
        asked = [place for place, said in enumerate(before) if said.role != "assistant"]
        low, high = 0, len(asked)
        while low < high:
            middle = (low + high) // 2
            if await index.entries(address.machine.store, chain[asked[middle]]):
                low = middle + 1
            else:
                high = middle
        return asked[low - 1] if low else None

    async def _at(
        self, address: Address, before: Transcript, chain: Sequence[str], place: int
    ) -> tuple[_Held, _Fit] | None:
        """Return the conversation that fits best among those that have the messages up to a place."""
        best = None
        for held in await self._held(address, chain[place]):
            fit = _fit(held, before, place)
            if best is None or _worth(fit) > _worth(best[1]):
                best = held, fit
        return best

    async def _held(self, address: Address, key: str) -> list[_Held]:
        """Return the conversations with a key, newest first, whose turn of that key is on record."""
        known = await index.entries(address.machine.store, key)
        is_alone = len({entry.conversation for entry in known}) == 1
        found = []
        for entry in reversed(known):
            served = await self._served(address.caller, entry)
            if served is None:
                continue
            recorded = await self._exchanges(served)
            place = _place_of(recorded, entry)
            if place is None:
                await self._settled(served, entry)
                recorded = await self._exchanges(served)
                place = _place_of(recorded, entry)
            if place is not None:
                shown = await self._service.shown(served)
                found.append(_Held(served, recorded, place, is_alone, shown))
        return found

    async def _by_end(self, address: Address, before: Transcript) -> TranscriptPoint | None:
        """Return the conversation that ends with the last messages, for a client that has trimmed
        or edited the others.

        Without a name of the user, it must be the only one: another one may be another user's. A
        caller without a token must show all messages: the last ones alone can be guessed.
        """
        if is_shared(address.caller):
            return None
        answered = [place for place in range(1, len(before)) if before[place].role == "assistant"]
        if not answered or before[answered[-1] - 1].role == "assistant":
            return None
        last = answered[-1]
        key = _pair_key(address.id_prefix, before[last - 1], before[last].text)
        held = await self._held(address, key)
        if not held or not (held[0].is_alone or address.is_named):
            return None
        fit = _fit(held[0], before, last)
        return self._point(held[0], fit)

    async def asked_again(self, served: Served, mark: str) -> str | None:
        """Return the request id of the last turn, if it has a mark and was asked a short while ago;
        else None. It waits for a turn that is under way. Raises StoreError if that takes long.
        """
        await self._idle(served)
        # an earlier turn is another message with the same words, such as a second yes
        for last in (await self._exchanges(served))[-1:]:
            since = time.time() - _UNDER_WAY_SECONDS - _RETRY_SECONDS
            asked = last.request_id or ""
            if last.time >= since and asked.startswith(f"{_PREFIX}{mark}-"):
                return asked
        return None

    async def role_of(self, served: Served, request_id: str) -> str | None:
        """Return the role of the message on record with a request id; None if there is none."""
        for one in await self._exchanges(served):
            if one.request_id == request_id:
                return one.said.role
        return None

    async def unanswered(self, served: Served, before: Transcript) -> tuple[int, ...]:
        """Return the places of the last messages that this conversation has not heard."""
        waiting: list[int] = []
        for place in range(len(before) - 1, -1, -1):
            if before[place].role != "user" or len(waiting) == _MOST_WAITING:
                break
            waiting.insert(0, place)
        if not waiting:
            return ()
        with suppress(StoreError):
            await self._idle(served)
        recorded = await self._exchanges(served)
        last = recorded[-1].said.text if recorded else ""
        return tuple(waiting[_heard([before[place].text for place in waiting], last) :])

    # -- conversations

    async def _served(self, caller: Caller, entry: Entry) -> Served | None:
        try:
            return await self._service.find(caller, entry.conversation, fresh=True)
        except ConversationNotFound:
            return None

    async def _exchanges(self, served: Served) -> list[Exchange]:
        texts = await served.store.records(served.stored)
        shown = await self._service.shown(served)
        found = exchanges(served, map(parse, texts))
        return [one._replace(words=shown.text(one.words)) for one in found]

    async def _settled(self, served: Served, entry: Entry) -> None:
        """Wait for a turn that may be under way, here or in another process."""
        live = self._service.turns.find(served.stored, entry.request_id)
        if live is not None:
            await live.settle(_WAIT_SECONDS)
        elif time.time() - entry.time < _UNDER_WAY_SECONDS:
            with suppress(StoreError):
                await self._idle(served)

    async def _idle(self, served: Served) -> None:
        """Wait until no turn of the conversation runs, by taking its lock."""
        async with served.store.lock(served.stored, _WAIT_SECONDS):
            return


class _Held(NamedTuple):
    """A conversation that a key led to, with the place of the exchange of that key.

    `is_alone`: the key led to no other one. `shown` takes its secrets out of what the client says
        of it.
    """

    served: Served
    exchanges: Sequence[Exchange]
    place: int
    is_alone: bool
    shown: Redactor


def joined_text(texts: Iterable[str]) -> str:
    """Return several messages as one."""
    return _JOINT.join(texts)


def _heard(texts: Sequence[str], last: str) -> int:
    """Return how many of these texts come no later than the last message on record, which may join
    several.
    """
    for end in range(len(texts), 0, -1):
        for start in range(end):
            if joined_text(texts[start:end]).strip() == last.strip():
                return end
    return 0


def _place_of(found: Sequence[Exchange], entry: Entry) -> int | None:
    for place, exchange in enumerate(found):
        if exchange.request_id == entry.request_id:
            return place
    return None


def _is_same(given: Said, recorded: Said) -> bool:
    return given.role == recorded.role and given.text.strip() == recorded.text.strip()


def _fit(held: _Held, before: Transcript, known: int) -> _Fit:
    """Compare the messages after a known place with those after the exchange of that place."""
    place = held.place
    joined: list[int] = []
    is_faithful, is_lost = True, False
    for number in range(known + 1, len(before)):
        said = before[number]
        if said.role == "assistant":
            is_lost = is_lost or bool(joined)
            answer = held.shown.text(said.text.strip())
            is_told = not joined and held.exchanges[place].words.strip().startswith(answer)
            is_faithful = is_faithful and is_told
        elif not joined and _follows(held.exchanges, place, said):
            place += 1
        else:
            joined.append(number)
    users = tuple(number for number in joined if before[number].role == "user")
    return _Fit(place, users, is_faithful, is_lost)


def _follows(recorded: Sequence[Exchange], place: int, said: Said) -> bool:
    return place + 1 < len(recorded) and _is_same(said, recorded[place + 1].said)


def _worth(fit: _Fit) -> tuple[bool, bool, int]:
    """Order fits: first those without lost messages, then those with the answers as recorded."""
    return not fit.is_lost, fit.is_faithful, fit.place


def names_in(values: Mapping[str, object], names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the named values that are texts, each with its name."""
    found = []
    for name in names:
        value = values.get(name)
        if isinstance(value, str) and value.strip():
            found.append((name, value.strip()))
    return found
