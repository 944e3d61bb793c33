"""Turns, conversations and definitions as JSON for callers, without the values of secret keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec.structs import asdict
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from llm_fsm import AsyncMachine, Choice, Turn
from llm_fsm import events as ev
from llm_fsm._json import JsonDict, JsonMap, TextMap, of_kind, plain
from llm_fsm.definition.models import JsonObject
from llm_fsm.engine.pauses import OpenPause
from llm_fsm.records.explain import Explanation
from llm_fsm.server.machines import Served
from llm_fsm.server.problems import Problem
from llm_fsm.server.service import Begun
from llm_fsm.session.messages import Message, Paused
from llm_fsm.session.redaction import shown_event, shown_values
from llm_fsm.session.reducer import pause_of
from llm_fsm.stores.base import Listed


class UsageView(BaseModel):
    """The usage of a turn. `seconds`: waiting time for models; `cost`: US dollars."""

    calls: int
    attempts: int
    input_tokens: int
    output_tokens: int
    seconds: float
    cost: float


class PausedView(BaseModel):
    """A pause, which waits for an answer. `schema`: JSON Schema of the answer; `expires`: seconds
    since the epoch.

    `may_answer`: false if a colleague has to answer it. Then `what` is a sentence for the user.
    `messages`: record if the user may write meanwhile, to a person who has taken over.
    """

    model_config = ConfigDict(protected_namespaces=())

    id: str
    kind: Literal["wait", "approval", "break", "unknown_outcome"]
    what: str
    state: str
    call: JsonObject | None
    answer_schema: JsonObject = Field(alias="schema")
    expires: float | None
    may_answer: bool
    messages: Literal["refuse", "record"]


class ChoiceView(BaseModel):
    """One choice of the user: the label of its button, its value, and the question that it answers.

    Send the label as a message with `picked` true, and `question` as it came.
    """

    label: str
    value: JsonValue
    question: str


class TurnView(BaseModel):
    """One turn. `outcome`: while the conversation goes on, "", or "limited" at a limit of
    `limits.per`; secrets in `context` are dots.

    `by`: the person who said the text in place of the machine; "" is the machine.
    """

    conversation_id: str
    number: int
    text: str
    by: str
    state: str
    previous_state: str
    moved: bool
    context: JsonObject
    ended: bool
    paused: PausedView | None
    output: JsonValue
    outcome: str
    request_id: str | None
    usage: UsageView
    choices: list[ChoiceView]


class AcceptedView(BaseModel):
    """A message that was accepted. `answered`: true if its turn is there already."""

    conversation_id: str
    request_id: str
    answered: bool


class ConversationView(BaseModel):
    """A conversation in its current state. Times are seconds since the epoch. `generation`: how
    often it began.
    """

    id: str
    definition: str
    state: str
    ended: bool
    context: JsonObject
    paused: PausedView | None
    due: float | None
    choices: list[ChoiceView]
    metadata: dict[str, str]
    generation: int


class StartedView(ConversationView):
    """A new or forked conversation. `greeting`: its first message."""

    greeting: str


class ListedView(BaseModel):
    """A line of the listing. Times are seconds since the epoch."""

    id: str
    definition: str
    state: str
    ended: bool
    turns: int
    created: float
    updated: float
    metadata: dict[str, str]


class EventView(BaseModel):
    """One event on record. Its further members depend on its `type`."""

    model_config = ConfigDict(extra="allow")

    type: str


class RecordedView(TurnView):
    """A turn on record, with its events."""

    events: list[EventView]


class TurnsView(BaseModel):
    """A page of the turns of a conversation. `next`: pass it as `after` for the next page; null at
    the end.
    """

    turns: list[RecordedView]
    next: int | None


class MessageView(BaseModel):
    """One message of a conversation. `turn` counts from 1; the greeting is turn 0.

    `by`: the person who said it in place of the machine; "" is the machine, or the user. `claimed`:
    it was said elsewhere before, as the client claims.
    """

    role: Literal["user", "assistant"]
    text: str
    turn: int
    by: str
    claimed: bool


class HistoryView(BaseModel):
    """A page of the messages of a conversation. `next`: pass it as `after` for the next page; null
    at the end.
    """

    messages: list[MessageView]
    next: int | None


class OpenPauseView(BaseModel):
    """A conversation that waits for an answer. Times are seconds since the epoch.

    `id`: the pause, for its answer. `schema`: JSON Schema of the answer. `messages`: record if the
    user may write meanwhile. `by`: the person who spoke last since it waits; "" if nobody did.
    """

    model_config = ConfigDict(protected_namespaces=())

    conversation_id: str
    kind: Literal["wait", "approval", "break", "unknown_outcome"]
    what: str
    id: str
    call: JsonObject | None
    state: str
    definition: str
    answer_schema: JsonObject = Field(alias="schema")
    expires: float | None
    messages: Literal["refuse", "record"]
    by: str
    updated: float
    metadata: dict[str, str]


class RunView(BaseModel):
    """A run without a user. `status`: running, paused, or its outcome."""

    id: str
    definition: str
    status: str
    state: str
    output: JsonValue
    context: JsonObject
    paused: PausedView | None


def checked_new_id(given: str | None) -> str | None:
    """Check an id that the client chose. Raises Problem 422 if it cannot be part of a URL."""
    if given is None:
        return None
    if (
        not given.isprintable()
        or "/" in given
        or "\\" in given
        or given in (".", "..")
        or given != given.strip()
    ):
        raise Problem(
            "invalid",
            "an id has 1 to 150 printable characters without slashes",
            extra={"errors": [{"pointer": "/id", "in": "body", "detail": "not an id"}]},
        )
    return given


def head_of(machine: AsyncMachine) -> JsonDict:
    """Return the summary of a definition."""
    definition = machine.definition
    talks = definition.kind_of(definition.initial_state) == "converse"
    return {
        "name": definition.name,
        "description": definition.description,
        "version": definition.version,
        "sha256": definition.sha256,
        "works_alone": not talks,
        "states": list(definition.states),
    }


def context_of(machine: AsyncMachine, context: JsonMap) -> JsonDict:
    """Return a context without the values of secret keys."""
    return shown_values(context, machine.program.is_secret)


COLLEAGUE = "A colleague has to agree to this."
"""The sentence that a user reads at a pause that they may not answer."""
TAKEN_OVER = "A colleague takes over here. You can go on writing."
"""The sentence that a user reads while a person has taken over."""


def paused_of(served: Served, paused: Any) -> JsonDict | None:
    """Return a pause; None for none. Who may not answer it does not read how to, nor for what it
    is.
    """
    if paused is None:
        return None
    document = asdict(paused)
    if served.may_answer(paused):
        return {**document, "may_answer": True}
    return {**document, **_of_colleagues(paused), "may_answer": False}


def _of_colleagues(paused: Paused) -> JsonDict:
    """Return the members of a pause that tell how to answer it, or what it is for, as others see
    them.
    """
    words = TAKEN_OVER if paused.messages == "record" else COLLEAGUE
    return {"what": words, "call": None, "schema": {}}


def choices_of(choices: Iterable[Choice]) -> list[JsonDict]:
    """Return the choices that the user has, as JSON data."""
    return [_members(ChoiceView, one) for one in choices]


def turn_of(served: Served, turn: Turn) -> JsonDict:
    """Return a turn."""
    return _members(
        TurnView,
        turn,
        conversation_id=served.id,
        by=next((said.by for said in of_kind(turn.events, ev.BotSaid)), ""),
        context=context_of(served.machine, turn.context),
        paused=paused_of(served, turn.paused),
        usage=asdict(turn.usage),
        choices=choices_of(turn.choices),
    )


def _members(view: type[BaseModel], source: object, **own: Any) -> JsonDict:
    """Return the members of a view: its own ones, and else those that the source has."""
    return {name: own[name] if name in own else getattr(source, name) for name in view.model_fields}


def accepted_of(served: Served, request_id: str, *, answered: bool) -> JsonDict:
    """Return an accepted message."""
    return {"conversation_id": served.id, "request_id": request_id, "answered": answered}


def open_pause_of(served: Served, pause: OpenPause) -> JsonDict:
    """Return what a conversation waits for, for an operators' list."""
    return {**asdict(pause), "conversation_id": served.id}


