"""The order of one turn, from what comes in to the words of the turn.

What comes in is a message, an opening, an answer or a time that is due. `message` is the usual
turn: its lines are in the order in which things happen. `decide` asks the model about the message,
and `transitions` makes moves. `tasks` and `tool_loop` do the work, and `response` finds the words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, TextMap
from llm_fsm.definition.models import State
from llm_fsm.languages import certain_sentence
from llm_fsm.session import events as ev
from llm_fsm.session.context import accept_host, initial_context
from llm_fsm.session.memory import Background, Memory
from llm_fsm.session.messages import Paused
from llm_fsm.session.redaction import without
from llm_fsm.session.session import Session, Silence, clock_names, surplus
from llm_fsm.turn import (
    assignments,
    closing,
    decide,
    handlers,
    model,
    response,
    subflows,
    summaries,
    tasks,
    tool_loop,
    transitions,
)
from llm_fsm.turn.agreement import note_host_yes, note_read_back
from llm_fsm.turn.choices import choices_of, pick
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.effects import Point
from llm_fsm.turn.guards import Move, labelled
from llm_fsm.turn.output_mapping import accept_output, masked
from llm_fsm.turn.tool_loop import Loop
from llm_fsm.turn.tool_results import result_value
from llm_fsm.turn.turn_state import ORDINARY, Arrival, Part, Run, Stop, StoppableRun, TurnState


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """A message that came in at `time` (seconds since the epoch). `picked`: it is the label of a
    choice.

    `question`: the question of that choice; "" if it is not known. `merged`: request id and text of
    each message that it is made of, if there were several. `sent`: when it was accepted; 0 is `time`.
    `early`: that was before the last words were saved.
    """

    text: str
    time: float
    request_id: str | None = None
    picked: bool = False
    question: str = ""
    merged: tuple[tuple[str | None, str], ...] = ()
    sent: float = 0.0
    early: bool = False

    def event(self) -> ev.UserSaid:
        """Return the event that records it."""
        return ev.UserSaid(
            text=self.text,
            time=self.time,
            request_id=self.request_id,
            picked=self.picked,
            merged=self.merged,
            early=self.early,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The beginning of a conversation. `state` None: the definition's initial state.

    `input`: what the first task is given. `background`: see `llm_fsm.session.memory.Background`.
    `shared`: values that states share; `memory`: buckets, {"0": text}. `hold`: begin only; the run
    goes on in a turn of its own. `history`: what was said elsewhere before, as (role, text). `anew`:
    it may begin again what has ended. `agreed`: the program says yes to an act. `origin` and `acts`:
    see `Started`. `release`: release, arm and salt, see `ReleaseChosen`. Raises ValueError for a
    context that is no object.
    """

    conversation_id: str
    time: float
    context: JsonMap | None = None
    state: str | None = None
    greet: bool = True
    input: Any = None
    background: JsonMap | None = None
    shared: JsonMap | None = None
    memory: TextMap | None = None
    hold: bool = False
    history: tuple[tuple[str, str], ...] = ()
    timezone: str = ""
    metadata: TextMap = field(default_factory=dict)
    anew: bool = False
    agreed: bool = False
    origin: str = ""
    acts: JsonMap = field(default_factory=dict)
    release: TextMap = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.context, Mapping | None):
            kind = type(self.context).__name__
            message = f"the context is an object of keys and values, not a {kind}"
            raise ValueError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """An act of the program between messages, at `time`: it says `text`, or changes keys and the
    state.

    `context`: values by key, None deletes one. They were checked. `by`: the person who says `text`;
    "" is the program. `agreed`: the program says yes to an act.
    """

    time: float
    context: JsonMap = field(default_factory=dict)
    state: str | None = None
    text: str | None = None
    request_id: str | None = None
    by: str = ""
    agreed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer that somebody gave, at `time`, to the pause of the session; it fits the pause's
    schema.
    """

    value: Any
    time: float
    request_id: str | None = None
    step: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Continue a run without a user at `time`.

    `step`: only to the border of the next state. `input`: the new input of the state at work; None
    keeps it.
    """

    time: float
    step: bool = False
    input: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """The time-outs and reminders of a pause, or of a question that nobody answers, that are due at
    `time`.
    """

    time: float


