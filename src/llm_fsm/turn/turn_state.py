"""The state of a turn under way: the session, the events, what will be said, and what was used.

Every function of a turn takes a `TurnState` first. `emit` is the only way in which the session
changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeVar

from msgspec import structs

from llm_fsm._json import JsonMap
from llm_fsm._text import escaped, sha256_of
from llm_fsm.session import events as ev
from llm_fsm.session.context import Keys, uphold
from llm_fsm.session.list_items import key_of
from llm_fsm.session.messages import LLMMessage, TakenForm, Usage
from llm_fsm.session.redaction import DOTS, redacted, texts_in
from llm_fsm.session.reducer import CHANGES
from llm_fsm.session.session import Frame, Session
from llm_fsm.turn.compiled import CompiledMachine, CompiledState
from llm_fsm.turn.effects import Effect, Point, Result
from llm_fsm.turn.tool_policy import NO_TOOLS, AvailableTools

MAX_MESSAGE_CHARS = 100_000
TICK = 0.001
"""Seconds. A limit counts as reached this much earlier, so that rounding clocks cannot miss it."""

FormOf = Callable[[str | None], TakenForm]


def as_object(_model: str | None) -> TakenForm:
    """Return the form of a reply for a model of which nothing else is known here."""
    return "object"


class Part(NamedTuple):
    """One part of the words of a turn.

    An empty text says nothing; None is the model's message, still arriving.
    """

    kind: Literal["fixed", "model", "pattern", "question", "notice"]
    text: str | None


def texts_of(parts: Iterable[Part]) -> tuple[str, ...]:
    """Return the texts of the parts that say something.

    The machine says no text twice. No word of a model is left out.
    """
    texts: list[str] = []
    for kind, text in parts:
        if text and (kind == "model" or text not in texts):
            texts.append(text)
    return tuple(texts)


Message = str | None
"""The words of a reply. None: they are still arriving, in the rehearsal of a stream."""
_BACKWARDS = ("correct", "back", "missing", "restart", "cancel")
"""Who makes a move that leads to a state whose question no reply could foresee."""


_ASKED_BEHIND = ("back", "restart", "skip")
"""Patterns whose question is that of the state to which they lead."""


class Offer(NamedTuple):
    """The words of the reply that counts.

    Attributes:
        message: The message.
        question: The question; "" if the reply leaves it empty, None if its form has none.
        named: The state for which it was written; "" for a repair pattern, which names none.
        start: The state in which the reply was taken.
        since: The number of events before that.
    """

    message: Message
    question: str | None
    named: str
    start: str
    since: int


class StillArrivingError(Exception):
    """Raised in a rehearsal that depends on words that have not arrived."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The reason why the run goes no further. A pause is no stop: it is in the session.

    `open`: a function of the host failed, and the next message tries again.
    `ends`: true if it ends a conversation. A run without a user ends in any case.
    """

    reason: Literal[
        "open",
        "stuck",
        "limited",
        "passed",
        "exhausted",
        "expired",
        "cancelled",
        "handover",
        "given_up",
        "silent",
    ]
    ends: bool = True


LIMITED = Stop("limited", ends=False)
"""The turn used up its calls or its time. The user's next message has those of another turn."""


class Arrival(NamedTuple):
    """The way in which the run came to the state where it is.

    `frame` is the place that a digression came back to. `back` is true after such a return, also if
    an answer that had changed led to an earlier state instead. `passed` is true if states were
    passed whose questions were answered. `stop` says why the run goes no further; None if it goes
    on, or waits for the user or for an answer.
    """

    frame: Frame | None = None
    back: bool = False
    passed: bool = False
    stop: Stop | None = None


T = TypeVar("T")
RunTo = Generator[Effect, Result, T]
"""A part of a turn that asks for effects, and returns something."""
Run = RunTo[None]
StoppableRun = RunTo[Stop | None]
"""A part of a turn that returns why the run goes no further; None if it goes on or waits."""
ArrivalRun = RunTo[Arrival]
"""A part of a turn that makes a move."""
MoveRun = RunTo[Arrival | None]
"""A part of a turn that may make a move; None if it makes none."""


R = TypeVar("R", bound=Result)


def result_of(effect: Effect, kind: type[R]) -> RunTo[R]:
    """Ask for an effect, and return its result. Raises TypeError for a result of another kind."""
    result = yield effect
    if not isinstance(result, kind):
        wanted, found = kind.__name__, type(result).__name__
        raise TypeError(f"{type(effect).__name__} wants {wanted}, got {found}")
    return result