After = Annotated[int, Field(ge=0, le=2**53)]
Limit = Annotated[int, Field(ge=1, le=1000)]


class PageRequest(BaseModel):
    """A page of a list, oldest first. `after`: `next` of the page before."""

    model_config = ConfigDict(extra="forbid")

    after: After = 0
    limit: Limit = 100

    def of(self, name: str, found: Sequence[Any], shown: Callable[[Any], Any]) -> JsonDict:
        """Return the page under its name, with the place of the next one; None at the end."""
        end = self.after + self.limit
        page = [shown(one) for one in found[self.after : end]]
        return {name: page, "next": end if end < len(found) else None}


def message_of(message: Message) -> JsonDict:
    """Return a message of a history."""
    return _members(MessageView, message)


def started_of(begun: Begun) -> JsonDict:
    """Return a new or forked conversation."""
    return {**conversation_of(begun.served), "greeting": begun.greeting}


def conversation_of(served: Served) -> JsonDict:
    """Return a conversation in its last known state."""
    chat = served.chat
    return _members(
        ConversationView,
        chat,
        id=served.id,
        definition=served.definition,
        context=context_of(served.machine, chat.context),
        paused=paused_of(served, chat.paused),
        choices=choices_of(chat.choices),
    )


_FOR_ALL = (ev.UserSaid, ev.BotSaid, ev.StateEntered, ev.ContextSet, ev.Agreed, ev.Ended)
"""Events whose content a reader knows without the right `inspect`."""