Trigger = UserMessage | Opening | Update | Answer | Resume | Due
"""A value that begins a turn. `time` is in seconds since the epoch."""

_OF_PATTERNS = {"cancel": "cancelled", "cancelled": "cancelled", "handover": "handover"}
"""The outcome of ending in a definition's own state for a pattern."""


def message(turn: TurnState, heard: UserMessage) -> Run:
    if turn.paused:
        yield from _record(turn, heard)
        return
    # Looking for choices costs time, so it is done only where a choice can count.
    can_count = heard.picked or turn.state.picks
    shown = choices_of(turn.root, turn.session) if can_count else ()
    yield from _take_in(turn, heard)
    # A handler may have changed keys, so an automatic transition may be open before the model is
    # asked.
    came_from, said, stop = turn.here, turn.said, None
    if not turn.state.rests:
        stop = (yield from transitions.settle(turn, asked=frozenset({came_from}))).stop
    if stop is not None or turn.state.kind != "converse":
        yield from _arrived(turn, stop)
    else:
        if turn.state.fixed is not None:
            turn.said = said  # the reply to the message will speak for this state
        # What was shown before the message counts: the handlers may have changed the choices.
        picked = pick(shown, heard.text) if shown else None
        # A choice of another state than the one that showed it would answer the wrong question.
        picked = picked if turn.here == came_from else None
        turn.picked = None if picked is None else picked.value
        stop = yield from decide.ask(turn, picked=picked)
    yield from _finish(turn, stop)


def _record(turn: TurnState, heard: UserMessage) -> Run:
    """Keep a message for the person who has taken over. The state answers the first one, if nobody
    else did.
    """
    is_first = turn.session.turns_in_state == 0 and not turn.session.operator
    yield from _take_in(turn, heard)
    if is_first:
        response.say_fixed(turn)
    yield from _finish(turn, None)


def _take_in(turn: TurnState, heard: UserMessage) -> Run:
    # The message is on record before any code of the host can fail.
    turn.emit(heard.event())
    if turn.host.points:
        yield from handlers.run(turn, Point.PRE_PROCESSING)
    yield from assignments.remake(turn)


def opening(turn: TurnState, opening: Opening) -> Run:
    definition = turn.machine.definition
    zone = opening.timezone or definition.timezone
    clock = clock_names(opening.time, zone)
    context = initial_context(turn.keys, opening.context, names=clock)
    secrets = turn.keys.secret_values(context)
    before = turn.session
    turn.keep_secrets(before.context)
    turn.emit(
        ev.Started(
            conversation_id=opening.conversation_id,
            definition=turn.machine.identity,
            state=opening.state or definition.initial_state,
            time=opening.time,
            generation=before.generation,
            context=context,
            input=opening.input,
            memory=initial_memory(opening.background, opening.memory),
            shared=initial_shared(opening.shared),
            history=tuple((role, without(secrets, text) or text) for role, text in opening.history),
            kept_chars=definition.history.max_message_chars,
            timezone=zone,
            metadata=before.metadata or opening.metadata,
            held=opening.hold,
            origin=opening.origin,
            acts=opening.acts,
        )
    )
    if opening.release:
        turn.emit(ev.ReleaseChosen(sha=turn.machine.identity, **opening.release))
    # An imported history may be longer than this definition keeps.
    if dropped := surplus(turn.session.window, definition.history):
        turn.emit(ev.HistoryTrimmed(dropped=dropped))
    yield from assignments.run(turn, turn.state.assignment)
    yield from handlers.run(turn, Point.START_CONVERSATION)
    yield from assignments.remake(turn)
    if opening.agreed:
        note_host_yes(turn)
    # The first turn of the run settles, under its own journal.
    if opening.hold:
        return
    response.say_on_the_way(turn)
    arrival = yield from transitions.settle(turn)
    if opening.greet:
        yield from closing.close(
            turn, arrival._replace(back=False, passed=False), written="opening"
        )
    else:
        turn.said = ()
    yield from _finish(turn, arrival.stop)


