"""The things that can follow from here: the open transitions, where each may arrive, and the choices of the user.

The words of one call speak for the state in which the turn arrives. So the prompt shows what lies behind every
open transition. It looks through states that decide and transitions that are taken by themselves. Where a turn
arrives in a state that was shown, those words stand.

The choices are the state's `choices`, or those of the key that it asks for. A choice that the user picked needs no
reading by a model where its value is certain. It is then a value of the only key that is asked for, or the state that
a transition leads to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from llm_fsm._text import escaped, estimate
from llm_fsm.session.redaction import redacted
from llm_fsm.session.session import Session
from llm_fsm.session.values import part_schema
from llm_fsm.turn.compiled import AvailableMoves, CompiledMachine, CompiledState
from llm_fsm.turn.fixed_replies import FixedReply, WordingError
from llm_fsm.turn.guards import HANDOVER, Move, may_hold, surely_holds
from llm_fsm.turn.localized import label_of, text_of
from llm_fsm.turn.next_step import Enter, Rest, Return, Step, lacking, next_steps
from llm_fsm.turn.prompt.regions import REGION_TOKENS
from llm_fsm.turn.prompt.render import checked, transition_item
from llm_fsm.turn.prompt.state_summary import in_words
from llm_fsm.turn.recognize import YES_NO, folded
from llm_fsm.turn.turn_state import TurnState

_STOPS = ("converse", "wait", "final")


def _possible_steps(
    machine: CompiledMachine, state: CompiledState, data: Mapping[str, Any], left: str, *, called: bool
) -> Iterator[tuple[Step, bool]]:
    """Yield what may follow on arrival, each with True if it follows whatever a reply writes.

    Nothing comes after a step that follows in any case. No state counts as answered: a reply may ask in any.

    Args:
        machine: The machine at work.
        state: The state of arrival.
        data: The values that conditions read.
        left: The state that this one is reached from.
        called: True if an end comes back to another state.
    """
    there = {**data, "_current_state": state.id, "_previous_state": left, "_turns_in_state": 0, "_misses": 0}

    def is_free(key: str) -> bool:
        return key.partition(".")[0] in machine.assigned or machine.keys.is_free(key)  # may be set on the way

    def opens(move: Move) -> bool:
        return may_hold(move, there, is_free)

    for step in next_steps(state, called=called, opens=opens, known=lambda: None):
        certain = not isinstance(step, Enter) or surely_holds(step.move, there, is_free)
        yield step, certain
        if certain:
            return


def _arrivals(
    machine: CompiledMachine,
    target: str,
    data: Mapping[str, Any],
    seen: set[tuple[str, str]],
    back: str | None,
    *,
    left: str,
) -> set[str]:
    """Return the states in which a move out of `left` may arrive; in a digression, an end comes back to `back`."""
    if (left, target) in seen:
        return set()
    seen.add((left, target))
    found: set[str] = set()
    for step, _ in _possible_steps(machine, machine.states[target], data, left, called=back is not None):
        if isinstance(step, Enter):
            found |= _arrivals(machine, step.move.target, data, seen, back, left=target)
        elif isinstance(step, Rest):
            found.add(target)
        elif isinstance(step, Return) and back is not None:
            found.add(back)
    return found


def _target_summary(machine: CompiledMachine, here: CompiledState, state_id: str) -> Mapping[str, Any]:
    """Return what a prompt in `here` still has to show of a state."""
    return {} if state_id in here.around else machine.states[state_id].target_summary


def _branches(
    machine: CompiledMachine,
    here: CompiledState,
    state: CompiledState,
    data: Mapping[str, Any],
    passed: frozenset[str] = frozenset(),
) -> list[dict[str, Any]]:
    """Return the ways on from a state by itself, up to states that wait.

    A state is shown with the first way that leads to it. `passed`: the states that this way has passed.
    """
    then: list[dict[str, Any]] = []
    left = state.id if passed else here.id
    for step, certain in _possible_steps(machine, state, data, left, called=False):
        if not isinstance(step, Enter):
            continue
        after = step.move
        when = {"if": after.description} if after.description else {} if certain else checked(after)
        branch: dict[str, Any] = {"to": after.target, **when}
        if all(other["to"] != after.target for other in then):
            branch |= _target_summary(machine, here, after.target)
            target = machine.states[after.target]
            beyond = {*passed, state.id}
            if target.id not in beyond and (further := _branches(machine, here, target, data, frozenset(beyond))):
                branch["leads_on_to"] = further
        then.append(branch)
    return then


def _said_once(then: list[dict[str, Any]]) -> dict[str, str]:
    """Take the instructions that most of several branches have in common out of them, and return these.

    {}: no two branches share any, or one branch shows none. A reader would take the shared ones as its own, too.
    """
    having = Counter(branch["instructions"] for branch in then if "instructions" in branch)
    words, number = having.most_common(1)[0] if having else ("", 0)
    if number < 2 or having.total() < len({branch["to"] for branch in then}):
        return {}
    for branch in then:
        if branch.get("instructions") == words:
            del branch["instructions"]
    return {"instructions": words}


def _asked_again(state: CompiledState) -> Mapping[str, Any]:
    """Return the note that a reply asks the state's question again; a fixed reply asks it by itself."""
    return {} if state.fixed is not None else {"ask_its_question_again": True}


