"""Calls to the model."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from llm_fsm._text import cut, estimate
from llm_fsm.session import events as ev
from llm_fsm.session.messages import LLMMessage, LLMRequest, ModelReply, ReplySchema, ToolSpec, Usage
from llm_fsm.session.redaction import redacted
from llm_fsm.turn.available import turn_view
from llm_fsm.turn.compiled import AvailableMoves
from llm_fsm.turn.effects import AskedFor, AskModel, Effect, OutOfTime, Result, Unanswered
from llm_fsm.turn.prompt import render
from llm_fsm.turn.turn_state import MAX_MESSAGE_CHARS, TurnState

_UNFINISHED = ("length", "content_filter")


def request(
    turn: TurnState,
    messages: tuple[LLMMessage, ...],
    schema: ReplySchema | None,
    *,
    tools: tuple[ToolSpec, ...] = (),
    temperature: float | None = None,
) -> LLMRequest:
    """A request on behalf of the current state; what follows its system message shows no secret."""
    state = turn.state
    return LLMRequest(
        messages=(*messages[:1], *turn.redacted(messages[1:])),
        schema=schema,
        model=state.model.name,
        temperature=state.model.temperature if temperature is None else temperature,
        max_tokens=state.model.max_tokens,
        conversation_id=turn.session.conversation_id,
        state=state.id,
        tools=tools,
    )


def no_moves(turn: TurnState) -> AvailableMoves:
    """Return the moves of a call that may not move."""
    return AvailableMoves(items=(), valid=(turn.state.id,), open=frozenset(), arrivals={})


def second_try(
    turn: TurnState,
    request: LLMRequest,
    text: str,
    reason: str,
    *,
    valid: tuple[str, ...] | None = None,
    unmet: str = "",
) -> LLMRequest:
    """The same question with the refused reply and a line that says why. `valid`, `unmet`: as of `second_try`."""
    further = render.second_try(turn.machine.prompts, text, reason, valid, unmet=unmet)
    messages = turn.redacted((*request.messages, *further))
    more = sum(estimate(message.content) for message in messages[len(request.messages) :])
    return replace(request, messages=messages, sizes={**render.own_sizes(request), "second_try": more})


def call(
    turn: TurnState,
    asked_for: AskedFor,
    request: LLMRequest,
    available: AvailableMoves,
    *,
    refused: tuple[str, ...] = (),
    about: Mapping[str, Any] | None = None,
) -> Generator[Effect, Result, ModelReply | None]:
    """One model call; None when a limit forbids or stops it, or for a summary that nobody made."""
    if turn.limit_reached():
        return None
    view = partial(
        turn_view,
        turn.root,
        turn.session,
        available,
        speak=asked_for != "turn",
        refused=refused,
        task=asked_for not in ("turn", "greeting", "words"),
    )
    reply = yield AskModel(request, asked_for, view, turn.time_left(), about)
    if isinstance(reply, OutOfTime):
        turn.usage += Usage(calls=1, attempts=1, seconds=reply.seconds)
        turn.emit(ev.LimitReached(limit="seconds", value=turn.machine.limits.seconds or 0))
        return None
    if isinstance(reply, Unanswered):
        turn.usage += Usage(calls=min(reply.attempts, 1), attempts=reply.attempts, seconds=reply.seconds)
        turn.emit(ev.ReplyRejected(fault="no-reply", reason=redacted(turn.secrets(), reply.reason)))
        return None
    if not isinstance(reply, ModelReply):
        raise TypeError(f"a model call wants a ModelReply, got {type(reply).__name__}")
    turn.usage += reply.usage
    turn.emit(
        ev.ModelReplied(
            asked_for=asked_for,
            text=cut(reply.text, MAX_MESSAGE_CHARS),
            model=reply.model,
            mode=reply.mode,
            attempts=reply.attempts,
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            seconds=reply.seconds,
            cost=reply.cost,
            cached_tokens=reply.cached_tokens,
            prompt=render.call_sizes(request),
            calls=tuple(
                {"id": call.id, "name": call.name, "arguments": cut(call.arguments, MAX_MESSAGE_CHARS)}
                for call in reply.tool_calls
            )
            if reply.tool_calls
            else (),
            finish_reason=reply.finish_reason if reply.finish_reason in _UNFINISHED else "",
        )
    )
    return reply
