"""One conversation between two turns: a frozen value that changes only by
`llm_fsm.session.reducer.apply`.

A session holds what the next turn needs and no more. The turn records hold the whole history.

The stored JSON form is {"format": 1, …}. Its names never change, because stores hold them. Large
values may stand elsewhere, see `llm_fsm.session.large_values`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import takewhile
from typing import Any, Literal, NamedTuple, TypedDict

from msgspec import Struct, field
from msgspec.structs import replace

from llm_fsm._json import JsonDict, JsonMap, TextMap, plain, read, text_of, value_of, without
from llm_fsm._text import CLAIMED, estimate
from llm_fsm._zones import zone_of
from llm_fsm.conditions.coercion import look_up
from llm_fsm.definition.models import HistorySettings
from llm_fsm.errors import UnreadableError
from llm_fsm.session.messages import Paused
from llm_fsm.session.quotes import UserWords

Exchange = tuple[str | None, str]
"""The user's message (None: nobody spoke) and the answer."""
FRAME = 12
"""Tokens of the JSON around an exchange."""
_LOW = 2 / 3
"""Part of the token budget that a cut leaves. If it left the whole, each turn would cut again."""
_FEW = 2
"""Exchanges that are worth more to the model than a block."""

OF_PLACE = ("state", "previous_state", "turns_in_state", "asides")
"""The fields that a digression within its own definition restores."""
OF_FLOW = (
    *OF_PLACE,
    "flow",
    "context",
    "origins",
    "window",
    "summary",
    "skipped",
    "path",
    "begun",
    "refusals",
    "made",
    "asked",
    "read_back",
)
"""The fields that each definition has of its own. A subflow restores them when it returns."""
FORMAT = 1
_FORMER = frozenset({"notes"})
"""Fields of sessions of earlier versions that no later turn needs."""
_ALWAYS: JsonMap = {
    "format": FORMAT,
    "conversation_id": "",
    "definition": "",
    "state": "",
    "previous_state": None,
    "turn": 0,
    "turns_in_state": 0,
    "context": {},
    "origins": {},
    "window": (),
    "user_input": None,
    "time": 0.0,
    "ended": False,
    "outcome": None,
}
"""Fields that the stored form always has. Others are left out if they equal their defaults."""


class Reference(NamedTuple):
    """The place of a large value: the record's number, a JSON pointer into it, and the SHA-256 of
    the JSON text."""

    record: int
    pointer: str
    sha256: str