def _item(
    machine: CompiledMachine, here: CompiledState, move: Move, data: Mapping[str, Any], back: CompiledState | None
) -> str:
    """Return the prompt's entry of an open move whose target does not simply wait; an end comes back to `back`."""
    state = machine.states[move.target]
    there = dict(_target_summary(machine, here, state.id))
    then = _branches(machine, here, state, data)
    if then:
        if state.kind == "decide" and "instructions" not in there:
            there |= _said_once(then)
        there["leads_on_to"] = then
    if back is not None and state.kind == "final":
        there.pop("final", None)
        there["then_back_to"] = {"state": back.id, **_asked_again(back)}  # an item of its own says what is there
    return transition_item(move, there, is_open=True, data=data, speaks=state.fixed is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedDigression:
    """A digression that a definition offers in what it calls, or a place that it left open."""

    move: Move
    program: CompiledMachine

    def data_in(self, session: Session) -> Mapping[str, Any]:
        """Return the values that its conditions read: those of the definition that offers it."""
        return {} if self.move.caller is None else session.of_caller(self.move.caller).data()

    def is_open(self, session: Session) -> bool:
        """Return True when its conditions hold. No reply of this definition can change what they read."""
        return may_hold(self.move, self.data_in(session), lambda _: False)


def asides(root: CompiledMachine, session: Session) -> dict[str, OfferedDigression]:
    """Return what other definitions offer here, by state.

    They offer the places that they left open, and the digressions of those that wait.
    A state of the definition at work hides one of the same name, and so does one of a nearer caller.
    """
    found: dict[str, OfferedDigression] = {}
    if not session.stack:
        return found
    here = root.of(session)
    for state, number in session.places_beyond().items():
        if state not in here.states:
            move = Move(pointer="", target=state, place=number)
            found[state] = OfferedDigression(move=move, program=root.named(session.flow_at(number)))
    for place in session.callers():
        caller = session.of_caller(place)
        machine = root.of(caller)
        for move in machine.asides:
            if move.target not in here.states and move.target not in found:
                found[move.target] = OfferedDigression(move=replace(move, caller=place), program=machine)
    return found


def _aside_item(aside: OfferedDigression, here: CompiledState) -> str:
    state = aside.program.states[aside.move.target]
    there = dict(state.target_summary)
    if aside.move.place is not None:
        return _open_item(aside.move.target, there)
    if state.kind == "final":
        there.pop("final", None)
        if "instructions" in there and estimate(state.words.instructions) <= REGION_TOKENS:
            there["instructions"] = " ".join(state.words.instructions.split())  # the reply answers from them at once
        there["then_back_to"] = {"state": here.id, **_asked_again(here)}
    return transition_item(aside.move, there, is_open=True)


def _open_item(state: str, there: Mapping[str, Any]) -> str:
    behind = {"there": in_words(there)} if there else {}
    return escaped({"to": state, "desc": "back to what was left open", **behind})


def available_moves(
    machine: CompiledMachine, session: Session, beside: Mapping[str, OfferedDigression] | None = None
) -> AvailableMoves:
    """Return what a reply in the current state may do, and what the prompt shows of it.

    Args:
        machine: The machine at work.
        session: The session.
        beside: What other definitions offer here, as `asides` returns it; None for nothing.
    """
    beside = beside or {}
    plan = machine.states[session.state]
    data = session.data()
    items: list[str] = []
    valid: dict[str, None] = {}
    open_: set[str] = set()
    arrivals: dict[str, frozenset[str]] = {plan.id: frozenset((plan.id,))}
    open_places = session.open_places()
    left = next(iter(open_places), None)
    beyond = None if left is not None else _left_beyond(session, beside)
    whole = machine.prompts.whole  # then the system message has all transitions
    told: set[tuple[str, str | None]] = set()
    for move in plan.moves:
        if move.target == plan.id:
            continue
        item = plan.items[move.pointer]
        if not may_hold(move, data, machine.keys.is_free):
            if not whole:
                items.append(item.closed)
            continue
        target = machine.states[move.target]
        stays = move.pointer == HANDOVER and beyond is None
        back = plan.id if move.returns else None if stays else left
        open_place = None if stays else beyond if back is None else machine.states[back]
        waits = target.kind in _STOPS and not target.autos and (open_place is None or target.kind != "final")
        # in a turn's menu that is not the whole one, digressions alone would read as all that can be done
        plain = waits or (move.returns and (target.answers if whole else plan.knows(target)))
        if not whole or (open_place is not None and not plain):
            seen = (move.target, back) in told
            if seen or plain:
                items.append(item.shown(data, again=seen))
            else:
                items.append(_item(machine, plan, move, data, open_place))
            told.add((move.target, back))
        open_.add(move.pointer)
        valid[move.target] = None
        if move.target not in arrivals:
            arrivals[move.target] = frozenset(_arrivals(machine, move.target, data, set(), back, left=plan.id))
    further = tuple(state for state in open_places if state not in valid and state != plan.id)
    for state in further:
        items.append(_open_item(state, _target_summary(machine, plan, state)))
        arrivals[state] = frozenset((state,))
    valid.update(dict.fromkeys(further))
    for name, aside in beside.items():
        further = (*further, name)
        if aside.is_open(session):
            items.append(_aside_item(aside, plan))
            ends = aside.move.place is None and aside.program.states[name].kind == "final"
            arrivals[name] = frozenset((plan.id if ends else name,))
            valid[name] = None
    valid[plan.id] = None
    patterns = tuple(name for name in machine.named_patterns if name not in valid)
    return AvailableMoves(tuple(items), tuple(valid), frozenset(open_), arrivals, further, patterns, beside)


def available_here(turn: TurnState) -> AvailableMoves:
    """Return what a reply may do where a turn is."""
    return available_moves(turn.machine, turn.session, asides(turn.root, turn.session))


def _left_beyond(session: Session, beside: Mapping[str, OfferedDigression]) -> CompiledState | None:
    """Return the state that an end comes back to after a digression out of another definition; else None."""
    frame = session.stack[-1] if session.stack else None
    aside = None if frame is None or frame.kind != "digression" else beside.get(frame.saved["state"])
    return None if aside is None or aside.move.place is None else aside.program.states[aside.move.target]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """The contents of the next question to the model, where a conversation talks; all empty elsewhere.

    `open`: states and repair patterns that its reply may name, in the order of the menu, without the state itself.
    `missing`: keys that are collected here and not known yet. `shown`: keys whose values it is shown.
    """

    open: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()


def ahead(root: CompiledMachine, session: Session) -> Ahead:
    """Return what the next question of this conversation holds."""
    machine = root.of(session)
    state = machine.states[session.state]
    if state.kind != "converse" or session.ended or session.pause is not None:
        return Ahead()
    available = available_moves(machine, session, asides(root, session))
    scope = state.definition.context_scope
    return Ahead(
        open=tuple(name for name in (*available.valid, *available.patterns) if name != state.id),
        missing=lacking(session, state),
        shown=tuple(machine.keys.visible(session.context, None if scope is None else scope.read)),
    )


def fixed_words(machine: CompiledMachine, fixed: FixedReply, session: Session) -> str:
    """Return a fixed reply with the values of a conversation. Raises WordingError."""
    system = redacted(machine.keys.secret_values(session.context), session.system_names())
    return fixed.render(machine.in_words(machine.keys.visible(session.context)) | system)


def own_words(machine: CompiledMachine, state: CompiledState, session: Session) -> str:
    """Return a state's words without a model: its fixed reply, else its purpose or description.

    States that the run passes by itself have none.
    """
    if state.fixed is not None:
        try:
            return fixed_words(machine, state.fixed, session)
        except WordingError:
            return ""
    return (
        "" if state.kind in ("decide", "task", "subflow") else state.definition.purpose or state.definition.description
    )


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing that the user can choose.

    Attributes:
        label: The words for it, as a button shows them.
        value: What it stands for, as JSON: a value of the key that is asked for, a state, or a text.
    """

    label: str
    value: Any


def choices_of(root: CompiledMachine, session: Session) -> tuple[Choice, ...]:
    """Return the choices of a conversation as it stands; () where there is nothing to choose.

    Args:
        root: The definition that was started.
        session: The conversation.
    """
    if session.ended or session.pause is not None or not root.knows(session):
        return ()
    machine = root.of(session)
    state = machine.states[session.state]
    if state.kind != "converse":
        return ()
    if state.definition.choices:
        found = [Choice(one.label, one.label if one.value is None else one.value) for one in state.definition.choices]
    else:
        key = asked_key(session, state)
        found = _of_key(machine, key) if key else []
    return tuple({choice.label: choice for choice in found if choice.label.strip()}.values())


def asked_key(session: Session, state: CompiledState) -> str:
    """Return the one key that a state still wants; "" where it wants none, or several."""
    wanted = lacking(session, state)
    return wanted[0] if len(wanted) == 1 else ""


def pick(choices: Iterable[Choice], said: str) -> Choice | None:
    """Return the choice that a text stands for: its label in any letters, or its number as shown, from 1.

    A number counts only where no label is a number. None: the text is something else.

        >>> pick([Choice("small", "s"), Choice("large", "l")], "2")
        Choice(label='large', value='l')
    """
    known = list(choices)
    word = folded(said)
    same = [choice for choice in known if folded(choice.label) == word]
    if same:
        return same[0] if len(same) == 1 else next((one for one in same if one.label == said.strip()), None)
    number = word.rstrip(".)")
    if not (number.isascii() and number.isdecimal()) or any(folded(one.label).isdecimal() for one in known):
        return None
    return known[int(number) - 1] if 0 < int(number[:9]) <= len(known) else None


def _of_key(machine: CompiledMachine, key: str) -> list[Choice]:
    """Return the values of an `enum`, or yes and no; none for a secret key, or where nothing has words for yes."""
    if machine.keys.is_secret(key):
        return []
    schema = part_schema(machine.keys.offered, key)
    values = schema.get("enum")
    if isinstance(values, list):
        return [Choice(label_of(schema, value) or text_of(value), value) for value in values if value is not None]
    if schema.get("type") != "boolean":
        return []
    yes, no = YES_NO.get((machine.definition.language or "en").partition("-")[0].lower(), ("", ""))
    words = {True: yes.partition(" ")[0], False: no.partition(" ")[0]}
    found = [Choice(label_of(schema, value) or words[value], value) for value in (True, False)]
    return found if all(choice.label for choice in found) else []
