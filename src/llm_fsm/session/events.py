"""The events of a conversation: frozen facts in the past tense.

A turn is a list of events. `llm_fsm.session.reducer.apply` folds them into the session, and nothing
else changes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Union

from msgspec import Struct

from llm_fsm._json import JsonMap, TextMap


class Event(Struct, frozen=True, kw_only=True, tag=True, tag_field="type", omit_defaults=True):
    """Base of all events."""


Events = Iterable[Event]
"""Events in the order in which they happened."""


class Started(Event, frozen=True, kw_only=True):
    """A conversation began, with the caller's context. `definition` is the SHA-256 of the
    definition.

    `history` holds what was said elsewhere before, as (role, text): user or assistant. `kept_chars`
    is as in BotSaid. `timezone` is that of the conversation, as an IANA name; "" is UTC.
    `metadata` are labels for listings. `held`: a run, whose first step comes with a turn of its
    own. `generation` counts how often the conversation began: it may begin again after an end.
    `origin` and `acts`: of a fork, the name in its keys of acts, and the results on record.
    """

    conversation_id: str
    definition: str
    state: str
    time: float
    generation: int = 1
    context: JsonMap = {}
    input: Any = None
    memory: JsonMap = {}
    shared: JsonMap = {}
    history: tuple[tuple[str, str], ...] = ()
    kept_chars: int = 1000
    timezone: str = ""
    metadata: TextMap = {}
    held: bool = False
    origin: str = ""
    acts: JsonMap = {}


class ReleaseChosen(Event, frozen=True, kw_only=True):
    """The release `release` chose the definition of a new conversation.

    `arm` is stable or candidate, `sha` the SHA-256 of the definition, and `salt` that of the
    release.
    """

    release: str
    arm: str
    sha: str
    salt: str = ""


class ReleaseStopped(Event, frozen=True, kw_only=True):
    """A guard of the release `release` is broken, as `reason` says. No new conversation begins on
    its candidate. Sinks and observers receive this event; no turn record has it.
    """

    release: str
    reason: str


class RunResumed(Event, frozen=True, kw_only=True):
    """A run without a user began or resumed at `time` (seconds since the epoch).

    `input` is what the current state is given; None keeps the output of the state before.
    """

    time: float
    input: Any = None


class UserSaid(Event, frozen=True, kw_only=True):
    """A message arrived at `time` (seconds since the epoch). `picked`: it is the label of a choice
    that was shown.

    `merged`: request id and text of each message that the turn answers, if there were several.
    `early`: it was accepted before the last words were saved.
    """

    text: str
    time: float
    request_id: str | None = None
    picked: bool = False
    merged: tuple[tuple[str | None, str], ...] = ()
    early: bool = False


class Updated(Event, frozen=True, kw_only=True):
    """The program acted between messages, at `time` (seconds since the epoch): it said something or
    changed something.

    `values` are what it gave for keys, None to delete one; `state` is where it moved the
    conversation to.
    """

    time: float
    request_id: str | None = None
    values: JsonMap = {}
    state: str | None = None


class ModelReplied(Event, frozen=True, kw_only=True):
    """A model answered.

    `asked_for` is turn, greeting, words, task, judge or summary. `prompt` maps each part of the
    prompt to its estimated tokens. `calls` holds the tool calls that the model asked for, each
    {"id", "name", "arguments"} as sent. `finish_reason` says why the reply was cut short, in the
    provider's words: length or content_filter. `cached_tokens` is the part of `input_tokens` that
    the provider's cache served. `left_out` names the parts of the prompt that were shortened to fit
    into the model's context: history, results, keys.
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
    calls: tuple[TextMap, ...] = ()
    finish_reason: str = ""
    left_out: tuple[str, ...] = ()


class Recognised(Event, frozen=True, kw_only=True):
    """The message gave the value of `key` for certain, so no model was asked.

    A ContextSet with the source user follows. `key` is "" where the user chose a state.
    """

    key: str


class ReplyRejected(Event, frozen=True, kw_only=True):
    """A model's text was not a valid reply. `fault` is a short name, `reason` a sentence."""

    fault: str
    reason: str


class MovePicked(Event, frozen=True, kw_only=True):
    """The model named a target. Its own state means that it stays. `reasoning` is empty if it gave
    none."""

    target: str
    reasoning: str = ""


class ContextSet(Event, frozen=True, kw_only=True):
    """Values were accepted, and keys were removed.

    `source` is model, host, tool, answer, definition (`set` and `clear`), or user if no model was
    asked; x-from if keys were removed because one that they are made of changed. `by` says who made
    keys with `x-from`: the name of a handler, or the place of a `set`. `quotes` has the place of
    the user's words for keys with `x-said`: number of the message, start and end. `at` is the point
    of the handler that wrote them; "" if none did.
    """

    source: str
    values: JsonMap = {}
    removed: tuple[str, ...] = ()
    by: str = ""
    at: str = ""
    quotes: Mapping[str, tuple[int, int, int]] = {}