ORDINARY = Arrival()
"""The way of a plain move."""
TURNED_BACK = Arrival(back=True)
"""The way back to an earlier state, because an answer on the path to here changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCapabilities:
    """The means of a host in every turn: the points that have handlers, its tools, whether
    summaries are wanted.

    `forced`: the provider holds a model to the form of a reply. `form_of`: the form that the model
    of this name takes; None is the machine's own model. `reached`: the limit of `limits.per` that
    forbids the model calls and functions of this turn; None if none does.
    """

    points: frozenset[Point] = frozenset()
    tools: AvailableTools = NO_TOOLS
    summaries: bool = True
    forced: bool = True
    form_of: FormOf = as_object
    reached: ev.LimitReached | None = None


BARE_HOST = HostCapabilities()


@dataclass(slots=True)
class TurnState:
    """One turn under way.

    `root` is the machine that was started; `machine` and `state` are the machine at work now and
    its current state. `usage`, `elapsed`, `tool_calls` and `auto_steps` count what this turn uses
    of the limits. `spent_before` is what the run used earlier.
    """

    root: CompiledMachine
    session: Session
    host: HostCapabilities = BARE_HOST
    events: list[ev.Event] = field(default_factory=list)
    said: tuple[Part, ...] = ()
    usage: Usage = field(default_factory=Usage)
    spent_before: Mapping[str, float] = field(default_factory=dict)
    elapsed: float = 0.0
    tool_calls: int = 0
    auto_steps: int = 0
    work_seen: frozenset[str] = frozenset()
    """Hashes of the results of tasks in this turn; one that repeats is no progress."""
    outdated: frozenset[str] = frozenset()
    """Keys that are made of what changed, and that nobody has made again."""
    left_secrets: frozenset[str] = frozenset()
    """Secret values of flows that this turn has left."""
    given_secrets: frozenset[str] = frozenset()
    """Every value that this turn was given for a secret key, and that it replaced, refused or
    removed.
    """
    fallback: bool = False
    retried: bool = False
    """True if a reply of this turn was refused, so that the next one is the last."""
    picked: Any = None
    """The value of the choice that the user picked: by a button, its number or its label."""
    yes: str = ""
    """The user's words of the yes, where the move of the turn is one."""
    offer: Offer | None = None
    """The words of the reply that counts; None if no reply does."""
    question: str = ""
    """The question that this turn has asked."""
    call_namespace: tuple[str, float] | None = None
    """Start of the idempotency keys of tool calls. None: the conversation and its turn."""
    initial_session: Session = field(init=False)
    machine: CompiledMachine = field(init=False)
    keys: Keys = field(init=False)
    """The keys of the machine at work."""
    state: CompiledState = field(init=False)

    def __post_init__(self) -> None:
        self.initial_session = self.session
        self.reset(self.session)

    def fork(self) -> TurnState:
        """Copy the turn; what the copy emits does not reach the original."""
        copy = replace(self, events=list(self.events))
        # `replace` has run `__post_init__`, which took the session of now for the first one.
        copy.initial_session = self.initial_session
        return copy

    def reset(self, session: Session) -> None:
        """Go on from this session. Before a conversation has begun, the plan is that of the initial
        state.
        """
        self.session = session
        self.machine = machine = self.root.of(session)
        self.keys = machine.keys
        self.state = machine.states[session.state or machine.definition.initial_state]

    def emit(self, event: ev.Event) -> None:
        """Record an event and apply it to the session.

        A change of the context is recorded as far as the rules of `x-valid` allow it, whoever made
        it.
        """
        if type(event) is ev.ContextSet and self.keys.rules:
            upheld = uphold(self.keys, self.session.context, event, self.session.system_names())
            # The rules cut the change: what is left, and the refusals, are emitted one by one.
            if upheld != (event,):
                self.emit_all(upheld)
                return
        # Recorded before it is applied, so that events and session agree even if a change fails.
        self.events.append(event)
        change = CHANGES.get(type(event))
        if change is None:
            return
        before = self.session
        if type(event) is ev.ContextSet:
            # Old and new: a value that is replaced is gone from the session, and may still be
            # quoted.
            self.keep_secrets(event.values)
            self.keep_secrets(before.context)
        after = change(before, event)
        # Most events stay in the state, and need no look for the machine at work. With several
        # languages, any answer may be another language.
        stays = after.state is before.state and after.flow is before.flow
        if stays and self.root.speaking is None:
            self.session = after
        else:
            self.reset(after)
        # Without keys that are made of others, here or in a caller, nothing can be outdated.
        if self.keys.made_of or after.stack:
            self._outdate(event, before)

    def emit_all(self, events: ev.Events) -> None:
        """Record events in order, as `emit` does."""
        for event in events:
            self.emit(event)

    def _outdate(self, event: ev.Event, before: Session) -> None:
        """Clear the keys that are made of what an event changed. What is made of those follows."""
        after, keys = self.session, self.keys
        match event:
            case ev.ContextSet(values=values) if keys.made_of:
                found = keys.outdated(before.context, after.context, values)
                self.outdated |= frozenset(found)
                if removed := tuple(key for key in found if key in after.context):
                    self.emit(ev.ContextSet(source="x-from", removed=removed))
            case ev.AnswersChanged(frame=frame, values=values):
                old, new = before.of_caller(frame), after.of_caller(frame)
                found = self.root.of(new).keys.outdated(old.context, new.context, values)
                if removed := tuple(key for key in found if key in new.context):
                    self.emit(ev.AnswersChanged(frame=frame, values={}, removed=removed))
            case ev.FlowReturned():
                self.outdated |= keys.made_of.keys() - after.context.keys()

    def say(
        self, kind: Literal["fixed", "model", "pattern", "question", "notice"], text: Message
    ) -> None:
        """Say something after all that was said in this turn."""
        self.said = (*self.said, Part(kind, text))

    @property
    def words(self) -> tuple[str, ...]:
        """The texts of the parts that say something."""
        return texts_of(self.said)

    @property
    def promise(self) -> str | None:
        """The text before the message that is still arriving; None if that message is not said."""
        for number, part in enumerate(self.said):
            if part.text is None:
                return "".join(f"{text}\n\n" for text in texts_of(self.said[:number]))
        return None

    def so_far(self, words: str) -> str:
        """Return the text of the turn when these words of the message that is still arriving are
        there.
        """
        # Only one message can be arriving at a time.
        number = next(place for place, part in enumerate(self.said) if part.text is None)
        return "\n\n".join(texts_of((*self.said[:number], Part("model", words))))

    def moves_since(self, offer: Offer) -> int | None:
        """Return the number of moves from the state for which a question was written to this one;
        None if the turn did not come by that state.
        """
        # Only moves after the reply count; those before it were no secret to the model.
        since = self.events[offer.since :]
        ways = [one for one in since if isinstance(one, ev.StateEntered | ev.FlowReturned)]
        if not offer.named:
            last = ways[-1] if ways else None
            behind = isinstance(last, ev.StateEntered) and last.by in _ASKED_BEHIND
            return 0 if last is None or behind else None
        places = [offer.start]
        for event in since:
            match event:
                case ev.StateEntered(state=state, by=by):
                    places = [] if by in _BACKWARDS else places
                    places.append(state)
                case ev.FlowReturned(state=state) | ev.FlowPushed(kind="subflow", entered=state):
                    places.append(state)
        return places[::-1].index(offer.named) if offer.named in places else None

    def has(self, pattern: str) -> bool:
        """Return True when a repair pattern is switched on, as a piece or as a state of the
        definition's own.
        """
        return self.machine.has(pattern)

    @property
    def here(self) -> tuple[str, str]:
        """The flow at work and its current state."""
        return self.session.flow, self.session.state

    @property
    def paused(self) -> bool:
        """True when the run waits for an answer."""
        return self.session.pause is not None

    @property
    def tools(self) -> AvailableTools:
        """The tools of the machine at work."""
        return self.host.tools.of(self.session.flow)

    @property
    def moment(self) -> float:
        """Seconds since the epoch, as far as a turn knows: its beginning and what it waited for."""
        return self.session.time + self.usage.seconds + self.elapsed

    def keep_secrets(self, values: JsonMap) -> None:
        """Remember values of secret keys, so that what this turn leaves behind does not show them."""
        if self.keys.secrets:
            secret = (value for name, value in values.items() if self.keys.is_secret(key_of(name)))
            self.given_secrets |= {*texts_in(secret)}

    def secrets(self) -> tuple[str, ...]:
        """Return the values of secret keys known now, given in this turn or left with a flow,
        longest first.
        """
        # The usual case needs no sorting of several sources.
        known = self.keys.secret_values(self.session.context)
        if not (self.left_secrets or self.given_secrets or self.session.secrets):
            return known
        found = {*known, *self.left_secrets, *self.given_secrets, *self.session.secrets}
        return tuple(sorted(found, key=len, reverse=True))

    def record_secrets(self) -> None:
        """Record the values of secret keys that this turn leaves behind, so that no later one shows
        them.
        """
        # a flow that was left keeps nothing in the session
        given = self.given_secrets - self.left_secrets
        if not given:
            return
        session = self.session
        contexts = [session.context, *(frame.saved.get("context", {}) for frame in session.stack)]
        # A value that a key still holds is masked by the key, and need not be remembered.
        held: set[str] = {*session.secrets, DOTS}
        for context in contexts:
            held.update(
                texts_in(value for key, value in context.items() if self.root.is_secret(key))
            )
        lost = given - held
        if lost:
            self.emit(ev.SecretsGiven(texts=tuple(sorted(lost))))

    def redacted(self, messages: Iterable[LLMMessage]) -> tuple[LLMMessage, ...]:
        """Return messages without the values of secrets, in plain text and in JSON."""
        secrets = self.secrets()
        if not secrets:
            return tuple(messages)
        forms: dict[str, None] = {}
        for secret in secrets:
            # Both forms of one secret come before the next secret, which may be a part of them.
            forms[secret] = None
            forms[escaped(secret)[1:-1]] = None
        return tuple(
            structs.replace(message, content=redacted(forms, message.content))
            for message in messages
        )

    def used(self) -> dict[str, float]:
        """Return what the run has used of each limit, earlier turns included."""
        return {
            name: spent(self) + self.spent_before.get(name, 0) for name, spent in _SPENT.items()
        }

    def reached_limit(self) -> ev.LimitReached | None:
        """Return the limit that forbids another model call or function; None if none does."""
        # In a fixed order, so that the same limit is named each time.
        for name, most in self.machine.bounds:
            spent = _SPENT[name](self) + self.spent_before.get(name, 0)
            # Only seconds are measured; the others are counted.
            if spent >= (most - TICK if name == "seconds" else most):
                return ev.LimitReached(limit=name, value=most)
        return self.host.reached

    def limit_reached(self) -> bool:
        """Return True, and emit it, when a limit forbids another model call or function."""
        reached = self.reached_limit()
        if reached is None:
            return False
        self.emit(reached)
        return True

    def time_left(self) -> float | None:
        """Return the seconds left of the run's limit; None without a limit."""
        most = self.machine.limits.seconds
        return None if most is None else max(0.0, most - self.used()["seconds"])

    def out_of_time(self) -> bool:
        """Return True, and emit it, when the seconds of the run are over."""
        left = self.time_left()
        if left is None or left > TICK:
            return False
        self.emit(ev.LimitReached(limit="seconds", value=self.machine.limits.seconds or 0))
        return True

    def pause(
        self,
        *,
        kind: Literal["wait", "approval", "break", "unknown_outcome"],
        what: str,
        call: JsonMap | None = None,
        schema: JsonMap | None = None,
        expires: float | None = None,
        reminders: tuple[float, ...] = (),
        loop: JsonMap | None = None,
        messages: Literal["refuse", "record"] = "refuse",
    ) -> None:
        """Let the run wait for an answer. The id is the same when the turn is begun again."""
        session = self.session
        # A turn that begins again after a crash makes the same pause, so the answer still fits.
        place = json.dumps([session.conversation_id, session.time, session.turn, len(self.events)])
        self.emit(
            ev.Paused(
                id=sha256_of(place)[:16],
                kind=kind,
                what=what,
                state=self.session.state,
                call=call,
                schema=schema or {},
                expires=expires,
                reminders=reminders,
                loop=loop,
                spent=self.used(),
                messages=messages,
            )
        )


_SPENT: Mapping[str, Callable[[TurnState], float]] = {
    "llm_calls": attrgetter("usage.calls"),
    "tool_calls": attrgetter("tool_calls"),
    "auto_steps": attrgetter("auto_steps"),
    "tokens": lambda turn: turn.usage.input_tokens + turn.usage.output_tokens,
    "seconds": lambda turn: turn.usage.seconds + turn.elapsed,
    "money": attrgetter("usage.cost"),
}
"""The amount of each limit that the turn itself has used."""
