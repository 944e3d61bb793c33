"""Play a recorded conversation again, on another definition or with another model, and find the
first difference.

Messages, answers and times come from the record. So do the model's replies (unless another model is
asked), results of tools and checks, and changes by handlers. A model that is asked for more than is
on record repeats itself. Nothing is stored, and nothing outside is called.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from llm_fsm._json import JsonDict, JsonMap, json_text, of_kind
from llm_fsm.session import events as ev
from llm_fsm.session.messages import ModelReply, ToolCall, ToolSpec
from llm_fsm.session.redaction import DOTS
from llm_fsm.session.reducer import fold
from llm_fsm.session.session import Session
from llm_fsm.session.turn_record import Records, TurnRecord, events_of, first_of
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.effects import (
    AskModel,
    CallTools,
    CheckKeyResults,
    Effect,
    Executed,
    HandlerResult,
    HandlerResults,
    PickRoute,
    Point,
    Result,
    Routed,
    RunHandlers,
    ToolResult,
    ToolResults,
    Unanswered,
    Verdicts,
)
from llm_fsm.turn.pipeline import Answer, Due, Opening, Resume, Update, UserMessage
from llm_fsm.turn.steps import Step, advance, begin
from llm_fsm.turn.tool_arguments import ArgumentsFault, read_arguments
from llm_fsm.turn.tool_policy import AvailableTools, ToolPolicy, planned
from llm_fsm.turn.turn_state import HostCapabilities

Asks = Callable[[AskModel], Awaitable[ModelReply]]
_POINTS = frozenset(Point) - {Point.POST_TRANSITION, Point.END_CONVERSATION, Point.ERROR}
_GOES_ON = (
    ev.AttemptBegun,
    ev.BotSaid,
    ev.Ended,
    ev.Paused,
    ev.StateEntered,
    ev.FlowPushed,
    ev.SilenceWatched,
)
"""The record of a start holds one of these, unless the run was to continue in a turn of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The first turn that differs. `what` is state, end, pause, context, words or replies."""

    turn: int
    what: str
    was: str
    now: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """The result for one conversation. `turns` counts the turns played, up to the first
    difference."""

    conversation_id: str
    turns: int
    divergence: Divergence | None = None


class NotRecordedError(Exception):
    """The turn needs a result that the record does not hold."""


def recorded_tools(program: CompiledMachine) -> AvailableTools:
    """Return a definition's tools as far as it describes them itself. That is enough for recorded
    calls."""
    specs = {
        name: ToolSpec(name=name, description="", parameters={})
        for name in program.definition.tools
    }
    return AvailableTools(
        policies={
            name: planned(name, ref, ToolPolicy(spec=specs[name]))
            for name, ref in program.definition.tools.items()
        },
        states={name: tuple(plan.definition.tools) for name, plan in program.states.items()},
        flows={name: recorded_tools(called) for name, called in program.flows.items()},
    )


async def replay_turns(
    program: CompiledMachine,
    kit: AvailableTools,
    conversation_id: str,
    records: Records,
    asks: Asks | None = None,
) -> ReplayResult:
    """Play a conversation again, up to the first turn that differs.

    Args:
        asks: Another model; None takes the replies on record.

    Raises:
        ModelError: The other model failed.
    """
    refused = not_taken(records)
    capabilities = HostCapabilities(
        points=_POINTS, tools=_picky(kit, refused) if refused else kit, summaries=True
    )
    recorded = now = Session(conversation_id=conversation_id)
    before = {}
    played = 0
    for number, record in enumerate(records, 1):
        before[number] = (recorded, now)
        recorded = fold(recorded, record.events)
        if record.kind in ("migrate", "end"):
            now = fold(now, of_kind(record.events, ev.Ended))
            continue
        # No reply is on record.
        if any(isinstance(event, ev.TurnFailed | ev.WordsHeard) for event in record.events):
            now = fold(now, record.events)
            continue
        if record.kind == "undo":
            [undone] = of_kind(record.events, ev.TurnUndone)
            recorded, now = before[undone.record]
            continue
        try:
            # Records of other conversations decided it, so it is read and not computed.
            reached = [event for event in of_kind(record.events, ev.LimitReached) if event.per]
            means = replace(capabilities, reached=reached[0]) if reached else capabilities
            step = _begin(program, now, record, means)
            step, words = await _played(step, record, asks)
        except (NotRecordedError, ValueError) as error:
            found = Divergence(turn=record.turn, what="replies", was="as recorded", now=str(error))
            return ReplayResult(conversation_id=conversation_id, turns=played, divergence=found)
        now = step.session
        played += 1
        said = (record.text, words) if asks is None else ("", "")
        differs = _difference(program, recorded, now, said)
        if differs is not None:
            what, was, is_now = differs
            found = Divergence(turn=record.turn, what=what, was=was, now=is_now)
            return ReplayResult(conversation_id=conversation_id, turns=played, divergence=found)
    return ReplayResult(conversation_id=conversation_id, turns=played)


def _begin(
    program: CompiledMachine, session: Session, record: TurnRecord, capabilities: HostCapabilities
) -> Step:
    """Return the first step of a recorded turn.

    Raises:
        NotRecordedError: The turn needs a result that the record does not hold.
        ValueError: The turn cannot begin on this definition.
    """
    if record.kind != "start" and not session.definition:
        raise NotRecordedError("the record of its start is missing")
    for event in record.events:
        match event:
            case ev.Started():
                return _opening(program, session, event, record, capabilities)
            case ev.UserSaid(text=text, time=time):
                refuses = session.pause is not None and session.pause.messages == "refuse"
                if refuses or session.ended:
                    raise NotRecordedError("the conversation takes no message here")
                message = UserMessage(
                    text=text,
                    time=time,
                    request_id=event.request_id,
                    picked=event.picked,
                    merged=event.merged,
                    early=event.early,
                )
                return begin(program, session, message, capabilities)
            case ev.Updated(time=time, values=values, state=state):
                said = record.text if values == {} and state is None else None
                update = Update(
                    time=time,
                    context=values,
                    state=state,
                    text=said,
                    by=record.by,
                    agreed=_says_yes(record),
                )
                return begin(program, session, update, capabilities)
            case ev.Answered(value=value, time=time):
                if session.pause is None:
                    raise NotRecordedError("the conversation waits for no answer here")
                return begin(program, session, Answer(value=value, time=time), capabilities)
            case ev.RunResumed(time=time):
                return begin(program, session, Resume(time=time), capabilities)
            case ev.TimedOut(time=time) | ev.Reminded(time=time):
                return _due(program, session, time, capabilities)
    if record.kind == "due":  # no event says that nobody spoke until the end
        return _due(
            program,
            session,
            0.0 if session.silence is None else session.silence.closes or 0.0,
            capabilities,
        )
    raise NotRecordedError(f"a turn of the kind {record.kind!r} that says not how it began")


def _says_yes(record: TurnRecord) -> bool:
    """Return true if the program said yes to an act."""
    return any(isinstance(event, ev.Agreed) and event.by == "host" for event in record.events)


def _due(
    program: CompiledMachine, session: Session, time: float, capabilities: HostCapabilities
) -> Step:
    if session.pause is None and session.silence is None:
        raise NotRecordedError("the conversation waits for nothing here")
    return begin(program, session, Due(time=time), capabilities)


def _opening(
    program: CompiledMachine,
    session: Session,
    event: ev.Started,
    record: TurnRecord,
    capabilities: HostCapabilities,
) -> Step:
    known = event.state in program.states
    opening = Opening(
        conversation_id=event.conversation_id,
        time=event.time,
        context={key: value for key, value in event.context.items() if not key.startswith("_")},
        state=event.state if known and event.state != program.definition.initial_state else None,
        greet=any(isinstance(item, ev.BotSaid) for item in record.events),
        input=event.input,
        background=event.memory.get("background"),
        history=event.history,
        timezone=event.timezone,
        metadata=event.metadata,
        hold=not any(isinstance(item, _GOES_ON) for item in record.events),
        agreed=_says_yes(record),
        origin=event.origin,
        acts=event.acts,
    )
    before = Session(conversation_id=event.conversation_id)
    if event.generation > 1:
        before = session.before_another()
    return begin(program, before, opening, capabilities)


async def _played(step: Step, record: TurnRecord, asks: Asks | None) -> tuple[Step, str]:
    """Return the last step of a turn, and its words."""
    source = _Source(record)
    words = []
    while True:
        words += [said.text for said in of_kind(step.events, ev.BotSaid)]
        effect = step.effect
        if effect is None:
            return step, "\n\n".join(words)
        if asks is not None and isinstance(effect, AskModel):
            step = advance(step, await asks(effect))
        else:
            step = advance(step, source.result(effect))


class _Source:
    """The recorded results of a turn's effects."""

    def __init__(self, record: TurnRecord) -> None:
        self._events = record.events
        self._replies = of_kind(record.events, ev.ModelReplied)
        self._calls = of_kind(record.events, ev.ToolReturned)
        rejected = of_kind(record.events, ev.ReplyRejected)
        self._failed = (1 for event in rejected if event.fault == "no-reply")
        self._refused = of_kind(record.events, ev.ToolRefused)
        unmade = of_kind(record.events, ev.MoveRefused)
        self._vetoes = [event for event in unmade if event.by == "veto"]
        self._last: ev.ModelReplied | None = None
        self._wrote = 0

    def result(self, effect: Effect) -> Result:
        """Return the recorded result of an effect.

        Raises:
            NotRecordedError: There is none.
        """
        match effect:
            case AskModel():
                return self._reply(effect)
            case RunHandlers():
                vetoes = self._vetoed(effect) if effect.point is Point.PRE_TRANSITION else ()
                handled = self._handled(last=effect.point is Point.POST_PROCESSING)
                return HandlerResults(results=(*handled, *vetoes))
            case CallTools():
                return ToolResults(
                    results=tuple(
                        self._called(call.id, call.name, call.arguments) for call in effect.calls
                    )
                )
            case CheckKeyResults():
                checked = of_kind(self._events, ev.KeyResultChecked)
                found = {
                    event.name: (event.passed, event.reason)
                    for event in checked
                    if event.by == "registered"
                }
                if any(name not in found for name, _ in effect.checks):
                    raise NotRecordedError(
                        "a registered check is asked whose verdict is not on record"
                    )
                verdicts = {name: found[name] for name, _ in effect.checks}
                return Verdicts(verdicts=verdicts, failed=tuple(self._failures("check")))
            case PickRoute():
                for event in self._events:
                    if isinstance(event, ev.RoutePicked) and event.state == effect.state:
                        failed = next(self._failures("route"), None)
                        return Routed(label=event.label, error=event.error, failed=failed)
                raise NotRecordedError(
                    "a function picks a way, and what it picked is not on record"
                )
        return self._executed(effect.state)

    def _executed(self, state: str) -> Executed:
        """Return the function's recorded result for an attempt: the output that passed, or the
        failure."""
        here = [event for event in self._events if getattr(event, "state", None) == state]
        if (passed := first_of(here, ev.TaskPassed)) is not None:
            return Executed(output=passed.output)
        raised = tuple(self._failures("function"))
        failed = (event.failures for event in of_kind(here, ev.AttemptFailed))
        failures = list(chain.from_iterable(failed))
        fault = next((item["reason"] for item in failures[::-1] if item["name"] == "output"), None)
        for event in here:
            match event:
                case ev.TaskExhausted():
                    return Executed(output=event.output, error=fault, happened=raised)
                case ev.Paused() if event.loop is not None:
                    asked = {
                        "kind": event.kind,
                        "what": event.what,
                        "call": event.call,
                        "schema": event.schema,
                    }
                    return Executed(paused=asked)
        stopped = any(item["name"] == "limit" for item in failures)
        for event in self._events if stopped else ():
            if isinstance(event, ev.LimitReached):
                return Executed(limit=event.limit)
        if raised and fault is not None:
            return Executed(error=fault, happened=raised)
        raise NotRecordedError(f"the function of {state!r} runs, whose result is not on record")

    def _failures(self, kind: str) -> Iterator[ev.FunctionFailed]:
        """Yield the recorded failures of functions of a kind."""
        for event in self._events:
            if isinstance(event, ev.FunctionFailed) and event.kind == kind:
                yield event

    def _reply(self, effect: AskModel) -> ModelReply | Unanswered:
        if effect.asked_for == "summary" and not (
            self._replies and self._replies[0].asked_for == "summary"
        ):
            return Unanswered(reason="no summary is on record here", attempts=next(self._failed, 0))
        for number, event in enumerate(self._replies):
            if event.asked_for == effect.asked_for:
                del self._replies[: number + 1]
                return self._again(event)
        if self._last is not None:  # a real model would repeat itself when its reply was refused
            return self._again(self._last)
        raise NotRecordedError(
            f"the model is asked for more than is on record ({effect.asked_for})"
        )

    def _again(self, event: ev.ModelReplied) -> ModelReply:
        self._last = event
        calls = tuple(ToolCall(**call) for call in event.calls)
        return ModelReply(text=event.text, model=event.model, mode=event.mode, tool_calls=calls)

    def _handled(self, *, last: bool) -> tuple[HandlerResult, ...]:
        """Return the handlers' changes that were recorded after this many replies; all of them at
        the end.

        A handler that corrects a value of a reply must run after the reply.
        """
        written = []
        before_attempt, replies = 0, 0
        for event in self._events:
            match event:
                case ev.ModelReplied():
                    replies += 1
                case ev.ContextSet(source="host"):
                    written.append((replies, event))
                case ev.AttemptBegun():
                    before_attempt = len(written)
                case ev.AttemptFailed():  # its changes were undone
                    del written[before_attempt:]
        used = replies if last else replies - len(self._replies)
        due = [event for count, event in written if count <= used]
        if not due[self._wrote :]:
            return ()
        changes: JsonDict = {}
        for event in due[self._wrote :]:
            changes |= {**event.values, **dict.fromkeys(event.removed)}
        self._wrote = len(due)
        return (HandlerResult(handler="recorded", changes=changes),)

    def _vetoed(self, effect: RunHandlers) -> tuple[HandlerResult, ...]:
        """Return the recorded reasons of handlers that forbade this move."""
        for number, event in enumerate(self._vetoes):
            if event.target == effect.target:
                del self._vetoes[number]
                return (HandlerResult(handler="recorded", veto=event.reason),)
        return ()

    def _called(self, id: str, name: str, arguments: JsonMap) -> ToolResult:
        for event in self._calls:
            if event.name == name and event.arguments == arguments:
                return ToolResult(id=id, name=name, value=event.result, error=event.error)
        reason = _refusal(self._refused, name, arguments)
        if reason is not None:
            return ToolResult(id=id, name=name, error=reason, refused=True)
        raise NotRecordedError(
            f"{name} is called as it was not on record: {json.dumps(arguments)[:200]}"
        )


