"""What can follow from here: which transitions are open, where each may arrive, and how that is shown.

The words of one call speak for the state in which the turn arrives, so the prompt shows what lies behind
every open transition, through states that decide and transitions that are taken by themselves. Where a
turn arrives in a state that was shown, those words stand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from llm_fsm._text import escaped, estimate
from llm_fsm.conditions.coercion import look_up
from llm_fsm.session.context import missing
from llm_fsm.session.messages import Choice, TurnView
from llm_fsm.session.redaction import blotted
from llm_fsm.session.session import Session
from llm_fsm.turn.compiled import Outlook, Program, StatePlan
from llm_fsm.turn.fixed_replies import WordingError
from llm_fsm.turn.guards import HANDOVER, Move, is_steady, may_hold, surely_holds
from llm_fsm.turn.prompt.regions import REGION_TOKENS
from llm_fsm.turn.prompt.render import checked, transition_item
from llm_fsm.turn.prompt.state_summary import in_words
from llm_fsm.turn.repair.patterns import named

_STOPS = ("converse", "wait", "final")


def _onward(plan: StatePlan) -> tuple[Move, ...]:
    """The moves that are tried on arrival, without anyone being asked."""
    return plan.moves if plan.kind == "decide" else plan.autos


def _following(
    program: Program, plan: StatePlan, data: Mapping[str, Any], left: str
) -> tuple[tuple[Move, bool], ...]:
    """The moves that may be taken on arrival, and if they then are in any case: none comes after such a one.

    `left`: the state that it is reached from.
    """
    there = {**data, "_current_state": plan.id, "_previous_state": left, "_turns_in_state": 0}
    found: list[tuple[Move, bool]] = []
    for move in _onward(plan):
        if may_hold(move, there, program.keys.is_free):
            found.append((move, surely_holds(move, there, program.keys.is_free)))
            if found[-1][1]:
                break
    return tuple(found)


def _arrivals(
    program: Program, target: str, data: Mapping[str, Any], seen: set[tuple[str, str]], back: str | None, *, left: str
) -> set[str]:
    """Where a move out of the state `left` may arrive. `back`: what an end comes back to, in a digression."""
    if (left, target) in seen:
        return set()
    seen.add((left, target))
    plan = program.states[target]
    if plan.kind == "final" and back is not None:
        return {back}
    found = {target} if plan.kind in _STOPS else set()
    if plan.kind == "decide" or plan.autos:
        for move, _ in _following(program, plan, data, left):
            found |= _arrivals(program, move.target, data, seen, back, left=target)
    return found


def _glimpse(program: Program, here: StatePlan, state_id: str) -> Mapping[str, Any]:
    """What a prompt in `here` still has to show of a state."""
    return {} if state_id in here.around else program.states[state_id].glimpse


def _branches(
    program: Program, here: StatePlan, plan: StatePlan, data: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Where a state goes on to by itself. What several ways to one state would show of it is shown with the first."""
    then: list[dict[str, Any]] = []
    for after, certain in _following(program, plan, data, here.id):
        when = {"if": after.description} if after.description else {} if certain else checked(after)
        seen = any(branch["to"] == after.target for branch in then)
        then.append({"to": after.target, **when, **({} if seen else _glimpse(program, here, after.target))})
    return then


def _said_once(then: list[dict[str, Any]]) -> dict[str, str]:
    """The instructions that most of several branches have in common, taken out of these.

    {} where none are, or where one branch shows none, of which these would be read, too.
    """
    having = Counter(branch["instructions"] for branch in then if "instructions" in branch)
    words, number = having.most_common(1)[0] if having else ("", 0)
    if number < 2 or having.total() < len({branch["to"] for branch in then}):
        return {}
    for branch in then:
        if branch.get("instructions") == words:
            del branch["instructions"]
    return {"instructions": words}


def _asked_again(plan: StatePlan) -> Mapping[str, Any]:
    """Whose question a reply repeats on the way back; that of a fixed reply is added by itself."""
    return {} if plan.fixed is not None else {"ask_its_question_again": True}


