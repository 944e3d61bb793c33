"""What of a machine stands in the prompt and the schema of one state.

A small machine shows all its keys in every state, and one schema serves all its states: what a provider has
cached of one turn then serves the next, in whatever state that is. In a larger machine a state shows the keys
around it, nearest first, so that a turn costs as much among a thousand states as among ten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from llm_fsm.definition import Definition, State, Transition
from llm_fsm.tokens import estimate

MOST_KEYS = 10
MOST_STATES = 16
_MOST_TOGETHER = 12
"""States whose words stand in one system message, where a machine has no more."""
_REGION = 10
"""States of a region, about, in a machine that has more."""
_REGION_TOKENS = 500
_LINE = 4
"""Tokens of a state's line beside its words."""
_LOOKED_AT = 32
"""States that are looked at for keys nearby."""


class Vicinity:
    """The surroundings of each state. `keys`: all that a reply may write; `whole`: as if the machine were small."""

    def __init__(self, definition: Definition, keys: tuple[str, ...], *, whole: bool = False) -> None:
        self.few_keys = whole or len(keys) <= MOST_KEYS
        self.few_states = whole or len(definition.states) <= MOST_STATES
        self.nameable = tuple(_nameable(definition)) if self.few_states else ()
        self._definition = definition
        self._keys = keys
        self._known = frozenset(keys)

    def near(self, state_id: str) -> tuple[str, ...]:
        """The keys that are shown in a state: its own, then those of the states behind it."""
        if self.few_keys:
            return self._keys
        definition, known = self._definition, self._known
        found: dict[str, None] = {}
        seen, waiting = {state_id}, deque([state_id])
        for _ in range(_LOOKED_AT):
            if not waiting:
                break
            here = waiting.popleft()
            if found and len(found) >= MOST_KEYS:
                break
            here_on = [*definition.states[here].transitions]
            if here == state_id:
                here_on += definition.global_transitions
            names = (*definition.states[here].required_context_keys, *_demanded(here_on))
            fresh = [name for name in dict.fromkeys(names) if name in known and name not in found]
            room = len(fresh) if here == state_id else MOST_KEYS - len(found)
            found |= dict.fromkeys(fresh[:room])
            for transition in here_on:
                if transition.target_state not in seen:
                    seen.add(transition.target_state)
                    waiting.append(transition.target_state)
        return tuple(found)


def regions(definition: Definition, *, whole: bool = False) -> list[tuple[str, ...]]:
    """The states of a machine in groups whose words stand in one system message, in the definition's order.

    A small machine is one region, as is every machine if `whole`. A larger one has several of about the same size.
    """
    sizes = {state_id: _tokens(state) for state_id, state in definition.states.items()}
    total = sum(sizes.values())
    count = -(-total // _REGION_TOKENS)
    if len(sizes) > _MOST_TOGETHER:
        count = max(count, -(-len(sizes) // _REGION))
    if whole or count == 1:
        return [tuple(sizes)]
    found: list[list[str]] = [[] for _ in range(count)]
    before = 0
    for state_id, size in sizes.items():
        found[before * count // total].append(state_id)
        before += size
    return [tuple(ids) for ids in found if ids]


def _tokens(state: State) -> int:
    texts = (
        *(state.description, state.purpose, state.instructions),
        *(state.extraction_instructions, state.response_instructions),
    )
    return _LINE + sum(map(estimate, texts))


def _demanded(transitions: Iterable[Transition]) -> Iterator[str]:
    """The keys that conditions read."""
    for transition in transitions:
        for condition in transition.conditions:
            yield from condition.requires_context_keys
            if condition.rule is not None:
                yield from sorted(condition.rule.reads)


def _nameable(definition: Definition) -> Iterator[str]:
    """Every state that a reply in some state may name, in the definition's order."""
    everywhere = {transition.target_state for transition in definition.global_transitions}
    named: set[str] = set()
    for state_id, state in definition.states.items():
        if definition.kind_of(state_id) == "converse":
            named |= {state_id, *everywhere, *(transition.target_state for transition in state.transitions)}
    return (state_id for state_id in definition.states if state_id in named)