def recorded_of(served: Served, turn: Turn) -> JsonDict:
    """Return a turn on record, with its events as far as its reader may see them."""
    inspects = served.may("inspect")
    shown = [event for event in turn.events if inspects or isinstance(event, _FOR_ALL)]
    events = [event_of(served, event) for event in shown]
    return {**turn_of(served, turn), "events": events}


def event_of(served: Served, event: ev.Event) -> JsonDict:
    """Return an event, without what only the engine needs."""
    document = shown_event(event, served.machine.program.is_secret)
    for name in _FOR_ENGINE.get(type(event), ()):
        document.pop(name, None)
    _hide_inside(event, document)
    if isinstance(event, ev.Started):
        document["conversation_id"] = served.id
    if isinstance(event, ev.Paused):
        pause = pause_of(event)
        if not served.may_answer(pause):
            document |= _of_colleagues(pause)
    return document


def _hide_inside(event: object, document: JsonDict) -> None:
    """Take the words of exceptions out of an event's document; the log has them."""
    for name in _INSIDE.get(type(event), ()):
        if document.get(name):
            document[name] = _NOT_TOLD
    if isinstance(event, ev.KeyResultChecked) and event.reason:
        document["reason"] = reason_of(event.reason)
    if isinstance(event, ev.AttemptFailed):
        document["failures"] = failures_of(event)


def explained(account: Explanation) -> JsonDict:
    """Return an explanation as JSON. Each note has its `type`."""
    document: JsonDict = plain(account)
    for note, shown in zip(account.notes, document["notes"], strict=True):
        _hide_inside(note, shown)
    return document


def listed_of(held_id: str, line: Listed) -> JsonDict:
    """Return a line of the listing."""
    return _members(ListedView, line, id=held_id, metadata=dict(line.metadata))


