"""What happened in a conversation: frozen facts in the past tense.

A turn is a list of events; `llm_fsm.session.reducer.apply` folds them into the session, so everything that a
session holds came in through one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Union

from msgspec import Struct


class Event(Struct, frozen=True, kw_only=True, tag=True, tag_field="type", omit_defaults=True):
    """Base of all events."""


class Started(Event, frozen=True, kw_only=True):
    """A conversation began, with the caller's context. `definition` is the definition's SHA-256."""

    conversation_id: str
    definition: str
    state: str
    time: float
    context: Mapping[str, Any] = {}
    input: Any = None
    memory: Mapping[str, Any] = {}


class RunResumed(Event, frozen=True, kw_only=True):
    """A run without a user began, or went on, at `time` (seconds since the epoch)."""

    time: float


class UserSaid(Event, frozen=True, kw_only=True):
    """A message came in at `time` (seconds since the epoch)."""

    text: str
    time: float
    request_id: str | None = None


class ModelReplied(Event, frozen=True, kw_only=True):
    """A model answered. `asked_for`: turn, greeting, words, task, judge or summary.

    `prompt`: part of the prompt to its estimated tokens (see `llm_fsm.turn.prompt.render.call_sizes`).
    `calls`: the tools that it wants called, each {"id", "name", "arguments"} as sent.
    `finish_reason`: why the reply ends before its end, as providers say it: length (of its limit of tokens) or
    content_filter. `cached_tokens`: those of the `input_tokens` that came from the provider's cache.
    """

    asked_for: str
    text: str
    model: str = ""
    mode: str = ""
    attempts: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    cost: float = 0.0
    cached_tokens: int = 0
    prompt: Mapping[str, int] = {}
    calls: tuple[Mapping[str, str], ...] = ()
    finish_reason: str = ""


class Recognised(Event, frozen=True, kw_only=True):
    """The message is the value of `key` for certain: no model was asked. The value follows with the source user."""

    key: str


class ReplyRejected(Event, frozen=True, kw_only=True):
    """A model's text was not a reply; `fault` is a short name, `reason` a sentence."""

    fault: str
    reason: str


class MovePicked(Event, frozen=True, kw_only=True):
    """The model named a target (its own state: it stays), with its reasoning where it gave one."""

    target: str
    reasoning: str = ""


class ContextSet(Event, frozen=True, kw_only=True):
    """Values were accepted and keys removed. `source`: model, host, tool, answer, or user where no model was asked."""

    source: str
    values: Mapping[str, Any] = {}
    removed: tuple[str, ...] = ()


class ContextRefused(Event, frozen=True, kw_only=True):
    """A value was not stored under its key, and why. `kept_in` names where it went instead, if anywhere.

    `told`: the next prompt tells the model. `begun`: the parts of an object that wait for those that it lacks.
    """

    key: str
    reason: str
    source: str
    kept_in: str | None = None
    told: bool = False
    begun: Mapping[str, Any] | None = None


class MoveRefused(Event, frozen=True, kw_only=True):
    """A move did not stand. `by`: unknown, closed or veto."""

    target: str
    reason: str
    by: str


class ConditionFailed(Event, frozen=True, kw_only=True):
    """A condition could not be evaluated and so did not hold."""

    transition: str
    reason: str


class StateEntered(Event, frozen=True, kw_only=True):
    """The machine moved; `transition` is its place in the definition, if one was taken.

    `by`: model, auto, decide, host, task, answer, timeout, exhausted, flow, user (an answer that
    needed no model), or the repair pattern that moved.
    `on_path`: kept, as a correction may have to go back on it.
    """

    state: str
    previous: str
    by: str
    transition: str = ""
    on_path: bool = False


class HandlerFailed(Event, frozen=True, kw_only=True):
    """A handler raised or ran out of time, and the turn went on without it."""

    handler: str
    point: str
    error: str


class TurnFailed(Event, frozen=True, kw_only=True):
    """The turn could not be finished; an ERROR handler gave the words that were shown."""

    error: str
    message: str


class LimitReached(Event, frozen=True, kw_only=True):
    """A limit of the definition stopped the turn."""

    limit: str
    value: float


