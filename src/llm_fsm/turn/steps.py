"""One turn, step by step: `begin` and `advance` take values and give values.

    step = begin(program, session, message)
    while step.effect is not None:
        step = advance(step, result)        # the shell performs step.effect

A step is used once, because the course of a turn behind it is a generator. The same message and the
same results give the same steps again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from llm_fsm._json import JsonMap
from llm_fsm.session import events as ev
from llm_fsm.session.context import initial_context
from llm_fsm.session.messages import LLMRequest, Usage
from llm_fsm.session.redaction import redacted
from llm_fsm.session.session import Exchange, Session, clock_names, surplus
from llm_fsm.turn import breakdown, outcome, pipeline
from llm_fsm.turn.available import available_here
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.effects import AskModel, Effect, Result
from llm_fsm.turn.pipeline import Answer, Due, Opening, Resume, Trigger, Update, UserMessage
from llm_fsm.turn.request import turn_request
from llm_fsm.turn.turn_state import BARE_HOST, HostCapabilities, Run, TurnState


class Step(NamedTuple):
    """The place where a turn stands. `events`: what happened since the step before; `effect` None:
    the turn is over.
    """

    session: Session
    events: tuple[ev.Event, ...]
    effect: Effect | None
    usage: Usage
    turn: TurnState
    run: Run


_PIPELINES: Mapping[type[Trigger], Callable[[TurnState, Any], Run]] = {
    Opening: pipeline.opening,
    UserMessage: pipeline.message,
    Update: pipeline.update,
    Answer: pipeline.answer,
    Resume: pipeline.run,
    Due: pipeline.due,
}


def begin(
    machine: CompiledMachine,
    session: Session,
    trigger: Trigger,
    capabilities: HostCapabilities = BARE_HOST,
) -> Step:
    """Begin a turn.

    Args:
        machine: The compiled definition.
        session: The conversation. A message wants one that has not ended and waits for no answer,
            an `Answer` one that waits for it, and an `Opening` an empty one.
        trigger: What begins the turn.
        capabilities: What the host can do.

    Returns:
        The first step.

    Raises:
        ValueError: The context of an opening does not fit, or the run waits for no answer.
    """
    turn = TurnState(machine, session, capabilities)
    return _next(turn, _PIPELINES[type(trigger)](turn, trigger), None)


def advance(step: Step, result: Result) -> Step:
    """Return the next step, given what the effect of this one brought back."""
    return _next(step.turn, step.run, result)


def request_for(
    machine: CompiledMachine,
    state: str,
    context: JsonMap,
    message: str,
    *,
    time: float,
    window: tuple[Exchange, ...] = (),
    capabilities: HostCapabilities = BARE_HOST,
) -> LLMRequest:
    """Return what the model would be asked about a message in a state. Raises ValueError for a
    wrong context.
    """
    zone = machine.definition.timezone
    known = initial_context(machine.keys, context, names=clock_names(time, zone))
    session = Session(
        conversation_id="prompt",
        definition=machine.identity,
        state=state,
        turn=1,
        context=known,
        origins=dict.fromkeys(known, (0, "host")),
        window=window,
        user_input=message,
        time=time,
        timezone=zone,
    )
    turn = TurnState(machine, session, capabilities)
    return turn_request(turn, available_here(turn), words_only=False)


def rehearse(step: Step, head: str) -> Step:
    """Try beside the turn what becomes of the reply that `step` asks for. Only its move is known.

    The effects are handlers of CONTEXT_UPDATE and PRE_TRANSITION, whose results hold for the turn,
    too. When there are no more, `turn.promise` is the text before the reply's message. It is None
    if the message must not be shown.
    """
    if not isinstance(step.effect, AskModel):
        raise TypeError(
            f"only a reply can be rehearsed, not what {type(step.effect).__name__} brings back"
        )
    turn = step.turn.fork()
    return _next(turn, outcome.rehearse(turn, head, step.effect.asked_for), None)


def _next(turn: TurnState, run: Run, result: Result | None) -> Step:
    before = len(turn.events)
    try:
        effect: Effect | None = next(run) if result is None else run.send(result)
    except StopIteration:
        effect = None
        turn.record_secrets()
    return Step(turn.session, tuple(turn.events[before:]), effect, turn.usage, turn, run)


def apology(machine: CompiledMachine, session: Session) -> str:
    """Return the definition's words for a message that nothing can handle now."""
    return breakdown.words(TurnState(machine, session))


def apologise(
    machine: CompiledMachine, session: Session, heard: UserMessage, error: Exception, text: str
) -> tuple[ev.Event, ...]:
    """Record the turn of a message that could not be handled, when an ERROR handler gave the words
    to show.
    """
    turn = TurnState(machine, session)
    why = redacted(turn.secrets(), str(error))
    turn.emit(heard.event())
    turn.emit(ev.TurnFailed(error=type(error).__name__, message=why))
    turn.fallback = True
    turn.emit(pipeline.bot_said(turn, text))
    settings = turn.machine.definition.history
    if settings.strategy == "window" and (dropped := surplus(turn.session.window, settings)):
        # a summary comes with the next turn that can ask for one
        turn.emit(ev.HistoryTrimmed(dropped=dropped))
    pipeline.watch_silence(turn)
    turn.record_secrets()
    return tuple(turn.events)
