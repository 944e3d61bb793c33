"""What one conversation is between turns: a frozen value that changes only by `llm_fsm.session.reducer.apply`.

It holds what the next turn needs and no more; the whole history is in the turn records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from operator import attrgetter
from typing import Any, Literal

from llm_fsm._copies import changed, fields
from llm_fsm._json import SCALARS, in_unicode, value_of
from llm_fsm.errors import UnreadableError
from llm_fsm.session.messages import Paused
from llm_fsm.session.window import Exchange

FORMAT = 1
_OF_WORK: Mapping[str, Any] = {
    "input": None,
    "memory": {},
    "shared": {},
    "summary": "",
    "work": None,
    "pause": None,
    "reminders": (),
    "settled": None,
    "spent": {},
    "flow": "",
    "stack": (),
    "skipped": (),
    "path": (),
    "misses": None,
    "silence": None,
    "begun": {},
}
"""Fields that stand in the JSON form only where they differ from these."""
_work_of, _NO_WORK = attrgetter(*_OF_WORK), tuple(_OF_WORK.values())
_TEXT, _TEXT_OR_NULL, _WHOLE, _OBJECT = (str,), (str, type(None)), (int,), (dict,)
_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("conversation_id", "definition", "state", "summary", "flow"), _TEXT),
    **dict.fromkeys(("previous_state", "user_input", "outcome"), _TEXT_OR_NULL),
    **dict.fromkeys(("turn", "turns_in_state"), _WHOLE),
    **dict.fromkeys(("context", "memory", "shared", "spent", "begun"), _OBJECT),
    "time": (float, int),
    "ended": (bool,),
}
"""What plain fields are in the JSON form. Looked at in every turn, so no deeper; `soundness` looks at everything."""
OF_PLACE = ("state", "previous_state", "turns_in_state")
OF_FLOW = (*OF_PLACE, "flow", "context", "origins", "window", "notes", "summary", "skipped", "path", "begun")
"""What a digression comes back to, and what a subflow does: what each definition has of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A task, or a conversation's call of tools, under way in `state`.

    `attempt` counts from 1, 0 where no task is tried. `checkpoint`: the session's fields that a failed attempt
    goes back to. `feedback`: what failed in the attempt before. `loop`: messages and calls of a loop that waits.
    """

    state: str
    attempt: int = 0
    checkpoint: Mapping[str, Any] = field(default_factory=dict)
    feedback: tuple[Mapping[str, str], ...] = ()
    loop: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A place to come back to. `kind`: subflow or digression; `kept`: the session's fields as they were left.

    `asked`: what the user was asked last there, to be asked again; `wanted`: the keys that were asked for; `main`:
    the way of the conversation was left and not another digression; `before`: the answers so far, where it was.
    `entered`: where a digression began; `caller`: the place of the definition in which it takes place, where that
    is not the one that was left, but one that waits for it.
    """

    kind: Literal["subflow", "digression"]
    kept: Mapping[str, Any]
    asked: str = ""
    wanted: tuple[str, ...] = ()
    main: bool = False
    before: Mapping[str, Any] = field(default_factory=dict)
    entered: str = ""
    caller: int | None = None

    @property
    def in_place(self) -> bool:
        """True for a digression within the definition that it left."""
        return self.kind == "digression" and self.caller is None