class BotSaid(Event, frozen=True, kw_only=True):
    """The words of the turn. `kept_chars`: how much of each message the prompt's history keeps.

    `fallback`: they are the definition's or ours, as no reply of a model gave any that could be said.
    `kept_user`, `kept_text`: what it keeps of the user's message and of these words, where a secret stands in them.
    """

    text: str
    kept_chars: int = 1000
    fallback: bool = False
    kept_user: str | None = None
    kept_text: str | None = None


class HistoryTrimmed(Event, frozen=True, kw_only=True):
    """The oldest exchanges left the prompt's window; turn records still hold them."""

    dropped: int


class Ended(Event, frozen=True, kw_only=True):
    """The conversation is over. `outcome`: final, stuck, host, passed, exhausted, limited, expired, or of a pattern:
    cancelled, handover, given_up, silent."""

    outcome: str


class TurnUndone(Event, frozen=True, kw_only=True):
    """The turn of record `record` was taken back; `session` is the session document before it."""

    record: int
    session: Mapping[str, Any]


class Migrated(Event, frozen=True, kw_only=True):
    """The conversation goes on under another definition, of the SHA-256 `definition`.

    `states`: old state id to new one; `keys`: old context key to new one, None: dropped; `removed`: keys whose
    values the new definition refuses; `unwatched`: nothing happens any more if the user says nothing.
    """

    definition: str
    states: Mapping[str, str] = {}
    keys: Mapping[str, str | None] = {}
    removed: tuple[str, ...] = ()
    unwatched: bool = False


class ToolRefused(Event, frozen=True, kw_only=True):
    """A call did not run: unknown or out-of-scope name, arguments that do not fit, or a person's no."""

    name: str
    reason: str
    arguments: str = ""


class ToolReturned(Event, frozen=True, kw_only=True):
    """A call ran. `result` is shortened where it is long; `seconds`: how long it took; `key`: idempotency key."""

    name: str
    arguments: Mapping[str, Any]
    result: Any = None
    error: str | None = None
    seconds: float = 0.0
    key: str = ""


class MemorySet(Event, frozen=True, kw_only=True):
    """The working memory changed: the parts of its document that are new, and those that are gone."""

    values: Mapping[str, Any] = {}
    removed: tuple[str, ...] = ()


class SharedSet(Event, frozen=True, kw_only=True):
    """Values that states share beside the context changed."""

    values: Mapping[str, Any] = {}
    removed: tuple[str, ...] = ()


class Progressed(Event, frozen=True, kw_only=True):
    """What a state's function reported of its progress."""

    state: str
    report: Any


class AttemptBegun(Event, frozen=True, kw_only=True):
    """A task is tried; what context, memory and shared values are now is what a failure goes back to."""

    state: str
    attempt: int


class KeyResultChecked(Event, frozen=True, kw_only=True):
    """An acceptance criterion was checked. `by`: logic, registered or judge."""

    name: str
    passed: bool
    by: str
    reason: str = ""


class AttemptFailed(Event, frozen=True, kw_only=True):
    """An attempt failed and its changes were taken back. `failures`: {"name", "reason"} each; `last`: no more."""

    state: str
    attempt: int
    failures: tuple[Mapping[str, str], ...] = ()
    last: bool = False


class TaskPassed(Event, frozen=True, kw_only=True):
    """All key results of a task passed; its output is the next state's input."""

    state: str
    output: Any


class TaskExhausted(Event, frozen=True, kw_only=True):
    """No attempt passed. `then`: raise, continue or a state id; `output`: what the last attempt gave."""

    state: str
    then: str
    output: Any = None


class Summarised(Event, frozen=True, kw_only=True):
    """A summary of what happened so far, and the new to-do list (None: as before). `of`: a state id or history."""

    of: str
    summary: str
    todo_list: tuple[str, ...] | None = None


class Paused(Event, frozen=True, kw_only=True):
    """The run waits for an answer; see `llm_fsm.session.messages.Paused`.

    `reminders`: when to remind, in seconds since the epoch. `loop`: the calls and messages under way.
    `spent`: what the run has used of its limits so far.
    """

    id: str
    kind: str
    what: str
    state: str
    call: Mapping[str, Any] | None = None
    schema: Mapping[str, Any] = {}
    expires: float | None = None
    reminders: tuple[float, ...] = ()
    loop: Mapping[str, Any] | None = None
    spent: Mapping[str, int | float] = {}