def update(turn: TurnState, given: Update) -> Run:
    """Do what the program wants between messages; no model is asked for words."""
    turn.emit(
        ev.Updated(
            time=given.time, request_id=given.request_id, values=given.context, state=given.state
        )
    )
    if given.text is not None:
        # Read before the words are recorded, because they change who holds the conversation.
        held = _is_held(turn)
        if held and (given.by or turn.session.operator):
            _watch_hold(turn)
        turn.emit(bot_said(turn, given.text, given.by))
        if not held and not turn.session.ended:
            watch_silence(turn)
        return
    # All changes are judged by the same session, and then recorded.
    before = turn.session
    events = _host_changes(turn, given.context)
    changed = [event for event in events if not isinstance(event, ev.ContextRefused)]
    turn.emit_all(events)
    if changed and turn.session.flow:
        subflows.hand_on(turn, before)
    if changed and turn.host.points:
        yield from handlers.run(turn, Point.CONTEXT_UPDATE, updated=set(given.context))
    if given.state is not None:
        # The program names a state of the outermost definition, so nothing stays open above it.
        subflows.leave_down_to(turn, 0, "host")
        if given.agreed:
            note_host_yes(turn)
        yield from transitions.enter(turn, Move(pointer="", target=given.state), "host")
    here, said, stop = turn.here, turn.said, None
    if not turn.paused and (given.state is not None or not turn.state.rests):
        stop = (yield from transitions.settle(turn, asked=frozenset({here}))).stop
        if given.state is None and turn.here == here:
            turn.said = said  # it has not moved, and asks nothing anew
    if stop is not None or given.state is not None:
        yield from closing.close(turn, Arrival(stop=stop), written="update")
    yield from _finish(turn, stop)


def _host_changes(turn: TurnState, context: JsonMap) -> tuple[ev.Event, ...]:
    """Return the changes by the program's values in the started definition, which may wait for
    another one.
    """
    found = accept_host(
        turn.root.keys, turn.session.root_context(), context, names=turn.session.system_names()
    )
    if not turn.session.flow:
        return found
    stack = turn.session.stack
    # The frame nearest to the top that was saved by the started definition is the one to change.
    place = next(
        number for number in range(len(stack) - 1, -1, -1) if stack[number].saved.get("flow") == ""
    )
    return tuple(
        ev.AnswersChanged(frame=place, values=event.values, removed=event.removed, source="host")
        if isinstance(event, ev.ContextSet)
        else event
        for event in found
    )


def run(turn: TurnState, given: Resume) -> Run:
    """Go on with a run that nobody talks to."""
    # Limits count for the whole run, so what earlier turns spent is read before anything is spent
    # now.
    turn.spent_before = turn.session.spent
    turn.emit(ev.RunResumed(time=given.time, input=given.input))
    if turn.session.previous_state is None and not turn.session.stack:
        response.say_on_the_way(turn)
    stop = (yield from transitions.settle(turn, step=given.step)).stop
    if turn.state.rests or turn.paused or stop is not None:
        yield from _arrived(turn, stop)
    yield from _finish(turn, stop)