class ReadBack(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The values that a state with `confirms` read back to the user when it spoke last.

    `heard` is false if something was said since then, or a voice was cut before them.
    """

    state: str
    values: JsonMap = {}
    heard: bool = True


class Agreement(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A yes of the user.

    Attributes:
        keys: The keys that were read back.
        values: Their values, which the user agreed to. A key without a value is left out.
        turn: The number of the turn of the yes.
        flow: The name of the definition that read them back; "" for the definition that was
            started.
        by: user, or host if the program said yes.
        words: The user's words of the yes.
        id: What the keys of its acts are made of: the conversation and what was read back.
    """

    keys: tuple[str, ...]
    values: JsonMap = {}
    turn: int = 0
    flow: str = ""
    by: str = "user"
    words: str = ""
    id: str = ""


Origins = Mapping[str, tuple[int, str]]
"""The turn in which each key got its value, and who gave it."""


class Saved(TypedDict, total=False):
    """Fields of a session that are kept beside it, to be restored later."""

    state: str
    previous_state: str | None
    turns_in_state: int
    asides: int
    flow: str
    context: JsonMap
    origins: Origins
    window: tuple[Exchange, ...]
    summary: str
    skipped: tuple[str, ...]
    path: tuple[tuple[str, str], ...]
    begun: JsonMap
    refusals: Mapping[str, tuple[int, int]]
    asked: Mapping[str, int]
    made: Mapping[str, tuple[str, str]]
    read_back: ReadBack | None
    memory: JsonMap
    shared: JsonMap


class Work(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task, or a conversation's tool calls, under way in `state`.

    `attempt` counts from 1; it is 0 if no task is tried. A failed attempt restores the fields in
    `checkpoint`. `feedback` says why the previous attempt failed. `loop` holds the messages and
    calls of a paused tool loop.
    """

    state: str
    attempt: int = 0
    checkpoint: Saved = {}
    feedback: tuple[TextMap, ...] = ()
    loop: JsonMap | None = None


class Frame(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A place that the conversation returns to. `saved` holds the session's fields at the time it
    was left.

    `asked` is the last question there, to be asked again. `wanted` names the keys it asked for.
    `main` is true if the conversation left its main path, and false if it left another digression.
    `before` holds the answers known at that time, if `main`. `entered` is the state in which a
    digression began. `caller` is the place on the stack of the definition in which the digression
    takes place; None: the definition that was left.
    """

    kind: Literal["subflow", "digression"]
    saved: Saved = field(name="kept")
    asked: str = ""
    wanted: tuple[str, ...] = ()
    main: bool = False
    before: JsonMap = {}
    entered: str = ""
    caller: int | None = None

    @property
    def in_place(self) -> bool:
        """True for a digression within the definition that it left."""
        return self.kind == "digression" and self.caller is None


def moved_callers(frames: Iterable[Frame], start: int, by: int) -> tuple[Frame, ...]:
    """Move each reference to a caller at place `start` or above by `by` places."""
    return tuple(
        replace(frame, caller=frame.caller + by)
        if frame.caller is not None and frame.caller >= start
        else frame
        for frame in frames
    )


class Silence(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The times to remind of an open question, and to close it (None: never), in seconds since the
    epoch."""

    reminders: tuple[float, ...] = ()
    closes: float | None = None


class Session(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One conversation.

    Fields up to `outcome` belong to every conversation. Fields from `input` to `spent` belong to
    tasks and pauses, `flow` and `stack` to subflows and digressions, and fields from `skipped` on
    to repair patterns.
    """

    conversation_id: str
    definition: str = ""
    """SHA-256 of the definition that it runs on."""
    state: str = ""
    previous_state: str | None = None
    turn: int = 0
    turns_in_state: int = 0
    context: JsonMap = {}
    origins: Origins = {}
    """Context key to the turn that set it and the source of its value."""
    window: tuple[Exchange, ...] = ()
    """The exchanges that prompts show."""
    user_input: str | None = None
    time: float = 0.0
    """Seconds since the epoch, of the last message or answer."""
    outcome: str | None = None
    """The way in which it ended; None while it goes on."""
    input: Any = None
    """Output of the previous state."""
    memory: JsonMap = {}
    """The working memory in its JSON form."""
    shared: JsonMap = {}
    """Values that states share beside the context."""
    summary: str = ""
    work: Work | None = None
    pause: Paused | None = None
    reminders: tuple[float, ...] = ()
    """Times at which to remind of the pause, in seconds since the epoch."""
    settled: tuple[str, str] | None = None
    """Id of the previous pause, and how it ended: answered or expired."""
    spent: Mapping[str, int | float] = {}
    """Limit to the amount of it that the run has used."""
    flow: str = ""
    """Name of the definition at work; "" for the definition that was started."""
    stack: tuple[Frame, ...] = ()
    """Places to return to, the outermost first."""
    skipped: tuple[str, ...] = ()
    """Keys that the user will not give."""
    path: tuple[tuple[str, str], ...] = ()
    """(state, transition) pairs of the path so far, without cycles."""
    taken: tuple[tuple[str, str, str], ...] = ()
    """(flow, state, transition) of steps that a correction cut from the path. They are taken again
    if they hold."""
    misses: tuple[int, int] | None = None
    """The number of times in a row that the user was not understood, and the last such turn."""
    silence: Silence | None = None
    begun: JsonMap = {}
    """Key to a partial object, which waits for the parts that its schema requires."""
    asked: Mapping[str, int] = {}
    """Key with `x-said` to the turn at whose end a state that collects it spoke last."""
    made: Mapping[str, tuple[str, str]] = {}
    """Key with `x-from` to the source that made it, and to the handler or the place of the
    `set`."""
    asides: int = 0
    """Number of messages in this state that were for a digression."""
    question: str = ""
    """The question that was asked last in this state, as it was said; "" if it is not known."""
    fruitless: tuple[int, int] | None = None
    """Number of messages in a row that brought nothing, and the last turn that was counted."""
    tool_results: tuple[tuple[int, str, Any], ...] = ()
    """Results of tools in the last turns: turn, name, result. Of a long result only the beginning
    is kept."""
    timezone: str = ""
    """The conversation's time zone as an IANA name; "" is UTC. It is settled when it starts."""
    secrets: tuple[str, ...] = ()
    """Values that were given for secret keys, and that no key holds now. Nothing shows them."""
    losing: tuple[int, tuple[str, ...]] | None = None
    """The turn that asked before a loss, and the keys; without keys the whole conversation."""
    unsaid: int | None = None
    """The turn in which the fixed reply of the state could not be said; None if the state has
    spoken since.
    """
    metadata: TextMap = {}
    """Labels by which listings find the conversation. Prompts and conditions do not see them."""
    release: str = ""
    """The release that chose its definition; "" if none did."""
    arm: str = ""
    """The arm of that release: stable or candidate."""
    operator: str = ""
    """The person who spoke last since the last pause began; "" if nobody did."""
    refusals: Mapping[str, tuple[int, int]] = {}
    """Key to the number of turns in which a value for it was refused, and the last of them; none
    since it was kept."""

    read_back: ReadBack | None = None
    """The values that the current definition read back last, to be agreed to."""
    held: float | None = None
    """Time at which a run began that has made no step yet; None for everything else."""
    generation: int = 1
    """The number of its beginnings: it may begin again after an end."""
    agreed: tuple[Agreement, ...] = ()
    """The user's yeses, the last one at the end. One is dropped when a later one has all its keys.
    """
    yeses: int = 0
    """The number of yeses so far."""
    acts: JsonMap = {}
    """Key of each act behind a yes to its recorded result. Undoing a turn takes no act back."""
    origin: str = ""
    """The name of the conversation in the keys of its acts. A fork keeps that of its original."""

    @property
    def agreement(self) -> Agreement | None:
        """The last yes of the user; None if there was none."""
        return self.agreed[-1] if self.agreed else None

    @property
    def ended(self) -> bool:
        """True when the conversation is over."""
        return self.outcome is not None

    def at_stake(self, turns: int = 1) -> tuple[str, ...] | None:
        """Return what was asked about some turns ago, before a loss; None if nothing was.

        It is the keys that would be lost; () stands for the whole conversation.
        """
        asked, keys = self.losing or (None, ())
        return keys if asked == self.turn - turns else None

    def fields(self, names: Iterable[str]) -> Saved:
        """Return these fields, to be restored later."""
        found: Any = {name: getattr(self, name) for name in names}
        fields: Saved = found
        return fields

    def root_context(self) -> JsonMap:
        """Return the context of the definition that was started."""
        frame = self.root_frame()
        return self.context if frame is None else dict(frame.saved["context"])

    def root_frame(self) -> Frame | None:
        """Return the frame of the definition that was started; None if that definition is at
        work."""
        # Digressions keep the flow, so no frame has to be looked at.
        if not self.flow:
            return None
        return next(
            (frame for frame in reversed(self.stack) if frame.saved.get("flow") == ""), None
        )

    def callers(self) -> tuple[int, ...]:
        """Places on the stack of the definitions that wait for the current one, the nearest
        first."""
        found, number = [], len(self.stack) - 1
        while number >= 0:
            frame = self.stack[number]
            if frame.kind == "subflow":
                found.append(number)
            # What lies between a digression and the caller that offers it waits for others.
            number = (number if frame.caller is None else frame.caller) - 1
        return tuple(found)

    def of_caller(self, number: int) -> Session:
        """Return the session from the view of the definition at this place on the stack."""
        return replace(self, stack=self.stack[:number], **self.stack[number].saved)

    def open_frames(self) -> tuple[int, ...]:
        """Places on the stack that the current definition left open, topmost first."""
        # Up to the first call: what lies below belongs to another definition.
        numbers = range(len(self.stack) - 1, -1, -1)
        return tuple(takewhile(lambda number: self.stack[number].in_place, numbers))

    def open_places(self) -> dict[str, int]:
        """States that open digressions of the current definition return to, with their frames,
        topmost first."""
        found: dict[str, int] = {}
        if not self.stack:
            return found
        for number in self.open_frames():
            # Of several frames with one state, the topmost is the one that is left open now.
            found.setdefault(self.stack[number].saved["state"], number)
        return found

    def places_beyond(self) -> dict[str, int]:
        """States to return to in other definitions, with their frames, topmost first.

        A digression left them open. It takes place here, or the current flow is a part of it. A
        flow that was called on the main path leaves none open.
        """
        found: dict[str, int] = {}
        for number in range(len(self.stack) - len(self.open_frames()) - 1, -1, -1):
            frame = self.stack[number]
            if frame.kind == "digression":
                found.setdefault(frame.saved["state"], number)
            # On the main path nothing further down waits for the user.
            elif not self.of_caller(number).in_digression():
                break
        return found

    def flow_at(self, number: int) -> str:
        """Name of the definition that resumes at this place on the stack."""
        return next(
            (frame.saved["flow"] for frame in self.stack[number:] if "flow" in frame.saved),
            self.flow,
        )

    def lowered(self, number: int) -> Session:
        """Put the frames that the digression at this place left open beneath the call that
        resumes."""
        # What was opened above is not lost: it waits below the call from now on.
        above = self.stack[number + 1 :]
        caller = self.stack[number].caller
        if caller is None or not above:
            return self
        # Numbers of callers point into the stack, so they move with it.
        below = moved_callers(self.stack[caller : number + 1], caller, len(above))
        return replace(self, stack=(*self.stack[:caller], *above, *below))

    def in_digression(self) -> bool:
        """Return true in a digression; false on the main path of the current definition, whatever
        else is open."""
        here = takewhile(lambda frame: frame.kind == "digression", reversed(self.stack))
        return any(frame.main for frame in here)

    def is_in(self, digression: str) -> bool:
        """Return true in the digression that began in this state, if no other digression began
        within it."""
        return self.in_digression() and self.stack[-1].entered == digression

    def brought_nothing(self) -> bool:
        """Return true if nothing came of the last message."""
        count, turn = self.fruitless or (0, 0)
        return count > 0 and turn == self.turn

    def system_names(self) -> JsonDict:
        """Return the read-only names that conditions, prompts, handlers and fixed replies may
        use."""
        return {
            "_conversation_id": self.conversation_id,
            "_current_state": self.state,
            "_previous_state": self.previous_state,
            "_user_input": self.user_input,
            "_turn": self.turn,
            "_turns_in_state": max(0, self.turns_in_state - self.asides),
            "_misses": 0 if self.fruitless is None else self.fruitless[0],
            "_refusals": {key: count for key, (count, _) in self.refusals.items()},
            **clock_names(self.time, self.timezone),
        }

    def user_words(self) -> UserWords:
        """Return what the user wrote, as far as the history has it."""
        said = [user.removeprefix(CLAIMED) for user, _ in self.window if user is not None]
        messages = [
            (self.turn - back, text)
            for back, text in zip(range(len(said), 0, -1), said, strict=True)
        ]
        if self.user_input is not None:
            messages.append((self.turn, self.user_input))
        today = datetime.fromtimestamp(self.time, zone_of(self.timezone)).date()
        asked_by = self.window[-1][1] if self.window else ""
        return UserWords(messages=tuple(messages), asked=self.asked, today=today, asked_by=asked_by)

    def before_another(self) -> Session:
        """Return what remains of a conversation that ended where it begins again."""
        return Session(
            conversation_id=self.conversation_id,
            turn=self.turn,
            context=self.root_context(),
            secrets=self.secrets,
            metadata=self.metadata,
            generation=self.generation + 1,
        )

    def data(self) -> JsonDict:
        """Return the values that conditions read: the context and the system names."""
        return {**self.context, **self.system_names()}


def clock_names(time: float, timezone: str) -> JsonDict:
    """Return the system names that tell the time: all that conditions about days read."""
    return {"_timestamp": time, "_timezone": timezone or "UTC"}


def surplus(
    window: tuple[Exchange, ...], settings: HistorySettings, *, afresh: bool = False
) -> int:
    """Count the oldest exchanges to drop now.

    Args:
        window: The exchanges, the oldest first.
        settings: The definition's limits, in exchanges and tokens.
        afresh: The next prompt changes before its history, so no cache can serve the history
            either. A cut that is due soon is made at once.

    Returns:
        The number of exchanges to drop; 0 most of the time.
    """
    most = settings.max_exchanges
    many = most * 3 // 2 if afresh else 2 * most
    # A character has at most two tokens, so most windows need no estimate of each text.
    characters = sum([len(user or "") + len(said) for user, said in window])
    if len(window) <= many and 2 * characters + FRAME * len(window) <= settings.max_tokens:
        return 0
    sizes = [estimate(user or "") + estimate(said) + FRAME for user, said in window]
    kept = sum(sizes)
    # A cut changes the beginning of every later prompt, so providers cannot use their cache. It is
    # made seldom.
    if len(window) <= many and kept <= settings.max_tokens:
        return 0
    dropped = max(0, len(window) - most)
    kept -= sum(sizes[:dropped])
    if kept <= settings.max_tokens:
        return dropped
    while dropped < len(window) and (
        kept > settings.max_tokens
        or (kept > _LOW * settings.max_tokens and len(window) - dropped > _FEW)
    ):
        kept -= sizes[dropped]
        dropped += 1
    return dropped


def values_of(context: JsonMap, keys: Iterable[str]) -> JsonDict:
    """Return the values of keys or dotted names, without those that are not set."""
    found: JsonDict = {}
    for key in keys:
        value = look_up(context, key)
        if value is not None:
            found[key] = value
    return found


def session_to_dict(session: Session) -> JsonDict:
    """Return the JSON form of a session. It shares the values of the context, which may be
    large."""
    rest = plain(replace(session, context={}))
    if session.pause is not None and session.pause.messages == "refuse":
        del rest["pause"]["messages"]  # sessions of earlier versions have no such field
    return {**_ALWAYS, **rest, "context": dict(session.context), "ended": session.ended}


def session_from_dict(document: JsonMap) -> Session:
    """Return the session of a JSON form.

    Raises:
        UnreadableError: This version cannot read it. The message says why.
    """
    found = document.get("format")
    if found != FORMAT:
        raise UnreadableError(
            f"this conversation is stored in format {found!r}, and this version of llm_fsm reads "
            f"format {FORMAT}. Use the version that wrote it, or a newer one"
        )
    beside = ("format", "ended", "large", *_FORMER)
    values = without(document, beside)
    # Earlier versions knew that a conversation had ended, and not how.
    if document.get("ended") and values.get("outcome") is None:
        values["outcome"] = "final"
    if more := sorted(values.keys() - set(Session.__struct_fields__)):
        raise UnreadableError(
            "this conversation was saved by a newer version of llm_fsm: this one does not know its "
            f"{more[0]!r}. Use the version that wrote it, or a newer one"
        )
    return read(values, Session, "a stored conversation cannot be read: session")


def dump_session(session: Session, large: Mapping[str, Reference] | None = None) -> str:
    """Write a session as canonical JSON text that is valid in UTF-8.

    Args:
        session: The session.
        large: The places of values that it is stored without, see `llm_fsm.session.large_values`.
    """
    document = session_to_dict(session)
    return text_of({**document, "large": large} if large else document)


def parse_session(text: str) -> Session:
    """Read the session of a JSON text that holds all its values.

    Raises:
        UnreadableError: This version cannot read it. The message says why.
    """
    session, large = parse_stored_session(text)
    if large:
        raise UnreadableError(
            f"a stored conversation cannot be read: the value at {min(large)} stands in one of "
            "its turn records"
        )
    return session


def parse_stored_session(text: str) -> tuple[Session, Mapping[str, Reference]]:
    """Read the session of a JSON text as a store holds it.

    Returns:
        The session, and the places of large values, in whose place it has None.

    Raises:
        UnreadableError: This version cannot read it. The message says why.
    """
    try:
        document = value_of(text)
        large = document.get("large", {})
        session = session_from_dict(document)
        return session, read(
            large, dict[str, Reference], "a stored conversation cannot be read: large"
        )
    except (ValueError, AttributeError, RecursionError) as error:
        raise UnreadableError(f"a stored conversation cannot be read: {error}") from error