_FOR_ENGINE: Mapping[type[ev.Event], tuple[str, ...]] = {
    ev.ModelReplied: ("text", "calls"),
    ev.Paused: ("loop",),
    ev.TurnUndone: ("before",),
}
"""Fields that hold a model's raw reply, or a whole session: calls that nobody has agreed to, and
what users may not see."""
_INSIDE: Mapping[type, tuple[str, ...]] = {
    ev.FunctionFailed: ("error", "file"),
    ev.HandlerFailed: ("error",),
    ev.TurnFailed: ("message",),
    ev.ToolReturned: ("error",),
    ev.RoutePicked: ("error",),
}
"""Fields with words of exceptions, which may name files, addresses and what a provider said."""
_NOT_TOLD = "it failed; the operator finds the reason in the record"
_RAISED = re.compile(
    r"\b([A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout|Fault|Warning)): .*", re.DOTALL
)
"""The class and the words of an exception, as `errors.told` writes them."""


def reason_of(reason: str) -> str:
    """Return the reason of a check without the words of an exception, if one was raised."""
    return _RAISED.sub(r"\1", reason)


def failures_of(event: ev.AttemptFailed) -> list[dict[str, str]]:
    """Return the failures of an attempt, without the words of exceptions."""
    return [{name: reason_of(text) for name, text in failure.items()} for failure in event.failures]


def _quotes_of(machine: AsyncMachine, event: ev.ContextSet) -> JsonDict:
    """Return the places of the user's words for values, without those of secret keys."""
    is_secret = machine.program.is_secret
    places = {key: list(place) for key, place in event.quotes.items() if not is_secret(key)}
    return {"quotes": places} if places else {}


EventTable = Mapping[type[ev.Event], tuple[str, TextMap]]
"""The names of events in a stream, and the members of their data, each with the event's field."""
_TOLD: EventTable = {
    ev.PromptRead: ("reading", {"read": "read", "total": "total"}),
    ev.StateEntered: ("state", {"state": "state", "previous_state": "previous", "by": "by"}),
    ev.FlowPushed: ("state", {"state": "entered", "previous_state": "state", "by": "kind"}),
    ev.FlowReturned: ("state", {"state": "state", "previous_state": "ended", "by": "kind"}),
    ev.ToolRefused: ("tool", {"name": "name", "refused": "reason"}),
    ev.Progressed: ("progress", {"state": "state", "report": "report"}),
    ev.AttemptBegun: ("attempt", {"state": "state", "attempt": "attempt"}),
    ev.Ended: ("ended", {"outcome": "outcome"}),
}


def told_by(table: EventTable, event: ev.Event) -> tuple[str, JsonDict] | None:
    """Return name and data of an event by a table; None if it is not there."""
    row = table.get(type(event))
    if row is None:
        return None
    return row[0], {member: getattr(event, field) for member, field in row[1].items()}


def told(served: Served, event: ev.Event) -> tuple[str, JsonDict] | None:
    """Return name and data of an event for a stream; None if clients do not need it."""
    match event:
        case ev.Paused():
            return "paused", _pause_told(served, event)
        case ev.MessageDelta(text=text, restart=restart):
            return "delta", {"text": text, "restart": True} if restart else {"text": text}
        case ev.ContextSet():
            values = context_of(served.machine, event.values)
            quotes = _quotes_of(served.machine, event)
            return "context", {"values": values, "removed": list(event.removed), **quotes}
        case ev.ToolReturned(name=name, error=error):
            return "tool", {"name": name, "failed": error is not None, "seconds": event.seconds}
        case ev.AttemptFailed(state=state, attempt=attempt):
            failures = failures_of(event)
            return "attempt", {"state": state, "attempt": attempt, "failures": failures}
        case ev.KeyResultChecked(name=name, passed=passed):
            reason = reason_of(event.reason)
            return "check", {"name": name, "passed": passed, "reason": reason}
    return told_by(_TOLD, event)


def _pause_told(served: Served, event: ev.Paused) -> JsonDict:
    """Return a pause for a stream, as `paused_of` shows it."""
    document = paused_of(served, pause_of(event)) or {}
    return {
        name: document[name] for name in ("id", "kind", "what", "schema", "may_answer", "messages")
    }