def answer(turn: TurnState, given: Answer) -> Run:
    """Go on exactly where the run waits; no further than the next state's border where `given.step`
    says so.
    """
    session = turn.session
    pause = session.pause
    if pause is None:
        raise ValueError("the run waits for no answer")
    # Only work has a loop to go on with. A state that waits takes the answer as its output.
    loop = None if session.work is None or pause.kind == "wait" else session.work.loop
    turn.spent_before = session.spent
    shown = _shown(turn, pause, given.value)
    turn.emit(ev.Answered(id=pause.id, value=shown, time=given.time, request_id=given.request_id))
    if loop is None:
        stop = yield from _take_answer(turn, given.value, shown)
    else:
        stop = yield from _go_on(turn, _put_in(turn, loop, pause, given.value), given.step)
    yield from _finish(turn, stop)


def _go_on(turn: TurnState, loop: JsonMap, step: bool) -> StoppableRun:
    """Go on in a loop of the model, with the answer in it; see `answer`."""
    # The loop says whose question the calls belong to: a message, words on arrival, or a task.
    match loop["asked_for"]:
        case "turn":
            return (yield from decide.ask(turn, loop))
        case "words":
            yield from closing.speak_with_tools(turn, loop)
            return None
    return (yield from _go_on_working(turn, loop, step))


def _shown(turn: TurnState, pause: Paused, value: Any) -> Any:
    """Return an answer as it may be shown and kept: without what goes to secret keys."""
    keys = turn.keys
    if pause.call is None or pause.what not in turn.tools.policies:
        return masked(keys, turn.state.definition.output, value)
    if pause.kind != "unknown_outcome":
        return masked(keys, tool_loop.output_taken(turn, pause.what, "answer"), value)
    outcome = tool_loop.output_taken(turn, pause.what, "tool")
    return {
        name: masked(keys, outcome, said) if name == "result" else said
        for name, said in value.items()
    }


def _put_in(turn: TurnState, document: JsonMap, pause: Paused, value: Any) -> JsonMap:
    """Return a loop that waits, with the answer in it."""
    if document["asked_for"] == "execute" or pause.call is None:
        return {**document, "answers": [*document["answers"], value]}
    messages = model.request(turn, (), None)
    loop = Loop(document["asked_for"], messages, model.no_moves(turn)).take_up(document)
    tool_loop.take_answer(turn, loop, pause.kind, pause.call, value)
    return loop.to_dict()


def _go_on_working(turn: TurnState, waiting: JsonMap, step: bool) -> StoppableRun:
    """Go on with a task that has paused."""
    arrival, move = ORDINARY, (yield from tasks.work(turn, waiting))
    if move is not None:
        arrival = yield from transitions.move_or_stop(turn, move, "task")
        if turn.state.kind == "converse" or not step:
            arrival = yield from transitions.settle(turn, arrival)
    if turn.state.rests or turn.paused or arrival.stop is not None:
        yield from _arrived(turn, arrival.stop)
    return arrival.stop


def _take_answer(turn: TurnState, value: Any, shown: Any) -> StoppableRun:
    """Write what the answer to a wait state gives, and go where it leads."""
    mapping = turn.state.definition.output
    session = turn.session
    names = session.system_names()
    turn.emit_all(accept_output(turn.keys, session.context, mapping, value, "answer", names=names))
    yield from assignments.remake(turn)
    told, said = _told(turn), turn.said
    move = yield from tasks.follow(turn, shown)
    arrival = yield from transitions.settle(
        turn, (yield from transitions.move_or_stop(turn, move, "answer"))
    )
    return (yield from _read(turn, arrival.stop, told, said))


def _told(turn: TurnState) -> str:
    """Return what the user wrote to the person who had taken over; "" if nobody had."""
    count = turn.session.turns_in_state
    if turn.state.definition.messages != "record" or not count:
        return ""
    said = [user for user, _ in turn.session.window if user is not None]
    return "\n\n".join(said[-count:])


