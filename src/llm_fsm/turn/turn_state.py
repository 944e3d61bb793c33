"""A turn under way: what happened so far, what it used, and the ways in which every part of it asks for more.

Pure: no clock, network, random number, log, lock or await. A turn is written as generators that yield
effects and are sent their results.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Iterable, Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, Literal, Self

from llm_fsm._copies import made, row
from llm_fsm._text import cut, escaped, estimate
from llm_fsm.session import events as ev
from llm_fsm.session.context import accept_host
from llm_fsm.session.messages import LLMMessage, LLMRequest, ModelReply, ReplySchema, ToolSpec, Usage
from llm_fsm.session.redaction import blotted
from llm_fsm.session.reducer import CHANGES
from llm_fsm.session.session import Frame, Session
from llm_fsm.turn.available import turn_view
from llm_fsm.turn.available_tools import NO_TOOLS, Kit
from llm_fsm.turn.compiled import Outlook, Program, StatePlan
from llm_fsm.turn.effects import (
    AskedFor,
    AskModel,
    Effect,
    HandlerResult,
    HandlerResults,
    OutOfTime,
    Point,
    Result,
    RunHandlers,
    Unanswered,
)
from llm_fsm.turn.guards import Move, verdict
from llm_fsm.turn.prompt.render import call_sizes, own_sizes, second_try

MAX_MESSAGE_CHARS = 100_000
_NOTHING = Usage()
_UNFINISHED = ("length", "content_filter")
_NONE: frozenset[str] = frozenset()
TICK = 0.001
"""Seconds: less than that is no time, so that what is cut off at a limit has reached it, however clocks round."""

Run = Generator[Effect, Result, None]
Stopped = Literal["", "stuck", "limit", "passed", "exhausted", "expired", "cancelled", "handover", "given_up", "silent"]


class Progress:
    """The session folded over what happened so far, and what will be said. `kits`: the tools that there are.

    `program` and `plan` are the definition that is at work now, and its current state.
    `root` is the definition that was started; `hidden` are secrets of flows that were left in this turn, `reopened`
    is the place that a digression came back to, unless an answer changed in it `turned_back` the conversation to
    an earlier state. `stopped` says why the run goes no further; a pause is in the session.
    """

    __slots__ = (
        "base",
        "elapsed",
        "events",
        "fallback",
        "hidden",
        "kits",
        "outset",
        "plan",
        "points",
        "program",
        "promise",
        "reopened",
        "root",
        "said",
        "seen",
        "session",
        "space",
        "steps",
        "stopped",
        "summaries",
        "tool_calls",
        "turned_back",
        "usage",
    )

    def __init__(
        self,
        program: Program,
        session: Session,
        points: frozenset[Point],
        kit: Kit = NO_TOOLS,
        *,
        summaries: bool = True,
    ) -> None:
        self.root = program
        self.stand(session)
        self.outset = session
        self.points = points
        self.kits = kit
        self.summaries = summaries
        self.events: list[ev.Event] = []
        self.said: list[str] = []
        self.usage = _NOTHING
        self.base: Mapping[str, float] = {}
        self.elapsed = 0.0
        self.tool_calls = 0
        self.steps = 0
        self.seen: frozenset[str] = _NONE
        self.hidden: frozenset[str] = _NONE
        self.reopened: Frame | None = None
        self.turned_back = False
        self.fallback = False
        self.stopped: Stopped = ""
        self.promise: str | None = None
        """In a fork: the words that stand before those of the reply, where these may be shown."""
        self.space: tuple[str, float] | None = None
        """What tells the calls of this course from those of others, and when it began; None: those of the turn."""

    def fork(self) -> Self:
        """The same course beside itself: what it notes from now on is its own."""
        other = copy(self)
        other.events, other.said = list(self.events), list(self.said)
        return other

    def stand(self, session: Session) -> None:
        """Go on from a session. Before a conversation has begun, its plan is that of the initial state."""
        self.session = session
        self.program = program = self.root.of(session)
        self.plan: StatePlan = program.states[session.state or program.definition.initial_state]

    def note(self, event: ev.Event) -> None:
        self.events.append(event)
        change = CHANGES.get(type(event))
        if change is None:
            return
        before = self.session
        after = change(before, event)
        if after.state is before.state and after.flow is before.flow:
            self.session = after
        else:
            self.stand(after)

    def has(self, pattern: str) -> bool:
        """True when a repair pattern is switched on, whoever brings its words."""
        return pattern in self.program.patterns or pattern in self.program.own_patterns

    @property
    def here(self) -> tuple[str, str]:
        """The definition that is at work, and its current state."""
        return self.session.flow, self.session.state

    @property
    def kit(self) -> Kit:
        """The tools of the definition that is at work now."""
        return self.kits.of(self.session.flow)

    @property
    def moment(self) -> float:
        """Seconds since the epoch, as far as a turn can know: when it began and what it waited for."""
        return self.session.time + self.usage.seconds + self.elapsed

    # -- secrets

    def secrets(self) -> tuple[str, ...]:
        """The values of secret keys that are known now, and of flows that were left in this turn; longest first."""
        known = self.program.keys.secret_values(self.session.context)
        return known if not self.hidden else tuple(sorted({*known, *self.hidden}, key=len, reverse=True))

    def blotted(self, messages: Iterable[LLMMessage]) -> tuple[LLMMessage, ...]:
        """Messages without the values of secrets, as they stand in words and in JSON."""
        secrets = self.secrets()
        if not secrets:
            return tuple(messages)
        forms = tuple(dict.fromkeys(form for secret in secrets for form in (secret, escaped(secret)[1:-1])))
        return tuple(replace(message, content=blotted(forms, message.content)) for message in messages)

    # -- limits

    def used(self) -> dict[str, float]:
        """What the run has used of its limits, the time before its last pause included."""
        return {name: spent(self) + self.base.get(name, 0) for name, spent in _SPENT.items()}

    def spent(self) -> bool:
        """True, and noted, when a limit of the definition forbids another model call or function."""
        for name, most in self.program.bounds:
            if _SPENT[name](self) + self.base.get(name, 0) >= (most - TICK if name == "seconds" else most):
                self.note(ev.LimitReached(limit=name, value=most))
                return True
        return False

    def time_left(self) -> float | None:
        """Seconds left of the run's limit; None: it has none."""
        most = self.program.limits.seconds
        return None if most is None else max(0.0, most - self.used()["seconds"])

    def out_of_time(self) -> bool:
        """True, and noted, when the seconds of the run are over."""
        left = self.time_left()
        if left is None or left > TICK:
            return False
        self.note(ev.LimitReached(limit="seconds", value=self.program.limits.seconds or 0))
        return True

    # -- handlers

    def run(
        self, point: Point, *, target: str | None = None, updated: Iterable[str] = (), text: str | None = None
    ) -> Generator[Effect, Result, tuple[HandlerResult, ...]]:
        if not self.points or point not in self.points:
            return ()
        found = yield RunHandlers(
            point=point,
            session=self.session,
            number=len(self.events),
            target=target,
            updated=frozenset(updated),
            text=text,
        )
        if not isinstance(found, HandlerResults):
            raise TypeError(f"{point} wants HandlerResults, got {type(found).__name__}")
        for result in found.results:
            self.elapsed += result.seconds
            if result.error is not None:
                error = blotted(self.secrets(), result.error)
                self.note(ev.HandlerFailed(handler=result.handler, point=point.value, error=error))
            for event in accept_host(self.program.keys, self.session.context, result.changes):
                self.note(event)
        return found.results

    def vetoed(self, move: Move) -> Generator[Effect, Result, str | None]:
        """The reason of the first handler that forbids a move; the refusal is noted."""
        for result in (yield from self.run(Point.PRE_TRANSITION, target=move.target)):
            if result.veto is not None:
                self.note(ev.MoveRefused(target=move.target, reason=result.veto, by="veto"))
                return result.veto
        return None

    def first(self, moves: Iterable[Move]) -> Generator[Effect, Result, Move | None]:
        """The first move whose conditions hold and that no handler forbids."""
        for move in moves:
            found = verdict(move, self.session.data())
            if found.error is not None:
                self.note(ev.ConditionFailed(transition=move.pointer, reason=found.error))
            if found.holds and (yield from self.vetoed(move)) is None:
                return move
        return None

    # -- the model

    def question(
        self,
        messages: tuple[LLMMessage, ...],
        schema: ReplySchema | None,
        *,
        tools: tuple[ToolSpec, ...] = (),
        temperature: float | None = None,
    ) -> LLMRequest:
        """A request on behalf of the current state; what follows its system message shows no secret."""
        plan = self.plan
        return LLMRequest(
            messages=(*messages[:1], *self.blotted(messages[1:])),
            schema=schema,
            model=plan.model.name,
            temperature=plan.model.temperature if temperature is None else temperature,
            max_tokens=plan.model.max_tokens,
            conversation_id=self.session.conversation_id,
            state=plan.id,
            tools=tools,
        )

    def no_look(self) -> Outlook:
        return Outlook(items=(), valid=(self.plan.id,), open=frozenset(), arrivals={})

    def again(
        self, request: LLMRequest, text: str, reason: str, valid: tuple[str, ...] | None = None, *, unmet: str = ""
    ) -> LLMRequest:
        """The same question with the refused reply and a line that says why. `valid`, `unmet`: as of `second_try`."""
        further = second_try(self.program.prompts, text, reason, valid, unmet=unmet)
        messages = self.blotted((*request.messages, *further))
        more = sum(estimate(message.content) for message in messages[len(request.messages) :])
        return replace(request, messages=messages, sizes={**own_sizes(request), "second_try": more})

    def call(
        self,
        asked_for: AskedFor,
        request: LLMRequest,
        look: Outlook,
        refused: tuple[str, ...] = (),
        about: Mapping[str, Any] | None = None,
    ) -> Generator[Effect, Result, ModelReply | None]:
        """One model call; None when a limit forbids or stops it, or for a summary that nobody made."""
        if self.spent():
            return None
        view = partial(
            turn_view,
            self.root,
            self.session,
            look,
            speak=asked_for != "turn",
            refused=refused,
            task=asked_for not in ("turn", "greeting", "words"),
        )
        reply = yield row(AskModel, request, asked_for, view, self.time_left(), about)
        if isinstance(reply, OutOfTime):
            self.usage += Usage(calls=1, attempts=1, seconds=reply.seconds)
            self.note(ev.LimitReached(limit="seconds", value=self.program.limits.seconds or 0))
            return None
        if isinstance(reply, Unanswered):
            self.usage += Usage(calls=min(reply.attempts, 1), attempts=reply.attempts, seconds=reply.seconds)
            self.note(ev.ReplyRejected(fault="no-reply", reason=blotted(self.secrets(), reply.reason)))
            return None
        if not isinstance(reply, ModelReply):
            raise TypeError(f"a model call wants a ModelReply, got {type(reply).__name__}")
        self.usage = reply.usage if self.usage is _NOTHING else self.usage + reply.usage
        self.note(
            made(
                ev.ModelReplied,
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
                prompt=call_sizes(request),
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

    # -- pauses

    def pause(
        self,
        *,
        kind: Literal["wait", "approval", "break", "unknown_outcome"],
        what: str,
        call: Mapping[str, Any] | None = None,
        schema: Mapping[str, Any] | None = None,
        expires: float | None = None,
        reminders: tuple[float, ...] = (),
        loop: Mapping[str, Any] | None = None,
    ) -> None:
        """Have the run wait for an answer."""
        session = self.session
        place = json.dumps([session.conversation_id, session.time, session.turn, len(self.events)])
        self.note(
            ev.Paused(
                id=hashlib.sha256(place.encode()).hexdigest()[:16],
                kind=kind,
                what=what,
                state=self.session.state,
                call=call,
                schema=schema or {},
                expires=expires,
                reminders=reminders,
                loop=loop,
                spent=self.used(),
            )
        )

    @property
    def paused(self) -> bool:
        return self.session.pause is not None


_SPENT: Mapping[str, Callable[[Progress], float]] = {
    "llm_calls": attrgetter("usage.calls"),
    "tool_calls": attrgetter("tool_calls"),
    "auto_steps": attrgetter("steps"),
    "tokens": lambda turn: turn.usage.input_tokens + turn.usage.output_tokens,
    "seconds": lambda turn: turn.usage.seconds + turn.elapsed,
    "money": attrgetter("usage.cost"),
}
"""What a turn itself has used of each limit."""
