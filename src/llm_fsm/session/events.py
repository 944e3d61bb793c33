"""What happened in a conversation: frozen facts in the past tense.

A turn is a list of events; `llm_fsm.session.reducer.apply` folds them into the session, so everything that a
session holds came in through one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of all events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(Event):
    """A conversation began, with the caller's context. `definition` is the definition's SHA-256."""

    conversation_id: str
    definition: str
    state: str
    time: float
    context: Mapping[str, Any] = field(default_factory=dict)
    input: Any = None
    memory: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResumed(Event):
    """A run without a user began, or went on, at `time` (seconds since the epoch)."""

    time: float


@dataclass(frozen=True, kw_only=True)  # without slots, so that `copies.made` can make it
class UserSaid(Event):
    """A message came in at `time` (seconds since the epoch)."""

    text: str
    time: float
    request_id: str | None = None


@dataclass(frozen=True, kw_only=True)  # without slots, so that `copies.made` can make it
class ModelReplied(Event):
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
    prompt: Mapping[str, int] = field(default_factory=dict)
    calls: tuple[Mapping[str, str], ...] = ()
    finish_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised(Event):
    """The message is the value of `key` for certain: no model was asked. The value follows with the source user."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyRejected(Event):
    """A model's text was not a reply; `fault` is a short name, `reason` a sentence."""

    fault: str
    reason: str


@dataclass(frozen=True, kw_only=True)  # without slots, so that `copies.made` can make it
class MovePicked(Event):
    """The model named a target (its own state: it stays), with its reasoning where it gave one."""

    target: str
    reasoning: str = ""


@dataclass(frozen=True, kw_only=True)  # without slots, so that `copies.made` can make it
class ContextSet(Event):
    """Values were accepted and keys removed. `source`: model, host, tool, answer, or user where no model was asked."""

    source: str
    values: Mapping[str, Any] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRefused(Event):
    """A value was not stored under its key, and why. `kept_in` names where it went instead, if anywhere.

    `told`: the next prompt tells the model. `begun`: the parts of an object that wait for those that it lacks.
    """

    key: str
    reason: str
    source: str
    kept_in: str | None = None
    told: bool = False
    begun: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRefused(Event):
    """A move did not stand. `by`: unknown, closed or veto."""

    target: str
    reason: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionFailed(Event):
    """A condition could not be evaluated and so did not hold."""

    transition: str
    reason: str


@dataclass(frozen=True, kw_only=True)  # without slots, so that `copies.made` can make it
class StateEntered(Event):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerFailed(Event):
    """A handler raised or ran out of time, and the turn went on without it."""

    handler: str
    point: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFailed(Event):
    """The turn could not be finished; an ERROR handler gave the words that were shown."""

    error: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReached(Event):
    """A limit of the definition stopped the turn."""

    limit: str
    value: float


