"""The conversations of the playground, each with a machine of its own on its text."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from typing import Any

from llm_fsm import AsyncConversation, AsyncMachine, Turn
from llm_fsm import events as ev
from llm_fsm._json import JsonMap, TextMap, json_text, of_kind, plain
from llm_fsm.documents.loader import load_text
from llm_fsm.editor import models
from llm_fsm.editor.studio import Studio
from llm_fsm.editor.watched_model import WatchedModel, call_of
from llm_fsm.engine.conversation import turns_of
from llm_fsm.llm.registry import resolve
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.records.explain import explain_turn
from llm_fsm.server.problems import Problem
from llm_fsm.session.messages import Paused
from llm_fsm.session.redaction import shown_event, shown_values
from llm_fsm.session.turn_record import Records, TurnRecord, first_of, parse, without_undone
from llm_fsm.stores.base import Store
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.turn.compiled import CompiledMachine

MOST = 50
"""Conversations that the playground keeps open. The oldest one is forgotten."""
_BY: TextMap = {"due": "time", "end": "update", "heard": "update", "migrate": "update"}


@dataclasses.dataclass(kw_only=True)
class LiveTalk:
    """The parts that continue a conversation: a machine on its text, its model, and the
    conversation.
    """

    machine: AsyncMachine
    llm: WatchedModel
    chat: AsyncConversation


@dataclasses.dataclass(kw_only=True)
class OpenTalk:
    """One conversation of the playground, or the copy of a stored one.

    Attributes:
        id: Its name in `store`, too.
        body: The text that it began on, and its model.
        program: The definitions that its turns are told by.
        live: None for the copy of a stored conversation, which is read only.
        not_forked: Why the copy of a stored conversation cannot go on; None: it can.
        version: The definition of the copy of a stored conversation, written as its file is.
    """

    id: str
    body: models.TalkBody
    store: Store
    program: CompiledMachine
    live: LiveTalk | None
    forked_from: str | None = None
    is_stale: bool = False
    not_forked: str | None = None
    version: str | None = None
    calls: dict[int, list[models.ModelCall]] = dataclasses.field(default_factory=dict)
    lock: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)

    async def records(self) -> list[TurnRecord]:
        """Return the records of turns that were not undone."""
        texts = await self.store.records(self.id)
        return [record for _, record in without_undone(parse(text) for text in texts)]

    def keep_calls(self, turn: int) -> None:
        """Keep what the model was asked since the last time with a turn."""
        if self.live is not None:
            self.calls.setdefault(turn, []).extend(self.live.llm.taken())


class Talks:
    """All open conversations, by id."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self._open: dict[str, OpenTalk] = {}

    def get(self, talk_id: str) -> OpenTalk:
        """Return a conversation. Raises Problem 404."""
        if talk_id not in self._open:
            raise Problem("not-found", "this conversation is not open any more; start a new one")
        return self._open[talk_id]

    async def add(self, talk: OpenTalk) -> OpenTalk:
        """Keep a conversation, and forget the oldest one beyond the limit."""
        self._open[talk.id] = talk
        while len(self._open) > MOST:
            await self.drop(next(iter(self._open)))
        return talk

    async def drop(self, talk_id: str) -> None:
        """Forget a conversation."""
        talk = self._open.pop(talk_id, None)
        if talk is not None and talk.live is not None:
            await talk.live.machine.close()

    async def close(self) -> None:
        """Forget all conversations."""
        for talk_id in list(self._open):
            await self.drop(talk_id)

    def made(
        self, body: models.TalkBody, store: Store | None = None
    ) -> tuple[AsyncMachine, WatchedModel]:
        """Return a machine on a text that need not be saved, and its model. `store`: None for a
        new one.

        Raises:
            Problem: 422 if the model is not one of the operator's.
            DefinitionError: The definition cannot run.
            ConfigurationError: The model or a function is missing.
        """
        if body.model not in self.studio.all_models:
            known = ", ".join(self.studio.all_models)
            raise Problem(
                "invalid",
                f"the model {body.model!r:.100} was not named at the start; there are {known}",
            )
        place = self.studio.folder.place(body.path)
        definition = load_text(body.text, file=place).definition
        settings = dict(self.studio.equipment)
        base_url = settings.pop("base_url", None)
        if body.model == "scripted":
            llm = WatchedModel(ScriptedLLM(body.replies or []))
        else:
            llm = WatchedModel(resolve(body.model, base_url=base_url, environ=os.environ))
        machine = AsyncMachine(
            definition,
            file=place,
            model=llm,
            store=MemoryStore() if store is None else store,
            on_change="migrate",
            allow_unsafe=True,  # its findings stand beside the talk
            **settings,
        )
        return machine, llm

    async def start(self, body: models.TalkBody) -> OpenTalk:
        """Start a conversation. Raises the errors of `made`, and those of a first turn."""
        machine, llm = self.made(body)
        chat = await machine.start(context=body.context, state=body.state)
        talk = await self.go_on(body, LiveTalk(machine=machine, llm=llm, chat=chat))
        talk.keep_calls(0)
        return talk

    async def go_on(self, body: models.TalkBody, live: LiveTalk, **more: Any) -> OpenTalk:
        """Keep a conversation that goes on. `more`: further members of it."""
        machine = live.machine
        return await self.add(
            OpenTalk(
                id=live.chat.id,
                body=body,
                store=machine.store,
                program=machine.program,
                live=live,
                **more,
            )
        )