class ContextRefused(Event, frozen=True, kw_only=True):
    """A value was not stored under its key. `kept_in` names the place where it was stored instead.

    If `told`, the model is told in a second call. `begun` holds the accepted parts of an incomplete
    object.
    """

    key: str
    reason: str
    source: str
    kept_in: str | None = None
    told: bool = False
    begun: JsonMap | None = None


class MoveRefused(Event, frozen=True, kw_only=True):
    """A move was refused. `by` is unknown, closed, veto, or agrees if the user has not agreed to
    the values as they are. `sentence` is then the sentence of a good yes that is broken."""

    target: str
    reason: str
    by: str
    sentence: str = ""


class ConditionFailed(Event, frozen=True, kw_only=True):
    """A condition could not be evaluated, so it counts as false."""

    transition: str
    reason: str


class ReplyFailed(Event, frozen=True, kw_only=True):
    """The fixed reply of a state could not be rendered, so the user read an apology instead.

    Its question was not asked. Until the state has spoken, no move that only an answer opens leads
    on from it.
    """

    state: str
    reason: str


class StateEntered(Event, frozen=True, kw_only=True):
    """The machine moved. `transition` is the JSON pointer of the transition in the definition, if
    one was taken.

    `by` is model, auto, decide, host, task, answer, timeout, exhausted, flow, user (an answer that
    needed no model), known (all that is asked for there is known), or the name of a repair pattern.
    `on_path` is true if the session's path keeps the step for later corrections.
    """

    state: str
    previous: str
    by: str
    transition: str = ""
    on_path: bool = False


class ValuesReadBack(Event, frozen=True, kw_only=True):
    """The state `state` read back the values of `keys`, which the user may now agree to."""

    state: str
    keys: tuple[str, ...]


class Agreed(Event, frozen=True, kw_only=True):
    """The user agreed to the values of `keys`, as they had been read back. `turn` is the number of
    that turn.

    A key without a value is missing from `values`. `by` is user, or host if the program said yes.
    `words` are the user's words of the yes.
    """

    keys: tuple[str, ...]
    values: JsonMap = {}
    turn: int = 0
    by: str = "user"
    words: str = ""


class Acted(Event, frozen=True, kw_only=True):
    """An act behind a yes was done. `act` names its tool or task, and `key` is its idempotency key.

    `result` is on record: it answers the same act in a retry, after an undo and in a fork.
    """

    act: str
    key: str
    result: Any = None


class HandlerFailed(Event, frozen=True, kw_only=True):
    """A handler raised or timed out, and the turn went on without it."""

    handler: str
    point: str
    error: str


class FunctionFailed(Event, frozen=True, kw_only=True):
    """A function of the host raised, or did not end in time.

    `kind` is function (a task's), check, route, tool or handler, and `name` its name. `file` and
    `line` are the place in the host's code where the error arose; "" and 0 if it is unknown.
    `error` is the class and the message of the error.
    """

    kind: str
    name: str
    error: str
    file: str = ""
    line: int = 0


class TurnFailed(Event, frozen=True, kw_only=True):
    """The turn could not be finished. An ERROR handler gave the words that were shown."""

    error: str
    message: str


class LimitReached(Event, frozen=True, kw_only=True):
    """A limit of the definition stopped the turn.

    `per` is conversation, user or day, and `spent` what was used before the turn; a limit of the
    run has neither.
    """

    limit: str
    value: float
    per: str = ""
    spent: float = 0


class BotSaid(Event, frozen=True, kw_only=True):
    """The words of the turn.

    `kept_chars` limits each message in the prompt's history. `fallback` is true if the words are
    the definition's or this package's, because no model gave usable ones. `kept_user` and
    `kept_text` replace the user's message and these words in the history if a secret is in them.
    `asked` names the keys with `x-said` that the state collects. `question` is the part of the
    words that asks, if it is known; a fixed reply asks by itself. `by` names the person who said
    them; "" is the machine. `handled`: a handler wrote the words.
    """

    text: str
    kept_chars: int = 1000
    fallback: bool = False
    handled: bool = False
    kept_user: str | None = None
    kept_text: str | None = None
    asked: tuple[str, ...] = ()
    question: str = ""
    by: str = ""


