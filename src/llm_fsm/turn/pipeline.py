"""The course of one turn: what happens between a message and the words that answer it.

The order of a turn is the order of the lines in `Course.message`. What it does is in the classes under it:
`talk` (the model decides on a message), `moves` (the run goes on by itself), `work` (tasks), `rounds` (tools)
and `progress` (what a turn is made of).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llm_fsm._copies import made
from llm_fsm.session import events as ev
from llm_fsm.session.context import initial_context
from llm_fsm.session.history import surplus
from llm_fsm.session.memory import Background
from llm_fsm.session.messages import Paused
from llm_fsm.session.redaction import without
from llm_fsm.session.session import Session, Silence
from llm_fsm.turn.compiled import Program
from llm_fsm.turn.decide import Talking
from llm_fsm.turn.effects import Point
from llm_fsm.turn.guards import Move
from llm_fsm.turn.output_mapping import accept_output, masked
from llm_fsm.turn.response import CANNOT_GO_ON
from llm_fsm.turn.tool_loop import Loop
from llm_fsm.turn.turn_state import Run


@dataclass(frozen=True, kw_only=True)  # without slots, so that `copies.made` can make it
class Heard:
    """A message that came in at `time` (seconds since the epoch)."""

    text: str
    time: float
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How a conversation begins. `state` None: the definition's initial state.

    `input`: what the first task is given. `background`: see `llm_fsm.session.memory.Background`.
    `hold`: begin only; the run goes on in a turn of its own. Raises ValueError for a context that is no object.
    """

    conversation_id: str
    time: float
    context: Mapping[str, Any] | None = None
    state: str | None = None
    greet: bool = True
    input: Any = None
    background: Mapping[str, Any] | None = None
    hold: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.context, Mapping | None):
            raise ValueError(f"the context is an object of keys and values, not a {type(self.context).__name__}")  # noqa: TRY004


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What somebody answered, at `time`, to the pause that the session holds; it fits the pause's schema."""

    value: Any
    time: float
    request_id: str | None = None


_OUTCOMES = frozenset(
    {"stuck", "passed", "exhausted", "expired", "cancelled", "handover", "given_up", "silent"}
)
_OF_PATTERNS = {"cancel": "cancelled", "cancelled": "cancelled", "handover": "handover"}
"""The outcome of ending in a definition's own state for a pattern."""


