"""Changes of transitions and their conditions, and the states that lose their path to an end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from llm_fsm._json import TextMap, step
from llm_fsm._text import listed
from llm_fsm.definition.models import Definition, Transition
from llm_fsm.documents.diff.change import Difference, Differences, from_to, member_changes
from llm_fsm.documents.diff.reachability import Ways, stranded
from llm_fsm.documents.diff.renames import asked, head_of

_EVERYWHERE = "every state that waits"


def transition_changes(old: Definition, new: Definition, back: TextMap) -> Differences:
    """Yield changes of transitions. `old` has the new names, and `back` returns the old name of a
    renamed state.
    """
    context = _Context(old, new, back)
    told: set[str] = set()
    for name, was, now in _owners(old, new):
        place = "/global_transitions" if name is None else f"/states{step(name)}/transitions"
        where = f'from "{name}"' if name is not None else f"from {_EVERYWHERE}"
        here = context.losing(name)
        pairs, gone, come = _paired(was, now)
        yield from _reordered([(at, other, now[other]) for at, other in pairs], place, where)
        for index, other in pairs:
            edge = _Edge(was[index], now[other], f"{place}/{other}", where, name)
            for change in _transition(edge, context):
                told.update(here if change.impact == "strands" else ())
                yield change
        for index in gone:
            told.update(here)
            yield _lost(was[index], f"{place}/{index}", where, context, name)
        for index in come:
            text = f'transition {where} to "{now[index].target_state}" added'
            yield Difference(
                subject="transition", how="added", message=text, pointer=f"{place}/{index}"
            )
    late = context.old_names(
        one for one in new.states if one in context.lost - told and one in old.states
    )
    if late:
        yield Difference(
            subject="machine",
            impact="strands",
            pointer="/states",
            states=late,
            message=f"no end can be reached any more from {listed(late)}",
            reason="conversations there can never come to an end",
        )


@dataclass(frozen=True)
class _Context:
    """Both definitions, the old one with the new names, and facts about their paths."""

    old: Definition
    new: Definition
    back: TextMap

    @cached_property
    def before(self) -> Ways:
        return Ways(self.old)

    @cached_property
    def after(self) -> Ways:
        return Ways(self.new)

    @cached_property
    def lost(self) -> frozenset[str]:
        return stranded(self.before, self.after)

    def losing(self, owner: str | None) -> list[str]:
        """List the states with a transition of this owner that lose their way."""
        return [name for name in self.new.states if name in self.lost and owner in (None, name)]

    @cached_property
    def collected(self) -> frozenset[str]:
        """Keys that running conversations may have been asked for."""
        states = self.old.states.values()
        return frozenset(chain.from_iterable(state.required_context_keys for state in states))

    def old_names(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(self.back.get(name, name) for name in names)


class _Edge(NamedTuple):
    """One transition before and after, its pointer, its place in words, and its state (None: every
    state).
    """

    old: Transition
    new: Transition
    place: str
    where: str
    owner: str | None

    @property
    def what(self) -> str:
        return f'transition {self.where} to "{self.new.target_state}"'


_APART = frozenset({"target_state", "description", "conditions"})
"""Members of a transition that are compared by themselves."""
_Owner = tuple[str | None, Sequence[Transition], Sequence[Transition]]


def _owners(old: Definition, new: Definition) -> Iterator[_Owner]:
    """Yield (state or None for the global ones, old transitions, new transitions) for states in
    both.
    """
    for name, state in new.states.items():
        if name in old.states:
            yield name, old.states[name].transitions, state.transitions
    yield None, old.global_transitions, new.global_transitions


def _paired(
    old: Sequence[Transition], new: Sequence[Transition]
) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Pair transitions: equal ones, else those with one target and description, else those with one
    target.
    """
    pairs = []
    gone = list(range(len(old)))
    come = list(range(len(new)))
    for same in (
        lambda one, other: one == other,
        lambda one, other: (
            (one.target_state, one.description) == (other.target_state, other.description)
        ),
        lambda one, other: one.target_state == other.target_state,
    ):
        for index in list(gone):
            match = next((other for other in come if same(old[index], new[other])), None)
            if match is not None:
                pairs.append((index, match))
                gone.remove(index)
                come.remove(match)
    return pairs, gone, come