class WordsHeard(Event, frozen=True, kw_only=True):
    """The user heard only `text` of the words of record number `record`, because something
    interrupted it.

    The history shows `kept` in the place of `said`. If not `interrupted`, all was heard. `values` is
    false if the voice was cut before a value that was read back.
    """

    record: int
    text: str
    said: str
    kept: str
    interrupted: bool = False
    values: bool = True


class HistoryTrimmed(Event, frozen=True, kw_only=True):
    """The oldest exchanges left the history that prompts show. Turn records still hold them."""

    dropped: int


class Ended(Event, frozen=True, kw_only=True):
    """The conversation is over.

    `outcome` is final, stuck, host, passed, exhausted, limited or expired, or the word of the final
    state. A repair pattern gives cancelled, handover, given_up or silent.
    """

    outcome: str


class TurnUndone(Event, frozen=True, kw_only=True):
    """The turn of record number `record` was undone. `session` is the session before it, in its
    JSON form."""

    record: int
    session: JsonMap


class Migrated(Event, frozen=True, kw_only=True):
    """The conversation continues under another definition, whose SHA-256 is `definition`.

    `states` maps old state ids to new ones. `keys` maps old context keys to new ones; None drops
    the key. `removed` names keys whose values the new definition refuses. `unwatched` is true if
    silence has no consequence any more.
    """

    definition: str
    states: TextMap = {}
    keys: Mapping[str, str | None] = {}
    removed: tuple[str, ...] = ()
    unwatched: bool = False


class ToolRefused(Event, frozen=True, kw_only=True):
    """A tool call did not run: the name, the scope or the arguments were wrong, a person refused
    it, or the user agreed to something else. `name` may be the function of a task that acts.
    `sentence` is the sentence of a good yes that is broken: unchanged, spent or bound."""

    name: str
    reason: str
    arguments: str = ""
    sentence: str = ""


class ToolReturned(Event, frozen=True, kw_only=True):
    """A tool call ran. `key` is its idempotency key.

    A long `result` is shortened. `seconds` is the time that the call took.
    """

    name: str
    arguments: JsonMap
    result: Any = None
    error: str | None = None
    seconds: float = 0.0
    key: str = ""


class MemorySet(Event, frozen=True, kw_only=True):
    """The working memory changed. `values` holds new parts of its JSON form, `removed` names
    dropped parts."""

    values: JsonMap = {}
    removed: tuple[str, ...] = ()


class SecretsGiven(Event, frozen=True, kw_only=True):
    """A turn was given `texts` for secret keys that do not hold them now: refused, replaced or
    removed.

    Nothing shows them later. They are in the event itself, so whoever passes events on blots them
    out.
    """

    texts: tuple[str, ...]


class SharedSet(Event, frozen=True, kw_only=True):
    """Values changed that states share beside the context."""

    values: JsonMap = {}
    removed: tuple[str, ...] = ()


class Progressed(Event, frozen=True, kw_only=True):
    """A state's function reported its progress."""

    state: str
    report: Any


class AttemptBegun(Event, frozen=True, kw_only=True):
    """A task is tried. If the attempt fails, context, memory and shared values return to what they
    are now."""

    state: str
    attempt: int


class KeyResultChecked(Event, frozen=True, kw_only=True):
    """An acceptance criterion was checked. `by` is logic, registered or judge."""

    name: str
    passed: bool
    by: str
    reason: str = ""


class AttemptFailed(Event, frozen=True, kw_only=True):
    """An attempt failed, and its changes were undone. Each failure is {"name", "reason"}. `last`:
    no more attempts."""

    state: str
    attempt: int
    failures: tuple[TextMap, ...] = ()
    last: bool = False


class TaskPassed(Event, frozen=True, kw_only=True):
    """All key results of a task passed. Its output is the next state's input."""

    state: str
    output: Any


class RoutePicked(Event, frozen=True, kw_only=True):
    """A registered function picked the way on. `label` None ends the run; `error` says why it
    picked nothing."""

    state: str
    function: str
    label: str | None = None
    error: str | None = None


class TaskExhausted(Event, frozen=True, kw_only=True):
    """No attempt passed. `then` is raise, continue or a state id. `output` is that of the last
    attempt."""

    state: str
    then: str
    output: Any = None


class Summarised(Event, frozen=True, kw_only=True):
    """The work so far was summarised, and the to-do list replaced (None: it stays). `of`: a state
    id, or history."""

    of: str
    summary: str
    todo_list: tuple[str, ...] | None = None


class Paused(Event, frozen=True, kw_only=True):
    """The run waits for an answer; see `llm_fsm.session.messages.Paused`.

    `reminders` are times in seconds since the epoch. `loop` holds the calls and messages of a
    paused tool loop. `spent` is what the run has used of its limits so far.
    """

    id: str
    kind: str
    what: str
    state: str
    call: JsonMap | None = None
    schema: JsonMap = {}
    expires: float | None = None
    reminders: tuple[float, ...] = ()
    loop: JsonMap | None = None
    spent: Mapping[str, int | float] = {}
    messages: Literal["refuse", "record"] = "refuse"


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
    """A reminder of the pause `id` was due. `due` is its exact time."""

    id: str
    due: float
    time: float