class Course(Talking):
    """The turn as a whole."""

    __slots__ = ()

    def message(self, heard: Heard) -> Run:
        self.note(made(ev.UserSaid, text=heard.text, time=heard.time, request_id=heard.request_id))
        if self.points:
            yield from self.run(Point.PRE_PROCESSING)
        came_from = self.here
        if not self.plan.rests:
            yield from self.settle()
        if self.stopped or self.paused or self.plan.kind != "converse":
            yield from self.arrived()
        else:
            if self.here != came_from and self.plan.fixed is not None:
                self.said.pop()  # the reply to the message will speak for this state
            yield from self.ask()
            if self.paused:
                self.say_paused()
        yield from self.finish()

    def opening(self, opening: Opening) -> Run:
        definition = self.program.definition
        self.note(
            ev.Started(
                conversation_id=opening.conversation_id,
                definition=self.program.identity,
                state=opening.state or definition.initial_state,
                time=opening.time,
                context=initial_context(self.program.keys, opening.context),
                input=opening.input,
                memory=initial_memory(opening.background),
            )
        )
        yield from self.run(Point.START_CONVERSATION)
        if opening.hold:
            return
        self.say_fixed()
        yield from self.settle()
        if not opening.greet:
            self.said.clear()
        elif self.stopped:
            self.say_stopped()
        elif self.paused:
            self.say_paused()
        elif self.plan.fixed is None and not self.program.alone:
            yield from self.words("greeting")
        yield from self.finish()

    def resumed(self, time: float) -> Run:
        """Go on with a run that nobody talks to: from its beginning, or from where a turn left it."""
        self.base = self.session.spent
        self.note(ev.RunResumed(time=time))
        if self.session.previous_state is None and not self.session.stack:
            self.say_fixed()
        yield from self.settle()
        yield from self.arrived()
        yield from self.finish()

    def answer(self, given: Answer) -> Run:
        """Go on exactly where the run waits."""
        session = self.session
        pause = session.pause
        if pause is None:
            raise ValueError("the run waits for no answer")
        loop = None if session.work is None or pause.kind == "wait" else session.work.loop
        self.base = session.spent
        shown = self.shown(pause, given.value)
        self.note(ev.Answered(id=pause.id, value=shown, time=given.time, request_id=given.request_id))
        if loop is None:
            yield from self.take_answer(given.value, shown)
        elif loop["asked_for"] == "turn":
            yield from self.ask(self.put_in(loop, pause.kind, pause.call, given.value))
            if self.paused:
                self.say_paused()
        else:
            move = yield from self.work(self.put_in(loop, pause.kind, pause.call, given.value))
            if (yield from self.go(move, "task")):
                yield from self.settle()
            yield from self.arrived()
        yield from self.finish()

    def shown(self, pause: Paused, value: Any) -> Any:
        """An answer as it may be shown and kept: without what goes to secret keys."""
        keys = self.program.keys
        if pause.call is None or pause.what not in self.kit.terms:
            return masked(keys, self.plan.state.output, value)
        if pause.kind != "unknown_outcome":
            return masked(keys, self.taken(pause.what, "answer"), value)
        outcome = self.taken(pause.what, "tool")
        return {name: masked(keys, outcome, said) if name == "result" else said for name, said in value.items()}

    def put_in(
        self, document: Mapping[str, Any], kind: str, call: Mapping[str, Any] | None, value: Any
    ) -> Mapping[str, Any]:
        """A loop that waits, with the answer in it."""
        if document["asked_for"] == "execute" or call is None:
            return {**document, "answers": [*document["answers"], value]}
        messages = self.question((), None)
        loop = Loop(document["asked_for"], messages, self.no_look()).take_up(document)
        self.answered(loop, kind, call, value)
        return loop.to_dict()

    def take_answer(self, value: Any, shown: Any) -> Run:
        """What the answer to a wait state writes, and where it leads."""
        mapping = self.plan.state.output
        for event in accept_output(self.program.keys, self.session.context, mapping, value, "answer"):
            self.note(event)
        move = yield from self.follow(shown)
        if (yield from self.go(move, "answer")):
            yield from self.settle()
        yield from self.arrived()

    def due(self, time: float) -> Run:
        """What a pause has due at `time`: its expiry, or else its reminders."""
        pause, state = self.session.pause, self.plan.state
        if pause is None:
            if self.session.silence is not None:
                self.hush(self.session.silence, time)
                yield from self.finish()
            return
        self.base = self.session.spent
        if pause.expires is not None and pause.expires <= time:
            self.note(ev.TimedOut(id=pause.id, time=time))
            if state.on_timeout is None:
                self.stopped = "expired"
            else:
                move = Move(pointer=f"/states/{self.plan.id}/on_timeout", target=state.on_timeout)
                if (yield from self.step(move, "timeout")):
                    yield from self.settle()
            yield from self.arrived()
        else:
            for due in self.session.reminders:
                if due <= time:
                    self.note(ev.Reminded(id=pause.id, due=due, time=time))
            self.say_fixed()
            if not any(self.said):
                self.said.append(self.own_question(sorry=False))
        yield from self.finish()

    def hush(self, silence: Silence, time: float) -> None:
        """Nobody says anything: remind, or close."""
        closes = silence.closes is not None and silence.closes <= time
        piece, whose = self.quiet()
        plan = piece.states["silence"]
        asked = self.last_question()
        for due in silence.reminders:
            if due <= time:
                self.note(ev.Reminded(id="silence", due=due, time=time))
        state = plan.id
        if closes:
            self.stopped = "silent"
            state = plan.state.on_timeout or ""
        known = self.root.of(whose).keys.visible(whose.context)
        words = self.of_pattern(piece, state, {**known, "question": self.open_question(asked)})
        self.said.append(words or ("" if closes else self.open_question(asked)))

    def quiet(self) -> tuple[Program, Session]:
        """The definition that says what happens when nobody says anything, and the session as that one knows it."""
        session = self.session
        for place in (session, *map(session.of_caller, session.callers())):
            if "silence" in self.root.of(place).own_patterns:
                return self.root.of(place), place
        return self.program.patterns.get("silence", self.program), session

    def watch(self) -> None:
        """See to it that something happens if the user does not answer."""
        if not self.has("silence") or self.paused or self.program.alone or self.plan.kind != "converse":
            return
        state, now = self.quiet()[0].states["silence"].state, self.moment
        self.note(
            ev.SilenceWatched(
                reminders=tuple(now + seconds for seconds in sorted(set(state.remind))),
                closes=None if state.timeout is None else now + state.timeout,
            )
        )

    def arrived(self) -> Run:
        """Say what is still to be said where the run has come to by itself."""
        if self.stopped:
            self.say_stopped()
        elif self.paused:
            self.say_paused()
        elif self.plan.fixed is None and not self.program.alone and not any(self.said):
            yield from self.words("words")

    def finish(self) -> Run:
        text = "\n\n".join(filter(None, self.said))
        if text or self.session.user_input is not None:
            text = text or CANNOT_GO_ON
            if self.points:
                for result in (yield from self.run(Point.POST_PROCESSING, text=text)):
                    text = text if result.text is None else result.text
            settings = self.program.definition.history
            self.note(self.words_said(text))
            summed = settings.strategy == "summary"  # which takes a call
            dropped = surplus(self.session.window, settings, afresh=not summed and self.begins_afresh())
            if dropped:
                if summed and self.summaries:
                    gone = [list(exchange) for exchange in self.session.window[:dropped]]
                    yield from self.summarise("history", {"conversation": gone})
                self.note(ev.HistoryTrimmed(dropped=dropped))
        if self.plan.kind == "final" and not self.session.stack:
            own = self.plan.id if self.has("cancel" if self.plan.id == "cancelled" else self.plan.id) else ""
            self.note(ev.Ended(outcome=_OF_PATTERNS.get(own, "final")))
        elif self.stopped in _OUTCOMES:
            self.note(ev.Ended(outcome=self.stopped))
        elif self.stopped == "limit" and self.program.alone:
            self.note(ev.Ended(outcome="limited"))
        elif self.session.silence is None:
            self.watch()

    def begins_afresh(self) -> bool:
        """True where the next prompt has another system message than the state that this turn began in, or summary."""
        before, now = self.outset, self.session
        asked = self.root.of(before).questions.get(before.state)  # none where a conversation begins
        other = asked is not None and asked.messages[0] is not self.program.questions[self.plan.id].messages[0]
        return other or before.summary != now.summary

    def words_said(self, text: str) -> ev.BotSaid:
        """The words of the turn; what the history will show of it holds no value of a secret key."""
        user = self.session.user_input
        secrets = self.secrets()
        return made(
            ev.BotSaid,
            text=text,
            kept_chars=self.program.definition.history.max_message_chars,
            fallback=self.fallback,
            kept_user=None if user is None else without(secrets, user),
            kept_text=without(secrets, text),
        )


def initial_memory(background: Mapping[str, Any] | None) -> dict[str, Any]:
    """The memory of a new conversation. Raises ValueError for a background that does not fit."""
    document = {} if background is None else Background.from_dict(background).to_dict()
    return {"background": document} if document else {}