def _refusal(refused: Iterable[ev.ToolRefused], name: str, arguments: JsonMap) -> str | None:
    """Return why a call was refused; None if none of these refusals is its own."""
    for event in refused:
        with suppress(ArgumentsFault):  # too long to be recorded whole
            if event.name == name and read_arguments(event.arguments) == arguments:
                return event.reason
    return None


def _picky(kit: AvailableTools, refused: Sequence[ev.ToolRefused]) -> AvailableTools:
    """Let tools refuse the arguments that they refused on record, so that nobody is asked about
    such calls."""
    terms = {
        name: replace(term, fits=partial(_refusal, refused, name))
        for name, term in kit.policies.items()
    }
    return replace(
        kit, policies=terms, flows={name: _picky(one, refused) for name, one in kit.flows.items()}
    )


def not_taken(records: Records) -> list[ev.ToolRefused]:
    """Return the refused calls, without those about which a person was asked."""
    events = list(events_of(records))
    asked = [event.call for event in of_kind(events, ev.Paused) if event.call is not None]
    refused = [event for event in of_kind(events, ev.ToolRefused) if not event.sentence]
    return [event for event in refused if not any(_is_of(event, call) for call in asked)]


def _is_of(event: ev.ToolRefused, call: JsonMap) -> bool:
    """Return true if a refusal is one of a call about which a person was asked."""
    name, arguments = call.get("name", ""), call.get("arguments", {})
    return bool(_refusal((event,), name, arguments))


def _difference(
    program: CompiledMachine, was: Session, now: Session, said: tuple[str, str]
) -> tuple[str, str, str] | None:
    """Return the first difference after a turn, before and now, with dots for secret values."""
    if (was.state, was.flow) != (now.state, now.flow):
        return "state", was.state, now.state
    if was.ended != now.ended:
        return "end", was.outcome or "goes on", now.outcome or "goes on"
    if (was.pause is None) != (now.pause is None):
        return ("pause", "goes on", "waits") if was.pause is None else ("pause", "waits", "goes on")
    for key in sorted({*was.context, *now.context}):
        if was.context.get(key) != now.context.get(key):
            secret = program.is_secret(key)
            return ("context", _shown(was, key, secret=secret), _shown(now, key, secret=secret))
    return ("words", *said) if said[0] != said[1] else None


def _shown(session: Session, key: str, *, secret: bool) -> str:
    if key not in session.context:
        return f"{key} is not set"
    return f"{key} = {DOTS if secret else json_text(session.context[key])}"