def _read(turn: TurnState, stop: Stop | None, told: str, said: tuple[Part, ...]) -> StoppableRun:
    """Read what the user told a person, where the conversation goes on; else close the turn.

    Args:
        turn: The turn, where it stops.
        stop: Why the run goes no further.
        told: What the user wrote to the person.
        said: The words from before the arrival: the reply speaks for the state.
    """
    reads = told and turn.keys.offered and turn.state.kind == "converse"
    if not reads or stop is not None or turn.paused:
        yield from _arrived(turn, stop)
        return stop
    if turn.state.fixed is not None:
        turn.said = said
    return (yield from decide.ask(turn, told=told))


def due(turn: TurnState, given: Due) -> Run:
    """Do what is due for a pause, or for a question that nobody answers.

    Reminders are given only where nothing has expired.
    """
    time, pause, state = given.time, turn.session.pause, turn.state.definition
    if pause is None:
        if turn.session.silence is not None:
            breaks = _break_silence if _own_times(turn) is None else _break_off
            stop = yield from breaks(turn, turn.session.silence, time)
            yield from _finish(turn, stop)
        return
    turn.spent_before, stop = turn.session.spent, None
    # What has expired needs no reminder, even if one is due at the same time.
    if pause.expires is not None and pause.expires <= time:
        turn.emit(ev.TimedOut(id=pause.id, time=time))
        if pause.messages == "record" and turn.session.operator:
            told, said = _told(turn), turn.said
            stop = yield from _hand_back(turn)
            stop = yield from _read(turn, stop, told, said)
        else:
            stop = yield from _time_out(turn, turn.state.id, state.on_timeout)
            yield from _arrived(turn, stop)
    else:
        _remind(turn, pause.id, turn.session.reminders, time)
        response.say_fixed(turn)
        if not turn.words:
            turn.say("question", response.plain_question(turn))
    yield from _finish(turn, stop)


def _hand_back(turn: TurnState) -> StoppableRun:
    """Go on without the answer of a person who has said nothing more.

    The first of these that talks is taken: a way that is open, the state of the time-out, the last
    states of the path. Nobody has agreed to anything, so no way to an act is taken.
    """
    states = turn.machine.states
    ways = [move for move in turn.state.moves if states[move.target].kind == "converse"]
    move = yield from handlers.first_allowed(turn, labelled(ways, None))
    if move is not None:
        arrival = yield from transitions.enter_counted(turn, move, "timeout")
        return (yield from transitions.settle(turn, arrival)).stop
    # Nothing is open, so the last place where the user was asked is better than an end.
    given_up = turn.state.definition.on_timeout
    path = [state for state, _ in reversed(turn.session.path)]
    named = [name for name in (given_up, *path) if name is not None and name in states]
    talks = (name for name in named if states[name].kind == "converse")
    return (yield from _time_out(turn, turn.state.id, next(talks, given_up)))


def _remind(turn: TurnState, id: str, reminders: Iterable[float], time: float) -> None:
    """Record the reminders that are due at `time`."""
    for due in reminders:
        if due <= time:
            turn.emit(ev.Reminded(id=id, due=due, time=time))


def _time_out(turn: TurnState, state: str, target: str | None) -> StoppableRun:
    """Go where the time-out of a state leads; without a target the run has expired."""
    if target is None:
        return Stop("expired")
    move = Move(pointer=f"/states/{state}/on_timeout", target=target)
    arrival = yield from transitions.enter_counted(turn, move, "timeout")
    return (yield from transitions.settle(turn, arrival)).stop


def _own_times(turn: TurnState) -> State | None:
    """Return the state that talks if it says itself when to remind and when to give up; else None."""
    state = turn.state.definition
    if turn.state.kind != "converse" or (turn.state.id == "silence" and turn.has("silence")):
        return None
    return state if state.timeout is not None or state.remind else None


def _break_off(turn: TurnState, silence: Silence, time: float) -> StoppableRun:
    """Handle silence in a state with times of its own: ask again, or go where it leads on a
    time-out.
    """
    state = turn.state.definition
    if silence.closes is None or silence.closes > time:
        _remind(turn, "silence", silence.reminders, time)
        turn.say("question", response.open_question(turn))
        return None
    turn.emit(ev.TimedOut(id="silence", time=time))
    return (yield from _end_silence(turn, turn.state.id, state.on_timeout))