class Answered(Event, frozen=True, kw_only=True):
    """Somebody answered the pause `id` at `time` (seconds since the epoch)."""

    id: str
    value: Any
    time: float
    request_id: str | None = None


class TimedOut(Event, frozen=True, kw_only=True):
    """Nobody answered the pause `id` in time."""

    id: str
    time: float


class Reminded(Event, frozen=True, kw_only=True):
    """It was time to remind of the pause `id`; `due`: when exactly."""

    id: str
    due: float
    time: float


class MessageDelta(Event, frozen=True, kw_only=True):
    """Words on their way to the user, while streaming. Never part of a turn record.

    `provisional`: the turn is not saved yet. `restart`: the words so far are withdrawn, and these stand instead.
    """

    text: str
    provisional: bool = True
    restart: bool = False


class FlowPushed(Event, frozen=True, kw_only=True):
    """The state was put on the stack, to come back to. `kind`: subflow or digression.

    A subflow begins the definition `flow` in its state `entered`, with a `context` of its own; `sources`: key to
    who once wrote its value. A digression stays in its definition and begins in `entered`; `asked`: what the user was
    asked last, `wanted`: for which keys. `caller`: the place on the stack of the definition in which it takes place,
    where that is one that waits for the one that was left.
    """

    kind: str
    state: str
    flow: str = ""
    entered: str = ""
    context: Mapping[str, Any] = {}
    sources: Mapping[str, str] = {}
    asked: str = ""
    wanted: tuple[str, ...] = ()
    caller: int | None = None


class FlowReturned(Event, frozen=True, kw_only=True):
    """The conversation came back to `state` on the stack, from the state `ended`.

    `kind` as of `FlowPushed`. `flow`: the definition that was left. `how`: final, cancelled, corrected, when an answer
    from before it leads another way, handover, when a caller hands over, or resumed, when the user chose what to
    come back to; what the definition at work left open then stays so, beneath the flow that is come back to.
    `frame`: the place on the stack, -1 the topmost.
    """

    kind: str
    state: str
    ended: str
    flow: str = ""
    how: str = "final"
    frame: int = -1


class Corrected(Event, frozen=True, kw_only=True):
    """Answers were changed that had been given before. `named`: the model said so itself.

    `back_to`: the state from which the way is decided again, "" where it stays; `dropped`: the keys that were
    collected on the way that is no longer taken.
    """

    keys: tuple[str, ...]
    named: bool = False
    back_to: str = ""
    dropped: tuple[str, ...] = ()


class AnswersChanged(Event, frozen=True, kw_only=True):
    """Answers were changed that a definition holds which waits for the one at work. `frame`: its place on the stack."""

    frame: int
    values: Mapping[str, Any]


class Repaired(Event, frozen=True, kw_only=True):
    """A repair pattern did what it is there for. `how`: what exactly, where there are several possibilities."""

    pattern: str
    how: str = ""


class KeysSkipped(Event, frozen=True, kw_only=True):
    """The user will not answer these; they are not asked for any more, unless they come by themselves."""

    keys: tuple[str, ...]


class Missed(Event, frozen=True, kw_only=True):
    """The user was not understood. `count`: how many times in a row."""

    count: int


class Restarted(Event, frozen=True, kw_only=True):
    """Everything begins again in `state`, with `context`: what the caller and the host gave, and what came with it."""

    state: str
    context: Mapping[str, Any] = {}


class SilenceWatched(Event, frozen=True, kw_only=True):
    """If nobody says anything until then (seconds since the epoch): when to remind, and when to close."""

    reminders: tuple[float, ...] = ()
    closes: float | None = None


EVENTS: Mapping[str, type[Event]] = {kind.__name__: kind for kind in Event.__subclasses__()}
"""Every event by its name."""

if TYPE_CHECKING:
    AnyEvent = Event
else:
    AnyEvent = Union[tuple(EVENTS.values())]  # noqa: UP007 - `|` takes no list of types
"""The type of an event that is read from JSON: the `type` in it says which one it is."""