def moved_callers(frames: Iterable[Frame], start: int, by: int) -> tuple[Frame, ...]:
    """The frames, where definitions wait `by` places further up than they did, from `start` on."""
    return tuple(
        replace(frame, caller=frame.caller + by) if frame.caller is not None and frame.caller >= start else frame
        for frame in frames
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """When to remind of an open question, and when to close (None: never), in seconds since the epoch."""

    reminders: tuple[float, ...] = ()
    closes: float | None = None


@dataclass(frozen=True, kw_only=True)  # without slots, so that `copies.changed` can copy it
class Session:
    """One conversation. `window` holds (user or None, system) exchanges; `origins` key to (turn, source).

    The fields from `input` on belong to work: what the previous state put out, the working memory and the values
    that states share (as JSON), the summary of what happened so far, the task under way, what is waited for and
    when to remind of it, how the pause before ended (id, answered or expired), and what the run has used of its
    limits. `flow` names the definition that is at work, "" the one that was started; `stack` holds what it comes
    back to, the outermost first. The fields from `skipped` on belong to repair patterns: keys that the user will
    not give; the way so far as (state, transition) pairs without rounds; how often in a row the user was not
    understood, and in which turn last; what happens if nobody says anything.
    """

    conversation_id: str
    definition: str = ""
    state: str = ""
    previous_state: str | None = None
    turn: int = 0
    turns_in_state: int = 0
    context: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    window: tuple[Exchange, ...] = ()
    user_input: str | None = None
    time: float = 0.0
    notes: tuple[tuple[str, str], ...] = ()
    """(key, reason) of refused values that the next prompt tells the model."""
    outcome: str | None = None
    """How it ended; None while it has not."""
    input: Any = None
    memory: Mapping[str, Any] = field(default_factory=dict)
    shared: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""
    work: Work | None = None
    pause: Paused | None = None
    reminders: tuple[float, ...] = ()
    settled: tuple[str, str] | None = None
    spent: Mapping[str, float] = field(default_factory=dict)
    flow: str = ""
    stack: tuple[Frame, ...] = ()
    skipped: tuple[str, ...] = ()
    path: tuple[tuple[str, str], ...] = ()
    misses: tuple[int, int] | None = None
    silence: Silence | None = None
    begun: Mapping[str, Any] = field(default_factory=dict)
    """Parts of objects that wait for those without which the schema refuses the whole."""

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.outcome is not None

    def root_context(self) -> Mapping[str, Any]:
        """The context of the definition that was started."""
        frame = self.root_frame()
        return self.context if frame is None else dict(frame.kept["context"])

    def root_frame(self) -> Frame | None:
        """The place at which the definition that was started waits; None where it is at work."""
        if not self.flow:
            return None
        return next((frame for frame in reversed(self.stack) if frame.kept.get("flow") == ""), None)

    def callers(self) -> tuple[int, ...]:
        """The places of the definitions that wait for the one at work, the nearest first."""
        found, number = [], len(self.stack) - 1
        while number >= 0:
            frame = self.stack[number]
            if frame.kind == "subflow":
                found.append(number)
            number = (number if frame.caller is None else frame.caller) - 1
        return tuple(found)

    def of_caller(self, number: int) -> Session:
        """The session as the definition at this place on the stack knows it."""
        return changed(self, stack=self.stack[:number], **self.stack[number].kept)

    def open_frames(self) -> tuple[int, ...]:
        """The places on the stack that the definition at work left open, topmost first."""
        numbers = range(len(self.stack) - 1, -1, -1)
        return tuple(takewhile(lambda number: self.stack[number].in_place, numbers))

    def open_places(self) -> dict[str, int]:
        """The states that open digressions of the definition at work come back to, with their frames, topmost first."""
        found: dict[str, int] = {}
        if not self.stack:
            return found
        for number in self.open_frames():
            found.setdefault(self.stack[number].kept["state"], number)
        return found

    def places_beyond(self) -> dict[str, int]:
        """The states to come back to in other definitions, with their frames, topmost first.

        These are left open by a digression that takes place here, or that the flow at work is part of; not by a
        flow that was called on the way itself.
        """
        found: dict[str, int] = {}
        for number in range(len(self.stack) - len(self.open_frames()) - 1, -1, -1):
            frame = self.stack[number]
            if frame.kind == "digression":
                found.setdefault(frame.kept["state"], number)
            elif not self.of_caller(number).aside():
                break
        return found

    def flow_at(self, number: int) -> str:
        """The definition that comes back to this place on the stack."""
        return next((frame.kept["flow"] for frame in self.stack[number:] if "flow" in frame.kept), self.flow)

    def lowered(self, number: int) -> Session:
        """What the digression at this place left open in its definition, put beneath the call of what comes back."""
        above = self.stack[number + 1 :]
        caller = self.stack[number].caller
        if caller is None or not above:
            return self
        below = moved_callers(self.stack[caller : number + 1], caller, len(above))
        return changed(self, stack=(*self.stack[:caller], *above, *below))

    def aside(self) -> bool:
        """True in a digression, false on the way of the definition at work, whatever else is open."""
        here = takewhile(lambda frame: frame.kind == "digression", reversed(self.stack))
        return any(frame.main for frame in here)

    def is_in(self, digression: str) -> bool:
        """True in the digression that began in this state, with no other begun in it."""
        return self.aside() and self.stack[-1].entered == digression

    def system_names(self) -> dict[str, Any]:
        """The read-only names that conditions, prompts, handlers and fixed replies may use."""
        return {
            "_conversation_id": self.conversation_id,
            "_current_state": self.state,
            "_previous_state": self.previous_state,
            "_user_input": self.user_input,
            "_turn": self.turn,
            "_turns_in_state": self.turns_in_state,
            "_timestamp": self.time,
        }

    def data(self) -> dict[str, Any]:
        """What conditions read: the context and the system names."""
        return {**self.context, **self.system_names()}


def loose_parts(session: Session) -> str | None:
    """The lists and objects in a session's values and its input as JSON, whatever those do who were given them.

    "" where there are none; None where more of it could be changed: where work is under way or an answer is waited for.
    """
    if session.work or session.pause:
        return None
    loose = [
        {key: value for key, value in values.items() if type(value) not in SCALARS} for values in _values_of(session)
    ]
    return in_unicode((session.input, *loose)) if any(loose) or type(session.input) not in SCALARS else ""


def _values_of(session: Session) -> list[Mapping[str, Any]]:
    """The values of a session by whose they are, its context first; the others where there are any of them."""
    if not (session.memory or session.shared or session.stack):
        return [session.context]
    found = [session.context, session.memory, session.shared]
    for frame in session.stack:
        found += (frame.kept.get("context", {}), frame.before)
    return found


def with_parts(session: Session, loose: str) -> Session:
    """The session with these parts as they were.

    Something, and no error, where they are of another turn, as another thread may put one down meanwhile: see `Seen`.
    """
    if not loose:
        return session
    given, *parts = value_of(loose)
    context, *others = ({**known, **own} for known, own in zip(_values_of(session), parts, strict=False))
    if not others:
        return changed(session, context=context, input=given)
    memory, shared, *left = others
    stack = tuple(
        replace(frame, kept={**frame.kept, "context": kept} if "context" in frame.kept else frame.kept, before=before)
        for frame, kept, before in zip(session.stack, left[::2], left[1::2], strict=False)
    )
    return changed(session, context=context, input=given, memory=memory, shared=shared, stack=stack)


def to_dict(session: Session) -> dict[str, Any]:
    """The JSON form of a session, with the number of its format. What belongs to work only where it is set."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "conversation_id": session.conversation_id,
        "definition": session.definition,
        "state": session.state,
        "previous_state": session.previous_state,
        "turn": session.turn,
        "turns_in_state": session.turns_in_state,
        "context": session.context,
        "origins": session.origins,
        "window": tuple(session.window),  # a `Window` takes longer to write
        "user_input": session.user_input,
        "time": session.time,
        "notes": session.notes,
        "ended": session.ended,
        "outcome": session.outcome,
    }
    work = _work_of(session)
    if work != _NO_WORK:
        for value, (name, default) in zip(work, _OF_WORK.items(), strict=True):
            if value is not default and value != default:
                document[name] = _plain(name, value)
    return document


def _plain(name: str, value: Any) -> Any:
    if name in ("work", "pause", "silence"):
        return fields(value)
    return [fields(frame) for frame in value] if name == "stack" else value


def from_dict(document: Mapping[str, Any]) -> Session:
    """The session of a JSON form. Raises UnreadableError for a format that this version cannot read."""
    found = document.get("format")
    if found != FORMAT:
        raise UnreadableError(
            f"this conversation is stored in format {found!r}; this version of llm_fsm reads format {FORMAT}: "
            "use the version that wrote it, or a newer one"
        )
    values = _fields({key: value for key, value in document.items() if key != "format"})
    for name, types in _TYPES.items():
        if name in values and type(values[name]) not in types:
            raise UnreadableError(f"a stored conversation is damaged: its {name!r} is {values[name]!r:.50}")
    if values.pop("ended", False) and values.get("outcome") is None:
        values["outcome"] = "final"
    if more := values.keys() - Session.__dataclass_fields__.keys():
        raise UnreadableError(
            "this conversation was saved by a newer version of llm_fsm: this one does not know its "
            f"{sorted(more)[0]!r}; use the version that wrote it, or a newer one"
        )
    if (work := values.get("work")) is not None:
        values["work"] = _work(work)
    if (pause := values.get("pause")) is not None:
        values["pause"] = Paused(**pause)
    if (silence := values.get("silence")) is not None:
        values["silence"] = Silence(reminders=tuple(silence["reminders"]), closes=silence["closes"])
    for name in ("reminders", "settled", "misses"):
        if name in values:
            values[name] = tuple(values[name])
    if "stack" in values:
        values["stack"] = tuple(
            Frame(**{**frame, "kept": _fields(dict(frame["kept"])), "wanted": tuple(frame.get("wanted", ()))})
            for frame in values["stack"]
        )
    return Session(**values)


def _fields(values: dict[str, Any]) -> dict[str, Any]:
    """Fields of a session whose JSON form has lists where they have tuples."""
    if "flow" in values:
        values.setdefault("begun", {})  # not written by an older version
    if "skipped" in values:
        values["skipped"] = tuple(values["skipped"])
    for name in ("window", "notes", "path"):
        if name in values:
            values[name] = tuple((first, second) for first, second in values[name])
    if "origins" in values:
        values["origins"] = {key: (turn, source) for key, (turn, source) in values["origins"].items()}
    return values


def _work(document: Mapping[str, Any]) -> Work:
    checkpoint = dict(document["checkpoint"])
    if "origins" in checkpoint:
        checkpoint["origins"] = {key: tuple(origin) for key, origin in checkpoint["origins"].items()}
    return Work(**{**document, "checkpoint": checkpoint, "feedback": tuple(document["feedback"])})
