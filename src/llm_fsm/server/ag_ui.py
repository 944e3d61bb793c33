"""The AG-UI door (protocol 1.0): a thread is a conversation, a run is a turn, a pause is an
interrupt.

The state of the protocol is the context, without secret keys. A step is a state of the machine.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from ag_ui.core import events as ag
from ag_ui.core.types import Interrupt, ResumeEntry, RunAgentInput
from ag_ui.encoder import EventEncoder
from fastapi import APIRouter, Request
from starlette.responses import Response

from llm_fsm import AsyncMachine, Choice, ConversationNotFound, Turn
from llm_fsm import events as ev
from llm_fsm._json import JsonDict, JsonMap, escape
from llm_fsm.server import views
from llm_fsm.server.feed import Feed
from llm_fsm.server.http_rules import PathText
from llm_fsm.server.machines import Served
from llm_fsm.server.problems import Problem, problem_of
from llm_fsm.server.rest import caller_of, event_stream
from llm_fsm.server.rights import spoken
from llm_fsm.server.secrecy import Redactor
from llm_fsm.server.service import Service
from llm_fsm.server.stream_events import stream_of
from llm_fsm.server.tokens import Caller
from llm_fsm.server.turns import LiveTurn
from llm_fsm.session.messages import Paused

VERSION = "1.0"


class AgUi:
    """The route of this door over a service."""

    def __init__(self, service: Service, feed: Feed) -> None:
        self.service = service
        self.feed = feed
        self.router = APIRouter(tags=["ag-ui"])

        @self.router.post(
            "/ag-ui/{definition}", summary="Run a turn by the AG-UI protocol", response_class=Response,
            responses={200: {"content": stream_of("AgUiEvent")}},
        )  # fmt: skip
        async def run_by_ag_ui(
            request: Request, definition: PathText, given: RunAgentInput
        ) -> Response:
            caller = caller_of(request)
            machine = service.machines.named(caller, definition)
            grace = 0 if _follows(given) else None
            return event_stream(
                service, caller, self._encoded(caller, machine, given), grace_seconds=grace
            )

    async def _encoded(
        self, caller: Caller, machine: AsyncMachine, given: RunAgentInput
    ) -> AsyncGenerator[bytes]:
        encode = EventEncoder().encode
        begun = ag.RunStartedEvent(
            thread_id=given.thread_id, run_id=given.run_id, protocol_version=VERSION
        )
        yield encode(begun).encode("utf-8", "replace")
        try:
            async for event in self._events(caller, machine, given):
                yield encode(event).encode("utf-8", "replace")
        except Exception as error:
            yield encode(_failed(problem_of(error))).encode("utf-8", "replace")

    async def _events(
        self, caller: Caller, machine: AsyncMachine, given: RunAgentInput
    ) -> AsyncGenerator[ag.BaseEvent]:
        served, greeting = await self._conversation(caller, machine, given)
        shown = await self.service.shown(served)
        before = shown.value(_state(served, served.chat.context))
        yield ag.StateSnapshotEvent(snapshot=before)
        if _follows(given) and _last_user(given) is None and not given.resume:
            async for followed in self._followed(served, given, greeting, shown):
                yield followed
            return
        live = None if greeting is not None else await self._turn(served, given)
        if live is None:
            async for standing in _standing(served, given, greeting, shown):
                yield standing
            return
        telling = _Telling(served, given, shown)
        async for _, event in shown.follow(live):
            for told in telling.of(event):
                yield told
        turn = await live.result()
        telling.shown = await self.service.shown(served)
        for told in telling.end(turn, before):
            yield told

    async def _followed(
        self, served: Served, given: RunAgentInput, greeting: str | None, shown: Redactor
    ) -> AsyncGenerator[ag.BaseEvent]:
        """Yield what happens in a thread between runs, until the conversation ends or the client
        leaves.
        """
        state = shown.value(_state(served, served.chat.context))
        happening = self.feed.follow(served)
        if greeting:
            for event in _spoken("0-assistant", shown.text(greeting)):
                yield event
        async for happened in happening:
            turn = happened.turn
            if turn is None:
                continue
            message = f"{happened.position[0]}-assistant"
            for event in _spoken(message, happened.data["text"], happened.data["by"]):
                yield event
            shown = await self.service.shown(served)
            now = shown.value(_state(served, turn.context))
            changes = _patch(state, now)
            state = now
            if changes:
                yield ag.StateDeltaEvent(delta=changes)
            if turn.ended:
                yield _finished(served, given, turn, turn.choices, shown)
                return

    async def _conversation(
        self, caller: Caller, machine: AsyncMachine, given: RunAgentInput
    ) -> tuple[Served, str | None]:
        """Find or begin the conversation of the thread. Return it, with its greeting before the
        first message.
        """
        name = views.checked_new_id(given.thread_id)
        if name is None or not name:
            raise Problem("invalid", "a threadId is not empty")
        try:
            served = await self.service.find(caller, name, fresh=True)
        except ConversationNotFound:
            silent = _last_user(given) is None
            context = spoken(machine, given.state) if isinstance(given.state, dict) else None
            begun = await self.service.start(
                caller, machine, context=context, conversation_id=name, greet=silent
            )
            return begun.served, begun.greeting if silent else None
        if served.machine is not machine:
            raise Problem(
                "conflict", f"the thread follows {served.definition!r}, not this definition"
            )
        return served, None

    async def _turn(self, served: Served, given: RunAgentInput) -> LiveTurn | None:
        """Return the turn of this run; None if it has no message."""
        for entry in given.resume or ():
            value = _answer(served, entry)
            return await self.service.stream_answer(
                served, value, entry.interrupt_id, given.run_id, opened=True
            )
        text = _last_user(given)
        picked = (
            isinstance(given.forwarded_props, dict) and given.forwarded_props.get("picked") is True
        )
        if text is None:
            return None
        return await self.service.stream(served, text, given.run_id, picked=picked, opened=True)


class _Telling:
    """Translates the events of one turn to those of the protocol."""

    def __init__(self, served: Served, given: RunAgentInput, shown: Redactor) -> None:
        self._served = served
        self.shown = shown
        self._given = given
        self._message: str | None = None
        self._words = ""
        self._step = ""
        self._restarted = False

    def of(self, event: ev.Event) -> Iterator[ag.BaseEvent]:
        """Translate an event."""
        if not self._step:
            yield from self._enter(self._served.chat.state)
        match event:
            case ev.MessageDelta():
                yield from self._say(event)
            case ev.StateEntered():
                yield from self._enter(event.state)
            case ev.FlowPushed():
                yield from self._enter(event.entered)
            case ev.FlowReturned():
                yield from self._enter(event.state)
            case ev.ToolReturned():
                yield from self._tool(event)

    def end(self, turn: Turn, before: JsonMap) -> Iterator[ag.BaseEvent]:
        """Translate the end of the turn."""
        yield from self._close()
        changes = _patch(before, self.shown.value(_state(self._served, turn.context)))
        if changes:
            yield ag.StateDeltaEvent(delta=changes)
        if self._restarted:
            said = {
                "id": f"{self._given.run_id}-text",
                "role": "assistant",
                "content": self.shown.text(turn.text),
            }
            messages = [one.model_dump(by_alias=True) for one in self._given.messages]
            yield ag.MessagesSnapshotEvent.model_validate({"messages": [*messages, said]})
        if self._step:
            yield ag.StepFinishedEvent(step_name=self._step)
        yield _finished(self._served, self._given, turn, turn.choices, self.shown)

    def _say(self, delta: ev.MessageDelta) -> Iterator[ag.BaseEvent]:
        if delta.restart:
            self._restarted = self._restarted or bool(self._words)
            yield from self._close()
        if not delta.text:
            return
        if self._message is None:
            self._message = (
                f"{self._given.run_id}-text" if not self._restarted else uuid.uuid4().hex
            )
            yield ag.TextMessageStartEvent(message_id=self._message, role="assistant")
        self._words += delta.text
        yield ag.TextMessageContentEvent(message_id=self._message, delta=delta.text)

    def _close(self) -> Iterator[ag.BaseEvent]:
        if self._message is not None:
            yield ag.TextMessageEndEvent(message_id=self._message)
            self._message = None

    def _enter(self, state: str) -> Iterator[ag.BaseEvent]:
        if state != self._step:
            if self._step:
                yield ag.StepFinishedEvent(step_name=self._step)
            self._step = state
            yield ag.StepStartedEvent(step_name=state)

    def _tool(self, event: ev.ToolReturned) -> Iterator[ag.BaseEvent]:
        """Yield a tool call. Its result needs the right `inspect`, and a machine without secrets."""
        yield from self._close()
        call = event.key or uuid.uuid4().hex
        yield ag.ToolCallStartEvent(tool_call_id=call, tool_call_name=event.name)
        arguments = json.dumps(self.shown.value(event.arguments), ensure_ascii=False, default=str)
        yield ag.ToolCallArgsEvent(tool_call_id=call, delta=arguments)
        yield ag.ToolCallEndEvent(tool_call_id=call)
        if event.error is not None:
            content = "failed"
        elif self.shown.hides or not self._served.may("inspect"):
            content = "done"
        else:
            content = json.dumps(event.result, ensure_ascii=False, default=str)
        yield ag.ToolCallResultEvent(
            message_id=uuid.uuid4().hex, tool_call_id=call, content=content
        )


async def _standing(
    served: Served, given: RunAgentInput, greeting: str | None, shown: Redactor
) -> AsyncGenerator[ag.BaseEvent]:
    """Yield a run without a message: the greeting of a new conversation, or the state of an old
    one.
    """
    yield ag.StepStartedEvent(step_name=served.chat.state)
    if greeting:
        for event in _spoken(f"{given.run_id}-text", shown.text(greeting)):
            yield event
    elif greeting is None:
        history = [
            {
                "id": f"{one.turn}-{one.role}-{place}",
                "role": one.role,
                "content": shown.text(one.text),
                **({"name": shown.text(one.by)} if one.by else {}),
            }
            for place, one in enumerate(await served.chat.history())
        ]
        yield ag.MessagesSnapshotEvent.model_validate({"messages": history})
    yield ag.StepFinishedEvent(step_name=served.chat.state)
    last = (await served.chat.turns())[-1]
    yield _finished(served, given, last, served.chat.choices, shown)


def _spoken(message: str, text: str, by: str = "") -> Iterator[ag.BaseEvent]:
    """Yield a whole message of the assistant; nothing for no text. `by`: the person who said it."""
    if text:
        yield ag.TextMessageStartEvent(message_id=message, role="assistant", name=by or None)
        yield ag.TextMessageContentEvent(message_id=message, delta=text)
        yield ag.TextMessageEndEvent(message_id=message)


def _follows(given: RunAgentInput) -> bool:
    """Return true if a run shall stay open for what happens between messages."""
    return isinstance(given.forwarded_props, dict) and given.forwarded_props.get("follow") is True


def _failed(problem: Problem) -> ag.RunErrorEvent:
    """Return the end of a run that failed. `retry_after`: seconds, as in problem documents."""
    event: JsonDict = {"message": problem.detail, "code": problem.kind}
    if problem.wait is not None:
        event["retry_after"] = problem.wait
    return ag.RunErrorEvent.model_validate(event)


def _finished(
    served: Served, given: RunAgentInput, turn: Turn, choices: Iterable[Choice], shown: Redactor
) -> ag.RunFinishedEvent:
    """Return the end of a run, with its interrupt if the conversation waits."""
    outcome: Any = ag.RunFinishedSuccessOutcome()
    if turn.paused is not None and _interrupts(served, turn.paused):
        outcome = ag.RunFinishedInterruptOutcome(
            interrupts=[_interrupt(served, turn.paused, shown)]
        )
    return ag.RunFinishedEvent(
        thread_id=given.thread_id,
        run_id=given.run_id,
        outcome=outcome,
        result=shown.document(
            {
                "state": turn.state,
                "ended": turn.ended,
                "outcome": turn.outcome,
                "output": turn.output,
                "choices": views.choices_of(choices),
            }
        ),
        usage=[
            ag.TokenUsage(
                input_tokens=turn.usage.input_tokens, output_tokens=turn.usage.output_tokens
            )
        ],
    )


def _interrupts(served: Served, paused: Paused) -> bool:
    """Return true if a pause stops the user. While a person has taken over, the user goes on
    writing.
    """
    return paused.messages == "refuse" or served.may_answer(paused)


def _interrupt(served: Served, paused: Any, shown: Redactor) -> Interrupt:
    expires = (
        None if paused.expires is None else datetime.fromtimestamp(paused.expires, UTC).isoformat()
    )
    if not served.may_answer(paused):
        return Interrupt(
            id=paused.id, reason=paused.kind, message=views.COLLEAGUE, expires_at=expires
        )
    call = None if paused.call is None else shown.value(paused.call)
    return Interrupt(
        id=paused.id,
        reason=paused.kind,
        message=shown.text(paused.what),
        response_schema=shown.document(dict(paused.schema)),
        expires_at=expires,
        metadata=None if call is None else {"call": call},
    )


def _answer(served: Served, entry: ResumeEntry) -> Any:
    """Return the answer of a resume entry. Raises Problem 409 for an interrupt that cannot be
    abandoned.
    """
    if entry.status == "resolved":
        return entry.payload
    paused = served.chat.paused
    if paused is not None and paused.kind == "approval":
        return {"approved": False}
    raise Problem(
        "conflict", "this interrupt cannot be abandoned: answer it, or end the conversation"
    )


def _last_user(given: RunAgentInput) -> str | None:
    """Return the user's last message; None if the messages end with another one. Raises Problem
    422.
    """
    last: Any = given.messages[-1] if given.messages else None
    if last is None or last.role != "user":
        return None
    if isinstance(last.content, str):
        return last.content
    if not all(part.type == "text" for part in last.content):
        raise Problem("invalid", "only parts with text are read, no pictures, sounds or files")
    return "".join(part.text for part in last.content)


def _state(served: Served, context: JsonMap) -> JsonDict:
    """Return the context without its secret keys."""
    secret = served.machine.program.is_secret
    return {key: value for key, value in context.items() if not secret(key)}


def _patch(before: JsonMap, after: JsonMap) -> list[Any]:
    """Return the change as a JSON Patch (RFC 6902)."""
    gone = [{"op": "remove", "path": f"/{escape(key)}"} for key in before if key not in after]
    new = [
        {"op": "replace" if key in before else "add", "path": f"/{escape(key)}", "value": value}
        for key, value in after.items()
        if key not in before or before[key] != value
    ]
    return [*gone, *new]
