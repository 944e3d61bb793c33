"""Find the step of the way that a corrected answer decides again.

The way is the session's `path`: (state, transition) pairs of the current definition, without
rounds. A step of it is decided again on two conditions: its own conditions read the corrected key,
and they would now decide otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

from msgspec.structs import replace

from llm_fsm._json import JsonDict, JsonMap, without
from llm_fsm.definition.graph import reachable
from llm_fsm.session.context import EXTRA, Keys
from llm_fsm.session.list_items import key_of
from llm_fsm.session.quotes import QUOTES
from llm_fsm.session.reply_schema import pairs
from llm_fsm.session.session import Session
from llm_fsm.turn.compiled import CompiledMachine, CompiledState
from llm_fsm.turn.guards import Move, Moves, open_moves, reads, verdict
from llm_fsm.turn.output_mapping import mapped
from llm_fsm.turn.rest import rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """A way back to `state`, where it is decided again.

    `past`: the states up to and with `state`. `dropped`: the keys since then.
    `on`: the move to the state that the model named, if words alone decide there.
    """

    state: str
    past: frozenset[str]
    dropped: tuple[str, ...]
    on: Move | None = None


def correction(
    root: CompiledMachine,
    before: Session,
    after: Session,
    changed: Collection[str],
    picked: str = "",
) -> Correction | None:
    """Return the way back that new values ask for; None where every step of the path would be taken
    again.

    A withdrawn answer counts as declined. The conversation goes back only if every transition needs
    it.

    Args:
        root: The definition that was started.
        before: The session before the change.
        after: The session after it.
        changed: The keys that changed.
        picked: The state that a model names. It may be another way on from a step that words alone
            had decided, where the values bear on that step.
    """
    machine, path, old, new = root.of(after), after.path, before.data(), after.data()
    gone = [key for key in changed if key not in after.context]
    # The earliest step decides: all later ones are walked again from there.
    for number, (state, pointer) in enumerate(path):
        plan = machine.states.get(state)
        taken = (
            None
            if plan is None
            else next((move for move in plan.moves if move.pointer == pointer), None)
        )
        if plan is None or taken is None or plan.kind not in ("converse", "decide"):
            continue  # what worked, waited or called is not begun again
        again = None
        # Conditions that decide otherwise are certain; a state that the model names is only meant.
        starts = ways = _otherwise(plan, taken, old, new, changed)
        if starts is None:
            starts = ways = _instead(plan, taken, new, changed, picked)
            again = None if starts is None else starts[0]
        elif (
            plan.kind == "converse"
            and reads(taken, gone)
            and _goes_on_without(root, after, plan, gone)
        ):
            continue
        elif plan.kind == "converse" and all(move.judged for move in starts):
            ways = plan.own  # asked again, the answer may open each of them
        if ways is not None:
            # Keys up to this step were collected on a way that stays, so they are kept.
            past = frozenset(name for name, _ in path[: number + 1])
            left = [name for name, _ in path[number + 1 :]] + [after.state]
            return Correction(
                state=state,
                past=past,
                dropped=_dropped(machine, past, left, ways, changed),
                on=again,
            )
    return None


def _goes_on_without(
    root: CompiledMachine, session: Session, state: CompiledState, gone: Collection[str]
) -> bool:
    """Return True where a way on from a state is open without the keys, and comes to rest where it
    asks.
    """
    there = replace(session, state=state.id)
    past = {name for name, _ in takewhile(lambda step: step[0] != state.id, session.path)}
    ways = [move for move in state.own if move.target not in past and not reads(move, gone)]
    return any(verdict(move, there.data()).holds and rest(root, there, move).talks for move in ways)


def _otherwise(
    state: CompiledState, taken: Move, old: JsonMap, new: JsonMap, changed: Collection[str]
) -> Moves | None:
    """Return the moves that could be taken instead; None where the same one would be taken again."""
    if state.kind == "decide" or taken.auto:
        if not any(reads(move, changed) for move in state.onward):
            return None
        before = next(open_moves(state.onward, old), None)
        after = next(open_moves(state.onward, new), None)
        if after is not None and (before is None or before.target != after.target):
            return (after,)
        if after is None and before is not None and state.kind == "converse":
            return ()  # what was known there is not known any more
    elif taken.agrees and any(
        key.partition(".")[0] in changed for key in state.definition.confirms
    ):
        # it is read back anew
        return tuple(move for move in open_moves(state.own, new) if not move.agrees)
    elif (
        reads(taken, changed)
        and verdict(taken, old).holds
        and all(move.target != taken.target for move in open_moves(state.moves, new))
    ):
        return tuple(open_moves(state.own, new))
    return None


def _instead(
    state: CompiledState, taken: Move, new: JsonMap, changed: Collection[str], picked: str
) -> Moves | None:
    """Return the move to the picked state, where words alone chose the one taken from answers that
    changed.
    """
    if not taken.judged or state.kind != "converse" or not set(state.collects) & set(changed):
        return None
    found = next((move for move in open_moves(state.own, new) if move.target == picked), None)
    return None if found is None or picked == taken.target else (found,)


def _dropped(
    machine: CompiledMachine,
    past: frozenset[str],
    left: Iterable[str],
    starts: Iterable[Move],
    changed: Collection[str],
) -> tuple[str, ...]:
    """Return the keys that only states off the new way collect."""
    graph = {
        name: [move.target for move in state.own if move.target not in past]
        for name, state in machine.states.items()
    }
    ahead = reachable(graph, [move.target for move in starts if move.target not in past])
    kept: set[str] = set()
    for name in (ahead | past) & machine.states.keys():
        kept.update(_gathers(machine, name))
    gone: list[str] = []
    for name in left:
        # A key that the new way collects again stays: the user need not repeat it.
        if name not in ahead:
            gone += _gathers(machine, name)
    return tuple(key for key in dict.fromkeys(gone) if key not in kept and key not in changed)


def _gathers(machine: CompiledMachine, state: str) -> tuple[str, ...]:
    """Return the keys that a state collects, or takes from the flow that it calls."""
    plan = machine.states[state]
    given = (
        (key for key in plan.definition.output if machine.keys.writable(key))
        if plan.kind == "subflow"
        else ()
    )
    return (*plan.collects, *given)


def outside(
    root: CompiledMachine, before: Session, after: Session
) -> Iterator[tuple[int, tuple[str, ...], Correction | None]]:
    """Yield the changed answers of definitions that wait, the outermost first.

    Each item has the place on the stack, the changed keys, and the way back.
    """
    # The outermost definition comes first: a way back there ends all flows above it.
    for place in reversed(after.callers()):
        old, new = before.of_caller(place), after.of_caller(place)
        items = new.context.items()
        changed = tuple(
            key for key, value in items if old.context.get(key) != value and not key.startswith("_")
        )
        if changed:
            yield (
                place,
                changed,
                None if new.in_digression() else correction(root, old, new, changed),
            )


def handed_on(root: CompiledMachine, before: Session, after: Session, place: int) -> JsonMap:
    """Return the values that the definition at this place gave to a flow, and that changed there.

    What the flow has changed itself stays as it is.
    """
    old, new = before.of_caller(place), after.of_caller(place)
    caller = root.of(new)
    state, called = caller.states[new.state], root.flows[caller.states[new.state].calls]
    was, _ = mapped(called.keys, caller.keys, old, state.definition.input)
    now, _ = mapped(called.keys, caller.keys, new, state.definition.input)
    inner = next((number for number in reversed(after.callers()) if number > place), None)
    # The flow between may have changed the value itself, and then keeps its own.
    has = after.context if inner is None else after.of_caller(inner).context
    return {
        key: value
        for key, value in now.items()
        if was.get(key) != value and has.get(key) == was.get(key)
    }


def apart(
    root: CompiledMachine, session: Session, update: JsonMap
) -> tuple[JsonMap, Mapping[int, JsonMap]]:
    """Split an update in a flow that was called: its own values, and those of the definitions that
    wait for it.

    A definition that waits takes the values of its keys. They are given by its place on the stack.
    """
    extra = _extra(update)
    found: dict[int, JsonDict] = {}
    taken: set[str] = set()
    for key, value in {**extra, **update}.items():
        if value is None or key.startswith("_"):
            continue
        places = (
            number for number in session.callers() if takes(root, session, number, key_of(key))
        )
        place = next(places, None)
        if place is not None:
            found.setdefault(place, {})[key] = value
            taken.add(key)
    return _without(update, taken), found


def divided(mine: Keys, theirs: Keys, update: JsonMap) -> tuple[JsonMap, JsonMap]:
    """Split an update: the values without the keys that only another definition knows, and the
    values of those.
    """
    found = {
        key: value
        for key, value in {**_extra(update), **update}.items()
        if key_of(key) in theirs.offered
        and key_of(key) not in mine.offered
        and key_of(key) not in mine.sources
    }
    if found and update.get(QUOTES) is not None:
        found[QUOTES] = update[QUOTES]
    return _without(update, [key for key in found if key != QUOTES]), found


def _extra(update: JsonMap) -> JsonMap:
    sent = update.get(EXTRA)
    return sent if isinstance(sent, Mapping) else pairs(sent) or {}


def _without(update: JsonMap, taken: Collection[str]) -> JsonMap:
    """Return an update without these keys, under `_extra` neither."""
    if not taken:
        return update
    rest, extra = without(update, taken), _extra(update)
    if not extra.keys().isdisjoint(taken):
        rest[EXTRA] = without(extra, taken)
    return rest


def takes(root: CompiledMachine, session: Session, place: int, key: str) -> bool:
    """Return True when the definition that waits at a place takes a value under a key that the one
    at work lacks. Its answers are changed only with the pattern `correct`.

    A key that the one at work may not write and was given under the same name is still its own.
    """
    here = root.of(session)
    caller, mine = session.of_caller(place), here.keys
    theirs = root.of(caller).keys
    if key not in caller.context:
        if key not in theirs.offered:
            return False
    elif not here.has("correct"):
        return False
    if not theirs.writable(key) or theirs.is_secret(key):
        return False
    # A key that both know belongs to the flow at work.
    known = key in mine.offered or key in mine.sources or key in session.context
    return not known or (not mine.writable(key) and _is_given(root, session, place, key))


def _is_given(root: CompiledMachine, session: Session, place: int, key: str) -> bool:
    """Return True when every flow from a place on was given a key under its own name."""
    callers = (session.of_caller(number) for number in session.callers() if number >= place)
    return all(
        root.of(caller).states[caller.state].definition.input.get(key) == key for caller in callers
    )
