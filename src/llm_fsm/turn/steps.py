"""One turn, step by step: `begin` and `advance` take values and give values.

    step = begin(program, session, heard)
    while step.effect is not None:
        step = advance(step, result)        # the shell performs step.effect

A step is used once, because the course of a turn behind it is a generator. The same message and the same
results give the same steps again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from llm_fsm.session import events as ev
from llm_fsm.session.context import initial_context
from llm_fsm.session.messages import LLMRequest, Usage
from llm_fsm.session.redaction import redacted
from llm_fsm.session.session import Exchange, Session, surplus
from llm_fsm.turn import decide, pipeline, response
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.effects import AskModel, Effect, Result
from llm_fsm.turn.pipeline import Answer, Opening, Update, UserMessage
from llm_fsm.turn.turn_state import BARE_HOST, HostCapabilities, Run, TurnState


class Step(NamedTuple):
    """The place where a turn stands. `events`: what happened since the step before; `effect` None: the turn is over."""

    session: Session
    events: tuple[ev.Event, ...]
    effect: Effect | None
    usage: Usage
    turn: TurnState
    run: Run


def begin(
    machine: CompiledMachine, session: Session, heard: UserMessage, capabilities: HostCapabilities = BARE_HOST
) -> Step:
    """Begin the turn of a message. The session must neither have ended nor wait for an answer."""
    turn = TurnState(machine, session, capabilities)
    return _next(turn, pipeline.message(turn, heard), None)


def begin_start(machine: CompiledMachine, opening: Opening, capabilities: HostCapabilities) -> Step:
    """Begin the first turn of a new conversation. Raises ValueError for a context that does not fit."""
    turn = TurnState(machine, Session(conversation_id=opening.conversation_id), capabilities)
    return _next(turn, pipeline.opening(turn, opening), None)


def begin_run(
    machine: CompiledMachine,
    session: Session,
    time: float,
    capabilities: HostCapabilities,
    *,
    step: bool = False,
    given: Any = None,
) -> Step:
    """Begin the turn of a run without a message, at `time` (seconds since the epoch); see `pipeline.run`."""
    turn = TurnState(machine, session, capabilities)
    return _next(turn, pipeline.run(turn, time, step=step, given=given), None)


def begin_update(machine: CompiledMachine, session: Session, given: Update, capabilities: HostCapabilities) -> Step:
    """Begin the turn of what the program does between messages."""
    turn = TurnState(machine, session, capabilities)
    return _next(turn, pipeline.update(turn, given), None)


def begin_answer(machine: CompiledMachine, session: Session, given: Answer, capabilities: HostCapabilities) -> Step:
    """Begin the turn of an answer to the pause of the session."""
    turn = TurnState(machine, session, capabilities)
    return _next(turn, pipeline.answer(turn, given), None)


def begin_due(
    machine: CompiledMachine, session: Session, time: float, capabilities: HostCapabilities = BARE_HOST
) -> Step:
    """Begin the turn of what the pause of the session has due at `time` (seconds since the epoch)."""
    turn = TurnState(machine, session, capabilities)
    return _next(turn, pipeline.due(turn, time), None)


def advance(step: Step, result: Result) -> Step:
    """Return the next step, given what the effect of this one brought back."""
    return _next(step.turn, step.run, result)


def request_for(
    machine: CompiledMachine,
    state: str,
    context: Mapping[str, Any],
    message: str,
    *,
    time: float,
    window: tuple[Exchange, ...] = (),
    capabilities: HostCapabilities = BARE_HOST,
) -> LLMRequest:
    """Return what the model would be asked about a message in a state. Raises ValueError for a wrong context."""
    known = initial_context(machine.keys, context)
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
    )
    turn = TurnState(machine, session, capabilities)
    return response.turn_request(turn, decide.available_here(turn), words_only=False)


def rehearse(step: Step, head: str) -> Step:
    """Try beside the turn what becomes of the reply that `step` asks for. Only its move is known.

    The effects are handlers of CONTEXT_UPDATE and PRE_TRANSITION, whose results hold for the turn, too. When there
    are no more, `turn.promise` holds the words that stand before those of the reply. It is None where the words of
    the reply must not be shown.
    """
    if not isinstance(step.effect, AskModel):
        raise TypeError(f"only a reply can be rehearsed, not what {type(step.effect).__name__} brings back")
    turn = step.turn.fork()
    return _next(turn, decide.rehearse(turn, head, step.effect.asked_for), None)


def _next(turn: TurnState, run: Run, result: Result | None) -> Step:
    before = len(turn.events)
    try:
        effect: Effect | None = next(run) if result is None else run.send(result)
    except StopIteration:
        effect = None
    return Step(turn.session, tuple(turn.events[before:]), effect, turn.usage, turn, run)


def apologise(
    machine: CompiledMachine, session: Session, heard: UserMessage, error: Exception, text: str
) -> tuple[Session, tuple[ev.Event, ...]]:
    """Record the turn of a message that could not be handled, when an ERROR handler gave the words to show."""
    turn = TurnState(machine, session)
    why = redacted(turn.secrets(), str(error))
    turn.emit(heard.event())
    turn.emit(ev.TurnFailed(error=type(error).__name__, message=why))
    turn.fallback = True
    turn.emit(pipeline.bot_said(turn, text))
    settings = turn.machine.definition.history
    if settings.strategy == "window" and (dropped := surplus(turn.session.window, settings)):
        turn.emit(ev.HistoryTrimmed(dropped=dropped))  # a summary comes with the next turn that can ask for one
    pipeline.watch_silence(turn)
    return turn.session, tuple(turn.events)
