"""Calls to the model: the request, the call, and the plain view of it for adapters that work
without a model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from llm_fsm._json import JsonMap
from llm_fsm._text import cut, estimate
from llm_fsm.errors import ReplyError
from llm_fsm.session import events as ev
from llm_fsm.session.messages import (
    LLMMessage,
    LLMRequest,
    ModelReply,
    PlainTurn,
    ReplySchema,
    ToolSpec,
    TransitionView,
    Usage,
)
from llm_fsm.session.redaction import redacted
from llm_fsm.session.session import Session
from llm_fsm.turn import available
from llm_fsm.turn.available import AvailableMoves, Option
from llm_fsm.turn.compiled import CompiledMachine, CompiledState
from llm_fsm.turn.effects import AskedFor, AskModel, OutOfTime, Unanswered
from llm_fsm.turn.next_step import lacking
from llm_fsm.turn.prompt import render
from llm_fsm.turn.reply.parser import is_cut
from llm_fsm.turn.response import own_words
from llm_fsm.turn.turn_state import MAX_MESSAGE_CHARS, RunTo, TurnState

T = TypeVar("T")
_UNFINISHED = ("length", "content_filter")
"""Reasons for an end in the middle of a reply. Others are not kept, because providers differ."""
_CUT = "it was cut off at its limit of tokens; send a shorter one, with a message of one or two sentences"


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
        context=state.model.context,
        conversation_id=turn.session.conversation_id,
        state=state.id,
        tools=tools,
    )


def check_whole(reply: ModelReply) -> None:
    """Raise ReplyError for a reply that ended at its limit of tokens before its JSON did.

    Half a message would read as a whole one, and half a list as all of it.
    """
    if reply.finish_reason == "length" and is_cut(reply.text):
        raise ReplyError("cut-off", _CUT)


def no_moves(turn: TurnState) -> AvailableMoves:
    """Return the menu of a call that may not move."""
    return available.no_moves(turn.state)


def second_try(
    turn: TurnState, request: LLMRequest, text: str, reason: str, **advice: Any
) -> LLMRequest:
    """The same question with the refused reply and a line that says why. `advice`: as of
    `render.second_try`.
    """
    further = render.second_try(turn.machine.prompts, text, reason, **advice)
    messages = turn.redacted((*request.messages, *further))
    more = sum(estimate(message.content) for message in messages[len(request.messages) :])
    return replace(
        request, messages=messages, sizes={**render.own_sizes(request), "second_try": more}
    )


def call(
    turn: TurnState,
    asked_for: AskedFor,
    request: LLMRequest,
    menu: AvailableMoves,
    *,
    refused: tuple[str, ...] = (),
    about: JsonMap | None = None,
) -> RunTo[ModelReply | None]:
    """One model call; None when a limit forbids or stops it, or for a summary that nobody made."""
    # a summary for which a limit leaves no room is left out, and stops nothing
    if turn.reached_limit() is not None if asked_for == "summary" else turn.limit_reached():
        return None
    view = partial(
        turn_view,
        turn.root,
        turn.session,
        menu,
        speak=asked_for != "turn",
        refused=refused,
        task=asked_for not in ("turn", "greeting", "words"),
    )
    reply = yield AskModel(request, asked_for, view, turn.time_left(), about)
    match reply:
        case OutOfTime(seconds=seconds):
            turn.usage += Usage(calls=1, attempts=1, seconds=seconds)
            turn.emit(ev.LimitReached(limit="seconds", value=turn.machine.limits.seconds or 0))
            return None
        case Unanswered(attempts=tried, seconds=seconds):
            turn.usage += Usage(calls=min(tried, 1), attempts=tried, seconds=seconds)
            reason = redacted(turn.secrets(), reply.reason)
            turn.emit(ev.ReplyRejected(fault="no-reply", reason=reason))
            return None
        case ModelReply(usage=usage):
            turn.usage += usage
        case _:
            raise TypeError(f"a model call wants a ModelReply, got {type(reply).__name__}")
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
                {
                    "id": call.id,
                    "name": call.name,
                    "arguments": cut(call.arguments, MAX_MESSAGE_CHARS),
                }
                for call in reply.tool_calls
            )
            if reply.tool_calls
            else (),
            finish_reason=reply.finish_reason if reply.finish_reason in _UNFINISHED else "",
            left_out=reply.left_out,
        )
    )
    return reply


def ask(
    turn: TurnState,
    asked_for: AskedFor,
    request: LLMRequest,
    menu: AvailableMoves,
    read: Callable[[str], T],
    *,
    about: JsonMap | None = None,
) -> RunTo[T | ReplyError | None]:
    """Call the model, and once more if its reply cannot be read.

    Args:
        turn: The turn.
        asked_for: The purpose of the call.
        request: The question.
        menu: The moves of the call.
        read: The function that reads a reply. It raises ReplyError.
        about: As of `call`.

    Returns:
        The reply as it was read, or the fault of the second reply. None where no reply came.
    """
    fault: ReplyError | None = None
    for _ in range(2):
        reply = yield from call(turn, asked_for, request, menu, about=about)
        if reply is None:
            return None
        try:
            check_whole(reply)
            return read(reply.text)
        except ReplyError as error:
            fault = error
        turn.emit(ev.ReplyRejected(fault=fault.fault, reason=str(fault)))
        request = second_try(turn, request, reply.text, str(fault))
    return fault


def turn_view(
    root: CompiledMachine,
    session: Session,
    menu: AvailableMoves,
    *,
    speak: bool,
    refused: tuple[str, ...],
    task: bool = False,
) -> PlainTurn:
    """Return the plain view of a turn, for adapters that work without a model."""
    machine = root.of(session)
    plan = machine.states[session.state]
    schemas = machine.keys.offered
    rules = dict.fromkeys(rule.description for rule in machine.keys.rules)

    def wanted(state: CompiledState) -> dict[str, JsonMap]:
        return {key: schemas.get(key, {}) for key in lacking(session, state)}

    def choice(option: Option) -> TransitionView:
        move, target = option.move, option.target
        if option.kind == "left_open" or move.place is not None:
            return _left_open(target)
        if option.kind == "beside":
            return _choice_beside(root, option, session)
        rules = [guard for guard in move.guards if guard.rule is not None]
        required: list[str] = []
        for guard in move.guards:
            required += guard.keys
        return TransitionView(
            target_state=move.target,
            description=move.description if root.speaking is None else machine.said(move),
            open=option.is_open,
            judged=move.judged,
            requires=tuple(required),
            logic=tuple(guard.logic for guard in rules),
            reasons=tuple(guard.description for guard in rules),
            own=move.is_own,
            arrival=own_words(machine, target, session),
            fixed=target.fixed is not None,
            wanted=wanted(target),
        )

    choices = tuple(choice(option) for option in menu.options)
    return PlainTurn(
        state=plan.id,
        purpose=plan.definition.purpose,
        description=plan.definition.description,
        own_words=own_words(machine, plan, session),
        user=session.user_input,
        speak=speak,
        context=machine.keys.visible(session.context),
        system=session.system_names(),
        wanted=wanted(plan),
        writable=schemas,
        choices=choices,
        refused=refused,
        broken=tuple(rule for rule in rules if any(rule in reason for reason in refused)),
        task=task,
        patterns=machine.named_patterns,
        language=machine.definition.language,
    )


def _left_open(target: CompiledState) -> TransitionView:
    return TransitionView(
        target_state=target.id,
        description="back to what was left open",
        open=True,
        judged=True,
        arrival=target.definition.purpose,
        own=False,
    )


def _choice_beside(root: CompiledMachine, option: Option, session: Session) -> TransitionView:
    """Return a digression of a definition that waits, with the words that it says by itself."""
    caller = session.of_caller(option.move.caller or 0)
    return TransitionView(
        target_state=option.target.id,
        description=option.move.description,
        open=option.is_open,
        judged=True,
        arrival=own_words(root.of(caller), option.target, caller),
        own=False,
        fixed=option.target.fixed is not None,
    )