class MessageDelta(Event, frozen=True, kw_only=True):
    """Words on their way to the user, while streaming. Never part of a turn record.

    `provisional` is true until the turn is saved. `restart` withdraws all words so far; these
    replace them.
    """

    text: str
    provisional: bool = True
    restart: bool = False


class PromptRead(Event, frozen=True, kw_only=True):
    """A local server has read `read` of the `total` tokens of a prompt. Never part of a turn
    record.
    """

    read: int
    total: int


class FlowPushed(Event, frozen=True, kw_only=True):
    """The current state was put on the stack, to return to. `kind` is subflow or digression.

    A subflow begins the definition `flow` in its state `entered`, with its own `context`. `sources`
    maps each key to the source of its value. A digression stays in its definition and begins in
    `entered`. `asked` is the last question to the user, and `wanted` names the keys it asked for.
    `caller` is the place on the stack of the definition in which the digression takes place, if
    that is one that waits for the current one. `history`: prompts go on with the exchanges so far;
    records of earlier versions begin each definition without them.
    """

    kind: str
    state: str
    flow: str = ""
    entered: str = ""
    context: JsonMap = {}
    sources: TextMap = {}
    asked: str = ""
    wanted: tuple[str, ...] = ()
    caller: int | None = None
    history: bool = False


class FlowReturned(Event, frozen=True, kw_only=True):
    """The conversation returned to `state` on the stack, from the state `ended`.

    `kind` is as in FlowPushed. `flow` is the definition that was left. `how` is one of:

    - final: the flow reached its end;
    - cancelled: the user cancelled it;
    - corrected: an earlier answer changed, and leads another way;
    - handover: a caller hands over to a person;
    - resumed: the user chose what to return to. Places that the current definition left open stay
    open;
    - host: the program moved the conversation.

    `frame` is the place on the stack; -1 is the topmost. `history` is as in FlowPushed.
    """

    kind: str
    state: str
    ended: str
    flow: str = ""
    how: str = "final"
    frame: int = -1
    history: bool = False


class Corrected(Event, frozen=True, kw_only=True):
    """Earlier answers changed. `named` is true if the model named the correction itself.

    The path is decided again from `back_to`; "" keeps the path. `dropped` names keys collected on
    the part of the path that is no longer taken. `cut` holds the (state, transition) pairs of the
    path since `back_to`.
    """

    keys: tuple[str, ...]
    named: bool = False
    back_to: str = ""
    dropped: tuple[str, ...] = ()
    cut: tuple[tuple[str, str], ...] = ()


class AnswersChanged(Event, frozen=True, kw_only=True):
    """Answers changed in a definition that waits for the current one. `frame` is its place on the
    stack.

    `removed`: keys that are made of them, or that the program deleted.
    """

    frame: int
    values: JsonMap = {}
    removed: tuple[str, ...] = ()
    source: str = "model"


class Repaired(Event, frozen=True, kw_only=True):
    """A repair pattern was applied. `how` says which variant, if it has several.

    Where `how` is "asked", the user is asked before `keys` are lost, or without keys the whole.
    """

    pattern: str
    how: str = ""
    keys: tuple[str, ...] = ()


class KeysSkipped(Event, frozen=True, kw_only=True):
    """The user will not answer these keys. They are not asked for again, but accepted if given."""

    keys: tuple[str, ...]


class Missed(Event, frozen=True, kw_only=True):
    """The user was not understood, for the `count`-th time in a row."""

    count: int


class Restarted(Event, frozen=True, kw_only=True):
    """The conversation begins again in `state`. `context` holds the values that the caller and the
    host gave."""

    state: str
    context: JsonMap = {}


class SilenceWatched(Event, frozen=True, kw_only=True):
    """Reminders and closing are scheduled for a silent user, in seconds since the epoch.

    While a person has taken over, `closes` is when the silence of both sides hands back.
    """

    reminders: tuple[float, ...] = ()
    closes: float | None = None


EVENTS: Mapping[str, type[Event]] = {kind.__name__: kind for kind in Event.__subclasses__()}
"""Every event by its name."""

if TYPE_CHECKING:
    AnyEvent = Event
else:
    AnyEvent = Union[tuple(EVENTS.values())]  # noqa: UP007 - `|` takes no list of types
"""The type of an event that is read from JSON: the `type` in it says which one it is."""