# -- as the page shows them


async def view(talk: OpenTalk) -> models.TalkView:
    """Return a conversation as the page shows it."""
    records = await talk.records()
    turns = list(turns_of(talk.id, records))
    last = turns[-1] if turns else None
    live = talk.live
    choices = () if live is None or live.chat.ended else live.chat.choices
    return models.TalkView(
        id=talk.id,
        path=talk.body.path,
        model=talk.body.model,
        source="stored" if live is None else "playground",
        read_only=live is None,
        definition=talk.program.definition.name,
        state="" if last is None else last.state,
        ended=last is not None and last.ended,
        context={} if last is None else shown_values(last.context, talk.program.is_secret),
        turns=[turn_row(turn, record) for turn, record in zip(turns, records, strict=True)],
        choices=[models.ChoiceRow.model_validate(one) for one in choices],
        paused=None if last is None else paused_row(last.paused),
        forked_from=talk.forked_from,
        is_stale=talk.is_stale,
        not_forked=talk.not_forked,
        version=talk.version,
    )


def paused_row(paused: Paused | None) -> models.PausedRow | None:
    """Return what a conversation waits for; None for nothing."""
    if paused is None:
        return None
    return models.PausedRow(
        id=paused.id,
        kind=paused.kind,
        what=paused.what,
        state=paused.state,
        call=None if paused.call is None else dict(paused.call),
        answer_schema=dict(paused.schema),
    )


def turn_row(turn: Turn, record: TurnRecord) -> models.TurnRow:
    """Return a turn as the transcript shows it."""
    entered = of_kind(turn.events, ev.StateEntered)
    return models.TurnRow(
        number=turn.number,
        by=_BY.get(record.kind, record.kind),  # type: ignore[arg-type]
        user=_heard(record),
        text=turn.text,
        state=turn.state,
        previous_state=turn.previous_state or None,
        moved=turn.moved,
        ended=turn.ended,
        paused=paused_row(turn.paused),
        usage=models.TurnUsage.model_validate(turn.usage),
        edges=[event.transition for event in entered if event.transition],
        states=[event.state for event in entered],
    )


def _heard(record: TurnRecord) -> str | None:
    said = record.user_message
    if said is not None:
        return said.text
    answered = first_of(record.events, ev.Answered)
    return None if answered is None else json_text(answered.value)


async def inspect(talk: OpenTalk, number: int) -> models.TurnInspection:
    """Return everything about a turn.

    Args:
        talk: The conversation.
        number: The number of the turn; 0 is the greeting.

    Returns:
        The turn with reasons, prompts, context, tools and events.

    Raises:
        Problem: 404 if there is no such turn.
    """
    records = await talk.records()
    turns = list(turns_of(talk.id, records))
    places = [place for place, turn in enumerate(turns) if turn.number == number]
    if not places:
        raise Problem("not-found", f"there is no turn {number} in this conversation")
    place = places[-1]
    turn, record, program = turns[place], records[place], talk.program
    before = turns[place - 1].context if place else {}
    found = explain_turn(program, talk.id, records, number)
    return models.TurnInspection(
        turn=turn_row(turn, record),
        why={} if found is None else plain(found),
        calls=_calls(talk, number, record),
        before=shown_values(before, program.is_secret),
        after=shown_values(turn.context, program.is_secret),
        changed=_changed(program, before, turn, records),
        tools=[
            models.ToolRun.model_validate(event)
            for event in turn.events
            if isinstance(event, ev.ToolReturned)
        ],
        events=[shown_event(event, program.is_secret) for event in turn.events],
    )


def _calls(talk: OpenTalk, number: int, record: TurnRecord) -> list[models.ModelCall]:
    """Return the calls of a turn as they were sent, or else as the record has them."""
    if number in talk.calls:
        return talk.calls[number]
    replied = of_kind(record.events, ev.ModelReplied)
    return [call_of(None, event) for event in replied]


def _changed(
    program: CompiledMachine, before: JsonMap, turn: Turn, records: Records
) -> list[models.ChangedKey]:
    after = turn.context
    was, now = shown_values(before, program.is_secret), shown_values(after, program.is_secret)
    sources = {}
    quotes = {}
    said = {one.turn: one.user_message.text for one in records if one.user_message is not None}
    for event in turn.events:
        if isinstance(event, ev.ContextSet):
            sources.update(dict.fromkeys((*event.values, *event.removed), event.source))
            for key, (message, start, end) in event.quotes.items():
                quotes[key] = said.get(message, "")[start:end]
    return [
        models.ChangedKey(
            key=key,
            before=was.get(key),
            after=now.get(key),
            source=sources.get(key, ""),
            quote=None if program.is_secret(key) else quotes.get(key),
        )
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    ]