def _reordered(kept: Sequence[tuple[int, int, Transition]], place: str, where: str) -> Differences:
    """Yield changes of order at equal priority. `kept`: each transition that stayed, with its old
    and new places.
    """
    before = sorted(kept, key=lambda one: (one[2].priority, one[0]))
    after = sorted(kept, key=lambda one: (one[2].priority, one[1]))
    if before == after:
        return
    targets = listed(dict.fromkeys(one.target_state for _, _, one in after))
    yield Difference(
        subject="transition",
        pointer=place,
        message=f"order of the transitions {where} changed: {targets}",
        reason="without the model the first one that holds is taken",
    )


def _lost(
    transition: Transition, place: str, where: str, context: _Context, owner: str | None
) -> Difference:
    text = f'transition {where} to "{transition.target_state}" removed'
    gone = Difference(subject="transition", how="removed", message=text, pointer=place)
    return _strands(gone, context, owner) or replace(gone, reason=_out_of_reach(context, owner))


def _strands(change: Difference, context: _Context, owner: str | None) -> Difference | None:
    """Return a change with the states that lose their way by it; None if there are none."""
    here = context.losing(owner)
    if not here:
        return None
    states = context.old_names(here)
    reason = f"from {listed(states)} no end can be reached any more"
    if change.reason:
        reason = f"{change.reason}, and {reason}"
    return replace(change, impact="strands", states=states, reason=reason)


def _out_of_reach(context: _Context, owner: str | None) -> str:
    """Return the states that were in reach from here and are not any more."""
    if owner is None or owner not in context.before.graph:
        return ""
    missed = context.before.beyond(owner) - context.after.beyond(owner) - {owner}
    names = [name for name in context.new.states if name in missed]
    if names:
        return f'from "{owner}" conversations do not come to {listed(names)} any more'
    return ""


def _transition(edge: _Edge, context: _Context) -> Differences:
    was = edge.old
    now = edge.new
    what = edge.what
    if was.description != now.description:
        text = f"description of the {what} reworded{from_to(was.description, now.description)}"
        yield Difference(subject="words", message=text, pointer=edge.place + "/description")
    names = [name for name in Transition.model_fields if name not in _APART]
    yield from member_changes(was, now, names, edge.place, f" of the {what}")
    if was.conditions != now.conditions:
        yield from _conditions(edge, context)


def _conditions(edge: _Edge, context: _Context) -> Differences:
    """Compare conditions as a whole, because they cannot be paired."""
    texts = [
        Counter(item.model_dump_json() for item in one.conditions) for one in (edge.old, edge.new)
    ]
    more = texts[1] - texts[0]
    less = texts[0] - texts[1]
    place = edge.place + "/conditions"
    text = (
        f"conditions of the {edge.what} changed ({sum(more.values())} new,"
        f" {sum(less.values())} gone)"
    )
    if edge.place in context.after.never:
        reason = "they can never hold now, so it is never taken"
        closed = Difference(subject="condition", message=text, pointer=place, reason=reason)
        yield _strands(closed, context, edge.owner) or closed
        return
    asked_before = asked(edge.old.conditions)
    needed = sorted(key for key in asked(edge.new.conditions) if key not in asked_before)
    missing = {key: found for key in needed if (found := _missing(key, edge, context)) is not None}
    if not missing:
        yield Difference(subject="condition", message=text, pointer=place)
    for key, (states, reason) in missing.items():
        yield Difference(
            subject="condition",
            impact="needs-map",
            message=text,
            pointer=place,
            states=states,
            key=key,
            when="unset",
            reason=reason,
        )


def _missing(key: str, edge: _Edge, context: _Context) -> tuple[tuple[str, ...], str] | None:
    """Return (states, reason) if running conversations may lack a newly demanded key and are not
    asked for it.
    """
    new = context.new
    head = head_of(key, new.key_schemas)
    if new.source_of(head) != "model":
        return (
            (),
            f'"{key}" is written by the {new.source_of(head)}, and conversations under way may'
            " lack it",
        )
    if new.context_schema is not None and head not in new.key_schemas:
        return (), f'no reply can write "{key}": "context_schema" does not declare it'
    here = (
        [edge.owner]
        if edge.owner is not None
        else [name for name in new.states if new.kind_of(name) == "converse"]
    )
    silent = [
        name for name in here if not {key, head} & set(new.states[name].required_context_keys)
    ]
    if {key, head} & context.collected or not silent:
        return None
    states = context.old_names(silent)
    return states, f'"{key}" was asked for nowhere before, and {listed(states)} does not ask for it'
