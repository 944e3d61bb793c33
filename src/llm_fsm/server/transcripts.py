"""Find the conversation of a transcript by the digest of its messages.

Clients of the OpenAI API send all messages every time. The messages before the last one are searched by their digest
among the conversations of the same token. If they are the head of a conversation, it continues. If they are an earlier
point, it is forked there.

Digests are not stored. A conversation that begins with a transcript has the digest of its first message in its id. So
another process, or this one after a restart, finds the few candidates. It computes their digests again.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from llm_fsm import ConversationNotFound, Turn
from llm_fsm import events as ev
from llm_fsm.server.machines import Served
from llm_fsm.server.service import Service
from llm_fsm.server.tokens import Caller

KEPT = 50_000
"""The most digests in the cache."""
MOST_CANDIDATES = 200
"""The most conversations with the same first message that are checked."""


class Said(NamedTuple):
    """A message of a transcript: its role and its text."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Point:
    """A conversation as it was after a turn. `is_head`: no turn follows."""

    served: Served
    turn: int
    is_head: bool


def digest(messages: Iterable[Said]) -> str:
    """Return the digest of messages in their order."""
    text = json.dumps([[one.role, one.text.strip()] for one in messages], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def words_of(turn: Turn) -> str:
    """Return the text of a turn in a transcript, with its pause as text."""
    return _words(turn, turn.paused)


def _words(turn: Turn, paused: Any) -> str:
    return "\n\n".join(part for part in (turn.text, pause_words(paused)) if part)


def pause_words(paused: Any) -> str:
    """Describe a pause in one sentence; "" if there is none."""
    if paused is None:
        return ""
    call = paused.call
    about = f" of {call['name']}({json.dumps(call['arguments'], ensure_ascii=False)})" if call else ""
    how = 'answer {"approved": true} or {"approved": false}' if paused.kind == "approval" else "answer with JSON"
    return f"[waiting for {paused.what}{about}: {how}]"


def answer_text(value: Any) -> str:
    """Return an answer in the form of transcripts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def told(turns: Sequence[Turn]) -> list[tuple[int, list[Said]]]:
    """Return the messages of each turn, by its number. Unrequested messages belong to the turn before."""
    found: list[tuple[int, list[Said]]] = []
    for turn in turns:
        said: list[Said] = []
        for event in turn.events:
            if isinstance(event, ev.UserSaid):
                said.append(Said("user", event.text))
            elif isinstance(event, ev.Answered):
                said.append(Said("tool", answer_text(event.value)))
        paused = next((event for event in reversed(turn.events) if isinstance(event, ev.Paused)), None)
        words = _words(turn, paused)
        if said or words:
            found.append((turn.number, [*said, Said("assistant", words)]))
    return found


class Transcripts:
    """Finds conversations by their messages."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._known: OrderedDict[tuple[str, str, str], tuple[str, int]] = OrderedDict()

    def remember(self, served: Served, messages: Sequence[Said], turn: int) -> None:
        """Register a conversation under its messages up to a turn."""
        key = (served.caller.name, served.definition, digest(messages))
        self._known[key] = (served.id, turn)
        self._known.move_to_end(key)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)

    async def find(self, caller: Caller, definition: str, messages: Sequence[Said]) -> Point | None:
        """Return the conversation with exactly these messages; None if there is none."""
        wanted = digest(messages)
        known = self._known.get((caller.name, definition, wanted))
        if known is not None:
            point = await self._point(caller, *known)
            if point is not None:
                return point
        first = next((one for one in messages if one.role == "user"), None)
        if first is None:
            return None
        return await self._search(caller, definition, first, wanted)

    async def _point(self, caller: Caller, name: str, turn: int) -> Point | None:
        try:
            served = await self._service.find(caller, name, fresh=True)
        except ConversationNotFound:
            return None
        turns = await served.chat.turns()
        return Point(served, turn, turns[-1].number == turn) if any(one.number == turn for one in turns) else None

    async def _search(self, caller: Caller, definition: str, first: Said, wanted: str) -> Point | None:
        lines = await self._service.machines.listed(
            caller, None, MOST_CANDIDATES, {"definition": definition}, _prefix(first)
        )
        earlier: Point | None = None
        for line in sorted(lines, key=lambda one: -one.updated):
            served = await self._service.find(caller, caller.public(line.conversation_id), fresh=True)
            turns = await served.chat.turns()
            said: list[Said] = []
            for number, messages in told(turns):
                said.extend(messages)
                if digest(said) == wanted:
                    point = Point(served, number, number == turns[-1].number)
                    if point.is_head:
                        return point
                    earlier = earlier or point
        return earlier


def first_id(first: Said, unguessable: str) -> str:
    """Return the id of a conversation that a transcript begins."""
    return _prefix(first) + unguessable


def _prefix(first: Said) -> str:
    return f"t-{digest([first])[:16]}-"