@dataclass(frozen=True, kw_only=True)  # without slots, so that `copies.made` can make it
class BotSaid(Event):
    """The words of the turn. `kept_chars`: how much of each message the prompt's history keeps.

    `fallback`: they are the definition's or ours, as no reply of a model gave any that could be said.
    `kept_user`, `kept_text`: what it keeps of the user's message and of these words, where a secret stands in them.
    """

    text: str
    kept_chars: int = 1000
    fallback: bool = False
    kept_user: str | None = None
    kept_text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryTrimmed(Event):
    """The oldest exchanges left the prompt's window; turn records still hold them."""

    dropped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Event):
    """The conversation is over. `outcome`: final, stuck, host, passed, exhausted, limited, expired, or of a pattern:
    cancelled, handover, given_up, silent."""

    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnUndone(Event):
    """The turn of record `record` was taken back; `session` is the session document before it."""

    record: int
    session: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated(Event):
    """The conversation goes on under another definition, of the SHA-256 `definition`.

    `states`: old state id to new one; `keys`: old context key to new one, None: dropped; `removed`: keys whose
    values the new definition refuses; `unwatched`: nothing happens any more if the user says nothing.
    """

    definition: str
    states: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str | None] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    unwatched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRefused(Event):
    """A call did not run: unknown or out-of-scope name, arguments that do not fit, or a person's no."""

    name: str
    reason: str
    arguments: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned(Event):
    """A call ran. `result` is shortened where it is long; `seconds`: how long it took; `key`: idempotency key."""

    name: str
    arguments: Mapping[str, Any]
    result: Any = None
    error: str | None = None
    seconds: float = 0.0
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySet(Event):
    """The working memory changed: the parts of its document that are new, and those that are gone."""

    values: Mapping[str, Any] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSet(Event):
    """Values that states share beside the context changed."""

    values: Mapping[str, Any] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed(Event):
    """What a state's function reported of its progress."""

    state: str
    report: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptBegun(Event):
    """A task is tried; what context, memory and shared values are now is what a failure goes back to."""

    state: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyResultChecked(Event):
    """An acceptance criterion was checked. `by`: logic, registered or judge."""

    name: str
    passed: bool
    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed(Event):
    """An attempt failed and its changes were taken back. `failures`: {"name", "reason"} each; `last`: no more."""

    state: str
    attempt: int
    failures: tuple[Mapping[str, str], ...] = ()
    last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPassed(Event):
    """All key results of a task passed; its output is the next state's input."""

    state: str
    output: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskExhausted(Event):
    """No attempt passed. `then`: raise, continue or a state id; `output`: what the last attempt gave."""

    state: str
    then: str
    output: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarised(Event):
    """A summary of what happened so far, and the new to-do list (None: as before). `of`: a state id or history."""

    of: str
    summary: str
    todo_list: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused(Event):
    """The run waits for an answer; see `llm_fsm.session.messages.Paused`.

    `reminders`: when to remind, in seconds since the epoch. `loop`: the calls and messages under way.
    `spent`: what the run has used of its limits so far.
    """

    id: str
    kind: str
    what: str
    state: str
    call: Mapping[str, Any] | None = None
    schema: Mapping[str, Any] = field(default_factory=dict)
    expires: float | None = None
    reminders: tuple[float, ...] = ()
    loop: Mapping[str, Any] | None = None
    spent: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Event):
    """Somebody answered the pause `id` at `time` (seconds since the epoch)."""

    id: str
    value: Any
    time: float
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut(Event):
    """Nobody answered the pause `id` in time."""

    id: str
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminded(Event):
    """It was time to remind of the pause `id`; `due`: when exactly."""

    id: str
    due: float
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDelta(Event):
    """Words on their way to the user, while streaming. Never part of a turn record.

    `provisional`: the turn is not saved yet. `restart`: the words so far are withdrawn, and these stand instead.
    """

    text: str
    provisional: bool = True
    restart: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPushed(Event):
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
    context: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    asked: str = ""
    wanted: tuple[str, ...] = ()
    caller: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowReturned(Event):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected(Event):
    """Answers were changed that had been given before. `named`: the model said so itself.

    `back_to`: the state from which the way is decided again, "" where it stays; `dropped`: the keys that were
    collected on the way that is no longer taken.
    """

    keys: tuple[str, ...]
    named: bool = False
    back_to: str = ""
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersChanged(Event):
    """Answers were changed that a definition holds which waits for the one at work. `frame`: its place on the stack."""

    frame: int
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired(Event):
    """A repair pattern did what it is there for. `how`: what exactly, where there are several possibilities."""

    pattern: str
    how: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysSkipped(Event):
    """The user will not answer these; they are not asked for any more, unless they come by themselves."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed(Event):
    """The user was not understood. `count`: how many times in a row."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted(Event):
    """Everything begins again in `state`, with `context`: what the caller and the host gave, and what came with it."""

    state: str
    context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceWatched(Event):
    """If nobody says anything until then (seconds since the epoch): when to remind, and when to close."""

    reminders: tuple[float, ...] = ()
    closes: float | None = None
