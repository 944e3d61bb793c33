"""What became of transitions and their conditions, and who loses the way to an end by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from llm_fsm.codes import listed, step
from llm_fsm.definition import Definition, Transition
from llm_fsm.diff.change import Change, from_to
from llm_fsm.diff.renames import asked
from llm_fsm.graph import reachable, reversed_graph

_EVERYWHERE = "every state that waits"


def transition_changes(old: Definition, new: Definition, back: Mapping[str, str]) -> Iterator[Change]:
    """`old` is told in the new one's names, `back` gives the old name of a renamed state."""
    lost = _stuck(new) - _stuck(old)
    told: set[str] = set()
    for name, was, now in _owners(old, new):
        place = "/global_transitions" if name is None else f"/states{step(name)}/transitions"
        where = f'from "{name}"' if name is not None else f"from {_EVERYWHERE}"
        pairs, gone, come = _paired(was, now)
        for index, other in pairs:
            yield from _transition(was[index], now[other], f"{place}/{other}", where, new)
        for index in gone:
            stranded = [one for one in new.states if one in lost and name in (None, one)]
            told.update(stranded)
            yield _lost(was[index], f"{place}/{index}", where, tuple(back.get(one, one) for one in stranded))
        for index in come:
            text = f'transition {where} to "{now[index].target_state}" added'
            yield Change(
                subject="transition", how="added", impact="safe", message=text, pointer=f"{place}/{index}"
            )
    late = tuple(back.get(one, one) for one in new.states if one in lost - told and one in old.states)
    if late:
        yield Change(
            subject="machine", how="changed", impact="strands", pointer="/states", states=late,
            message=f"no end can be reached any more from {listed(late)}",
            reason="conversations there can never come to an end",
        )  # fmt: skip


_Owner = tuple[str | None, Sequence[Transition], Sequence[Transition]]


def _owners(old: Definition, new: Definition) -> Iterator[_Owner]:
    """(state or None for the global ones, old transitions, new transitions) of what is in both."""
    for name, state in new.states.items():
        if name in old.states:
            yield name, old.states[name].transitions, state.transitions
    yield None, old.global_transitions, new.global_transitions


def _stuck(definition: Definition) -> set[str]:
    """States from which no end can be reached, which is no fault of a machine that is meant to run on."""
    graph: dict[str, list[str]] = {}
    for name, state in definition.states.items():
        kind = definition.kind_of(name)
        targets = [] if kind == "final" else [transition.target_state for transition in state.transitions]
        if kind == "converse":
            targets += [transition.target_state for transition in definition.global_transitions]
        extra = (state.on_timeout, state.on_exhausted)
        graph[name] = [*targets, *(one for one in extra if one in definition.states)]
    ends = [name for name in graph if definition.kind_of(name) == "final"]
    return set(graph) - reachable(reversed_graph(graph), ends)


def _paired(
    old: Sequence[Transition], new: Sequence[Transition]
) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Which transitions are the same one: equal, else of one target and description, else of one target."""
    pairs: list[tuple[int, int]] = []
    gone, come = list(range(len(old))), list(range(len(new)))
    for same in (
        lambda one, other: one == other,
        lambda one, other: (one.target_state, one.description) == (other.target_state, other.description),
        lambda one, other: one.target_state == other.target_state,
    ):
        for index in list(gone):
            match = next((other for other in come if same(old[index], new[other])), None)
            if match is not None:
                pairs.append((index, match))
                gone.remove(index)
                come.remove(match)
    return pairs, gone, come


def _lost(transition: Transition, place: str, where: str, stranded: tuple[str, ...]) -> Change:
    text = f'transition {where} to "{transition.target_state}" removed'
    if not stranded:
        return Change(subject="transition", how="removed", impact="safe", message=text, pointer=place)
    return Change(
        subject="transition", how="removed", impact="strands", message=text, pointer=place, states=stranded,
        reason=f"from {listed(stranded)} no end can be reached any more",
    )  # fmt: skip


def _transition(
    was: Transition, now: Transition, place: str, where: str, new: Definition
) -> Iterator[Change]:
    what = f'transition {where} to "{now.target_state}"'
    if was.description != now.description:
        text = f"description of the {what} reworded{from_to(was.description, now.description)}"
        yield Change(
            subject="words", how="changed", impact="safe", message=text, pointer=place + "/description"
        )
    for name, field in Transition.model_fields.items():
        key = field.alias or name
        if name not in ("target_state", "description", "conditions") and getattr(was, name) != getattr(
            now, name
        ):
            text = f'"{key}" of the {what} changed{from_to(getattr(was, name), getattr(now, name))}'
            yield Change(
                subject="setting", how="changed", impact="safe", message=text, pointer=place + step(key)
            )
    if was.conditions != now.conditions:
        yield from _conditions(was, now, place + "/conditions", what, new)


def _conditions(was: Transition, now: Transition, place: str, what: str, new: Definition) -> Iterator[Change]:
    """Conditions as a whole: which one became which cannot be told."""
    texts = [Counter(item.model_dump_json() for item in one.conditions) for one in (was, now)]
    more, less = texts[1] - texts[0], texts[0] - texts[1]
    text = f"conditions of the {what} changed ({sum(more.values())} new, {sum(less.values())} gone)"
    strangers = sorted(
        key for key in asked(now.conditions) - asked(was.conditions) if new.source_of(key) != "model"
    )
    if not strangers:
        yield Change(subject="condition", how="changed", impact="safe", message=text, pointer=place)
    for key in strangers:
        yield Change(
            subject="condition", how="changed", impact="needs-map", message=text, pointer=place, key=key, when="unset",
            reason=f'"{key}" is written by the {new.source_of(key)}, and conversations under way may lack it',
        )  # fmt: skip