def _end_silence(turn: TurnState, state: str, target: str | None) -> StoppableRun:
    """Go where the silence in a state leads. Nobody waits there for words of a model."""
    stop = yield from _time_out(turn, state, target)
    yield from closing.close(turn, Arrival(stop=stop), written="no_call")
    return stop


def _break_silence(turn: TurnState, silence: Silence, time: float) -> StoppableRun:
    """Handle silence elsewhere: remind, go where the definition's own state leads, or close."""
    closes = silence.closes is not None and silence.closes <= time
    piece, whose, place = _silence_source(turn)
    plan = piece.states["silence"]
    elsewhere = plan.definition.on_timeout
    if (
        closes
        and elsewhere is not None
        and place is not None
        and piece.states[elsewhere].kind != "final"
    ):
        turn.emit(ev.TimedOut(id="silence", time=time))
        # The state of the time-out belongs to the definition that waits, so everything above it
        # ends.
        subflows.leave_down_to(turn, place, "silent")
        return (yield from _end_silence(turn, "silence", elsewhere))
    _remind(turn, "silence", silence.reminders, time)
    state = (elsewhere or "") if closes else plan.id
    known = turn.root.of(whose).keys.visible(whose.context)
    words = response.pattern_words(
        turn, piece, state, {**known, "question": response.open_question(turn)}
    )
    turn.say("pattern", words or ("" if closes else response.open_question(turn)))
    return Stop("silent") if closes else None


def _silence_source(turn: TurnState) -> tuple[CompiledMachine, Session, int | None]:
    """Find the definition that says what happens when nobody says anything.

    Returns:
        The definition, the session as that one knows it, and its place on the stack. The place is
        None for the shipped definition.
    """
    session = turn.session
    if "silence" in turn.machine.own_patterns:
        return turn.machine, session, len(session.stack)
    # The nearest definition that says what silence means is the one that counts.
    for place in session.callers():
        whose = session.of_caller(place)
        if "silence" in turn.root.of(whose).own_patterns:
            return turn.root.of(whose), whose, place
    return turn.machine.patterns.get("silence", turn.machine), session, None


def _watch_hold(turn: TurnState) -> None:
    """See to it that a person who has spoken hands back, if neither side says anything more."""
    timeout = turn.state.definition.timeout
    if timeout is not None:
        turn.emit(ev.SilenceWatched(closes=turn.moment + timeout))


def watch_silence(turn: TurnState) -> None:
    """See to it that something happens if the user does not answer."""
    if _is_held(turn) and turn.session.operator:
        _watch_hold(turn)
        return
    own = _own_times(turn)
    if (
        turn.paused
        or turn.machine.alone
        or turn.state.kind != "converse"
        or not (own or turn.has("silence"))
    ):
        return
    state, now = own or _silence_source(turn)[0].states["silence"].definition, turn.moment
    turn.emit(
        ev.SilenceWatched(
            reminders=tuple(now + seconds for seconds in sorted(set(state.remind))),
            closes=None if state.timeout is None else now + state.timeout,
        )
    )


def _arrived(turn: TurnState, stop: Stop | None) -> Run:
    """Close a turn that came by itself to where it stops. If words were said on the way, no model
    is asked for more.
    """
    if not turn.words:
        yield from closing.close(turn, Arrival(stop=stop), written="nothing")
    elif stop is not None or turn.paused or turn.state.kind == "converse":
        yield from closing.close(turn, Arrival(stop=stop), written="no_call")