def _item(
    program: Program, here: StatePlan, move: Move, data: Mapping[str, Any], back: StatePlan | None
) -> str:
    """The prompt's entry of an open move whose target does not simply wait. `back`: what an end comes back to."""
    plan = program.states[move.target]
    there = dict(_glimpse(program, here, plan.id))
    then = _branches(program, here, plan, data)
    if then:
        if plan.kind == "decide" and "instructions" not in there:
            there |= _said_once(then)
        there["leads_on_to"] = then
    if back is not None and plan.kind == "final":
        there.pop("final", None)
        there["then_back_to"] = {"state": back.id, **_asked_again(back)}  # an item of its own says what is there
    return transition_item(move, there, is_open=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """A digression that a definition offers in what it calls, or a place that it left open.

    `data`: what its conditions read.
    """

    move: Move
    program: Program
    data: Mapping[str, Any]

    @property
    def is_open(self) -> bool:
        """True when its conditions hold, or could hold after a reply."""
        return may_hold(self.move, self.data, lambda _: False)


def asides(root: Program, session: Session) -> dict[str, Aside]:
    """What other definitions offer here, by state: what they left open, and the digressions of those that wait.

    A state of the definition at work hides one of the same name, and so does one of a nearer caller.
    """
    found: dict[str, Aside] = {}
    if not session.stack:
        return found
    here = root.of(session)
    for state, number in session.places_beyond().items():
        if state not in here.states:
            move = Move(pointer="", target=state, place=number)
            found[state] = Aside(move=move, program=root.named(session.flow_at(number)), data={})
    for place in session.callers():
        caller = session.of_caller(place)
        program = root.of(caller)
        for move in program.asides:
            if move.target not in here.states and move.target not in found:
                found[move.target] = Aside(
                    move=replace(move, caller=place), program=program, data=caller.data()
                )
    return found


def _aside_item(aside: Aside, here: StatePlan) -> str:
    plan = aside.program.states[aside.move.target]
    there = dict(plan.glimpse)
    if aside.move.place is not None:
        return _open_item(aside.move.target, there)
    if plan.kind == "final":
        there.pop("final", None)
        if "instructions" in there and estimate(plan.words.instructions) <= REGION_TOKENS:
            there["instructions"] = " ".join(plan.words.instructions.split())  # the reply answers from them at once
        there["then_back_to"] = {"state": here.id, **_asked_again(here)}
    return transition_item(aside.move, there, is_open=True)


def _open_item(state: str, there: Mapping[str, Any]) -> str:
    behind = {"there": in_words(there)} if there else {}
    return escaped({"to": state, "desc": "back to what was left open", **behind})


def outlook(program: Program, session: Session, beside: Mapping[str, Aside] | None = None) -> Outlook:
    """What a reply in the current state may do, and what the prompt shows of it. `beside`: see `asides`."""
    if session.stack or beside:
        return _outlook(program, session, beside or {})
    if session.state not in program.outlooks:
        steady = _is_steady(program, program.states[session.state])
        program.outlooks[session.state] = _outlook(program, session, {}) if steady else None
    return program.outlooks[session.state] or _outlook(program, session, {})


def _is_steady(program: Program, plan: StatePlan) -> bool:
    """True where what is open in a state, and behind it, is the same whatever is known, while nothing was left open."""
    tried = [move for move in plan.moves if move.target != plan.id]
    behind: set[str] = set()
    waiting = [move.target for move in tried]
    while waiting:
        target = waiting.pop()
        if target not in behind:
            behind.add(target)
            moves = _onward(program.states[target])
            tried += moves
            waiting += [move.target for move in moves]
    return all(is_steady(move, program.keys.is_free) for move in tried)


def _left_beyond(session: Session, beside: Mapping[str, Aside]) -> StatePlan | None:
    """What an end comes back to in another definition, where a digression out of that one takes place here."""
    frame = session.stack[-1] if session.stack else None
    aside = None if frame is None or frame.kind != "digression" else beside.get(frame.kept["state"])
    return None if aside is None or aside.move.place is None else aside.program.states[aside.move.target]


def _outlook(program: Program, session: Session, beside: Mapping[str, Aside]) -> Outlook:
    plan = program.states[session.state]
    data = session.data()
    items: list[str] = []
    valid: dict[str, None] = {}
    open_: set[str] = set()
    arrivals: dict[str, frozenset[str]] = {plan.id: frozenset((plan.id,))}
    left = next(iter(session.open_places()), None)
    beyond = None if left is not None else _left_beyond(session, beside)
    whole = program.prompts.whole  # then the system message has all transitions
    told: set[tuple[str, str | None]] = set()
    for move in plan.moves:
        shown, again, closed = plan.items[move.pointer]
        if move.target == plan.id:
            continue
        if not may_hold(move, data, program.keys.is_free):
            if not whole:
                items.append(closed)
            continue
        target = program.states[move.target]
        stays = move.pointer == HANDOVER and beyond is None
        back = plan.id if move.returns else None if stays else left
        open_place = None if stays else beyond if back is None else program.states[back]
        simple = target.kind in _STOPS and not target.autos and (open_place is None or target.kind != "final")
        # in a turn's menu that is not the whole one, digressions alone would read as all that can be done
        plain = simple or (move.returns and (target.answers if whole else plan.knows(target)))
        if not whole or (open_place is not None and not plain):
            seen = (move.target, back) in told
            items.append(again if seen else shown if plain else _item(program, plan, move, data, open_place))
            told.add((move.target, back))
        open_.add(move.pointer)
        valid[move.target] = None
        if move.target not in arrivals:
            found = {move.target} if simple else _arrivals(program, move.target, data, set(), back, left=plan.id)
            arrivals[move.target] = frozenset(found)
    further = tuple(state for state in session.open_places() if state not in valid and state != plan.id)
    for state in further:
        items.append(_open_item(state, _glimpse(program, plan, state)))
        arrivals[state] = frozenset((state,))
    valid.update(dict.fromkeys(further))
    for name, aside in beside.items():
        further = (*further, name)
        if aside.is_open:
            items.append(_aside_item(aside, plan))
            ends = aside.move.place is None and aside.program.states[name].kind == "final"
            arrivals[name] = frozenset((plan.id if ends else name,))
            valid[name] = None
    valid[plan.id] = None
    beside_states = tuple(name for name in named(program.patterns) if name not in valid)
    return Outlook(tuple(items), tuple(valid), frozenset(open_), arrivals, further, beside_states)


def lacking(session: Session, plan: StatePlan) -> tuple[str, ...]:
    """The keys to collect in a state that are not set, without those that the user will not give."""
    found, skipped = missing(session.context, plan.collects), session.skipped
    if session.begun:
        found = tuple(name for name in found if "." not in name or look_up(session.begun, name) is None)
    return tuple(key for key in found if key not in skipped) if skipped else found


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """What the model is going to be asked with next, where a conversation talks; all empty elsewhere.

    `open`: states and repair patterns that its reply may name, in the order of the menu, without the state itself.
    `missing`: keys that are collected here and not known yet. `shown`: keys whose values it is shown.
    """

    open: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()


def ahead(root: Program, session: Session) -> Ahead:
    """What the next question of this conversation holds."""
    program = root.of(session)
    plan = program.states[session.state]
    if plan.kind != "converse" or session.ended or session.pause is not None:
        return Ahead()
    look = outlook(program, session, asides(root, session))
    scope = plan.state.context_scope
    return Ahead(
        open=tuple(name for name in (*look.valid, *look.patterns) if name != plan.id),
        missing=lacking(session, plan),
        shown=tuple(program.keys.visible(session.context, None if scope is None else scope.read)),
    )


def own_words(program: Program, plan: StatePlan, session: Session) -> str:
    """A state's words without a model: its fixed reply, else its purpose or description.

    States that the run passes by itself have none.
    """
    if plan.fixed is not None:
        try:
            system = blotted(program.keys.secret_values(session.context), session.system_names())
            return plan.fixed.render(program.keys.visible(session.context) | system)
        except WordingError:
            return ""
    return "" if plan.kind in ("decide", "task", "subflow") else plan.state.purpose or plan.state.description


def _left_open(state: str, purpose: str) -> Choice:
    return Choice(
        target_state=state,
        description="back to what was left open",
        open=True,
        judged=True,
        arrival=purpose,
    )


def _choice_beside(aside: Aside, session: Session) -> Choice:
    target = aside.program.states[aside.move.target]
    caller = aside.move.caller
    if caller is None:
        return _left_open(target.id, target.state.purpose)
    return Choice(
        target_state=target.id,
        description=aside.move.description,
        open=aside.is_open,
        judged=True,
        arrival=own_words(aside.program, target, session.of_caller(caller)),
        fixed=target.fixed is not None,
    )


def turn_view(
    root: Program,
    session: Session,
    look: Outlook,
    *,
    speak: bool,
    refused: tuple[str, ...],
    task: bool = False,
) -> TurnView:
    """The plain view of a turn, for adapters that work without a model."""
    program, beside = root.of(session), asides(root, session)
    plan = program.states[session.state]
    schemas = program.keys.offered

    def wanted(state: StatePlan) -> dict[str, Mapping[str, Any]]:
        return {key: schemas.get(key, {}) for key in lacking(session, state)}

    choices = tuple(
        Choice(
            target_state=move.target,
            description=move.description,
            open=move.pointer in look.open,
            judged=move.judged,
            requires=tuple(key for guard in move.guards for key in guard.keys),
            logic=tuple(guard.logic for guard in move.guards if guard.rule is not None),
            arrival=own_words(program, program.states[move.target], session),
            fixed=program.states[move.target].fixed is not None,
            wanted=wanted(program.states[move.target]),
        )
        for move in plan.moves
        if move.target != plan.id
    )
    left = (state for state in look.further if state not in beside)
    choices += tuple(_left_open(state, program.states[state].state.purpose) for state in left)
    choices += tuple(_choice_beside(aside, session) for aside in beside.values())
    return TurnView(
        state=plan.id,
        purpose=plan.state.purpose,
        description=plan.state.description,
        own_words=own_words(program, plan, session),
        user=session.user_input,
        speak=speak,
        context=program.keys.visible(session.context),
        system=session.system_names(),
        wanted=wanted(plan),
        writable=schemas,
        choices=choices,
        refused=refused,
        task=task,
        patterns=named(program.patterns),
    )