def _finish(turn: TurnState, stop: Stop | None) -> Run:
    text = "\n\n".join(turn.words)
    # A turn without words and without a message is one of a run: nobody reads it.
    if text or turn.session.user_input is not None:
        if not text and not _is_held(turn):
            text = certain_sentence(turn.machine.definition.language, "cannot_go_on")
        written = text
        if text and turn.host.points:
            for result in (yield from handlers.run(turn, Point.POST_PROCESSING, text=text)):
                written = written if result.text is None else result.text
        settings = turn.machine.definition.history
        turn.emit(bot_said(turn, written, handled=written != text))
        text = written
        note_read_back(turn, text)
        # A cut that comes early saves nothing here: each cut costs a call of its own.
        summed = settings.strategy == "summary"  # which takes a call
        dropped = surplus(turn.session.window, settings, afresh=not summed and _begins_afresh(turn))
        if dropped:
            if summed and turn.host.summaries:
                gone = [list(exchange) for exchange in turn.session.window[:dropped]]
                yield from summaries.summarise(turn, "history", {"conversation": gone})
            turn.emit(ev.HistoryTrimmed(dropped=dropped))
    # An end inside a flow only returns, so the stack decides whether it is the end of all.
    if turn.state.kind == "final" and not turn.session.stack:
        turn.emit(ev.Ended(outcome=_outcome_at_end(turn)))
    elif stop is not None and (stop.ends or turn.machine.alone):
        turn.emit(ev.Ended(outcome=stop.reason))
    elif turn.session.silence is None:
        watch_silence(turn)


def _is_held(turn: TurnState) -> bool:
    """Return true if a person has taken over, who answers in place of the machine."""
    pause = turn.session.pause
    return pause is not None and pause.messages == "record"


def _outcome_at_end(turn: TurnState) -> str:
    """Return the outcome of the final state: its own word, that of its pattern, or `final`."""
    state = turn.state
    pattern = "cancel" if state.id == "cancelled" else state.id
    # A state with the id of a pattern that is switched off is an ordinary end.
    default = _OF_PATTERNS.get(state.id, "final") if turn.has(pattern) else "final"
    return state.definition.outcome or default


def _begins_afresh(turn: TurnState) -> bool:
    """Return true where the next prompt begins otherwise than that of this turn: in another
    definition, or with another summary.
    """
    before, now = turn.initial_session, turn.session
    begun = before.state != ""  # not where a conversation begins
    return (begun and before.flow != now.flow) or before.summary != now.summary


def bot_said(turn: TurnState, text: str, by: str = "", *, handled: bool = False) -> ev.BotSaid:
    """Return the event of the turn's words; what the history shows of it holds no secret value.

    `by`: the person who says them, whom the history names; "" is the machine. `handled`: a handler
    wrote them.
    """
    user = turn.session.user_input
    secrets = turn.secrets()
    keys = turn.state.collects if turn.session.unsaid is None else ()
    kept = without(secrets, text)
    shortened = len(turn.question) > turn.machine.definition.history.max_message_chars
    question = "" if by or shortened or without(secrets, turn.question) else turn.question
    if by:
        kept = f"{by}: {text if kept is None else kept}"
    return ev.BotSaid(
        text=text,
        kept_chars=turn.machine.definition.history.max_message_chars,
        fallback=turn.fallback,
        handled=handled,
        kept_user=None if user is None else without(secrets, user),
        kept_text=kept,
        by=by,
        question=question,
        asked=tuple(key for key in keys if key in turn.keys.said),
    )


def initial_memory(background: JsonMap | None, buckets: TextMap | None = None) -> JsonDict:
    """Return the memory of a new conversation. Raises ValueError for a background or buckets that
    do not fit.
    """
    document = {} if background is None else Background.from_dict(background).to_dict()
    held = dict(Memory.from_dict(buckets or {}).to_dict())
    return {**held, "background": document} if document else held


def initial_shared(values: JsonMap | None) -> JsonDict:
    """Return the shared values of a new run. Raises ValueError for what has no JSON form."""
    return dict(result_value(dict(values or {})))
