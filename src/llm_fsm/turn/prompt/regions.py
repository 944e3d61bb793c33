"""The parts of a machine that stand in the system message and the schema of the prompts of one state.

What a provider has cached of one turn should serve the next, in whatever state that is. A small machine therefore
has one schema, and one system message with the words of all states and all keys. A larger one is divided
into regions, in the order of its definition. A turn then costs as much among a thousand states as among ten. All
states of a region share a system message and a schema, except those with their own `reasoning`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from llm_fsm._text import estimate
from llm_fsm.definition.models import Definition, State, Transition
from llm_fsm.turn.prompt.state_summary import WORKS, instructions_of, shared

MOST_KEYS = 24
"""Keys that stand in every system message and schema, where a machine has no more."""
MOST_STATES = 24
"""States of a machine with one schema; if their words are few, with one system message, too."""
_REGION_STATES = 10
REGION_TOKENS = 800
"""Tokens of the words of a region, about, and of its keys where a machine has too many for all."""
_SOON_SEEN = 64
"""States of a machine of which a conversation soon has seen every region."""
_LARGER = 3 / 2
"""The factor by which its regions are larger, because each one that is entered is read once."""
_FEWEST = 5
"""States that are asked in for which a region has room where they are wordy: one with fewer is left too soon.

One more where the next region has another schema, too, and a conversation soon comes there."""
_MOST_TOKENS = 1800
"""Tokens that this may take where all regions have one schema."""
_UTMOST_TOKENS = 2400
"""Tokens that this may take elsewhere."""
_LARGEST = 4 / 3
"""The factor by which one region may exceed the size that all should have."""
_LINK = 0.1
"""The worth of a transition within a region: about that of a third of its size."""
_LINE = 4
"""Tokens of a state's line beside its words."""
_KEY = 16
"""Tokens of a key's line and schema, about."""
_EXPRESSION = re.compile(r"\{[{%].*?[%}]\}", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """States that have one system message.

    `shown`: those whose words it has, where global transitions lead among them. `keys`: those that it lists.
    `named`: the states that the schema of a reply lets it name. `name`: the schema's own, "" where it serves all
    states of the machine.
    """

    states: tuple[str, ...]
    shown: tuple[str, ...]
    keys: tuple[str, ...]
    named: tuple[str, ...]
    name: str


def regions(definition: Definition, keys: Sequence[str], *, whole: bool) -> tuple[Region, ...]:
    """Return the regions of a machine. `keys`: all that a reply may write; `whole`: as if the machine were small."""
    few_keys = whole or len(keys) <= MOST_KEYS
    few_states = whole or len(definition.states) <= MOST_STATES
    every = tuple(_named(definition, definition.states)) if few_states else ()
    offered = _offered(definition)
    groups = [tuple(definition.states)] if whole else _groups(definition, few_keys=few_keys, few_states=few_states)
    return tuple(
        Region(
            states=states,
            shown=tuple(dict.fromkeys((*states, *offered))),
            keys=tuple(keys if few_keys else _nearby(definition, states, frozenset(keys))),
            named=every or tuple(_named(definition, states)) or states,
            name="" if few_keys and few_states else states[0],
        )
        for states in groups
    )


def _groups(definition: Definition, *, few_keys: bool, few_states: bool) -> list[tuple[str, ...]]:
    """Divide the states into groups of about the same size, where few transitions lead across.

    This is dynamic programming over the first so many states. A group costs what it is off the size that all should
    have. It is the cheaper the more transitions stay within.
    """
    again = _said_again(definition)
    sizes = [
        _tokens(state) - again.get(state_id, 0) + (0 if few_keys else _KEY * len(set(_own(state))))
        for state_id, state in definition.states.items()
    ]
    asking = sum(definition.kind_of(state_id) == "converse" for state_id in definition.states)
    total = sum(sizes)
    many = len(sizes) > _SOON_SEEN
    larger = 1 if few_states or many else _LARGER
    fewest = _FEWEST if few_states or many else _FEWEST + 1
    most = _MOST_TOKENS if few_states else _UTMOST_TOKENS
    room = max(larger * REGION_TOKENS, min(fewest * total / max(asking, 1), most))
    parts = 1 if few_states else ceil(asking / larger / _REGION_STATES)
    right = total / max(ceil(total / room), parts)
    links = _links(definition)
    best: list[tuple[float, int]] = [(0.0, 0)]
    for end in range(1, len(sizes) + 1):
        size = within = 0
        found: list[tuple[float, int]] = []
        for start in range(end - 1, -1, -1):
            size += sizes[start]
            if size > _LARGEST * right and found:
                break
            within += sum(links[start, other] for other in range(start + 1, end))
            found.append((best[start][0] + (size / right - 1) ** 2 - _LINK * within, start))
        best.append(min(found))
    every = list(definition.states)
    groups: list[tuple[str, ...]] = []
    end = len(every)
    while end:
        start = best[end][1]
        groups.append(tuple(every[start:end]))
        end = start
    return groups[::-1]


def _said_again(definition: Definition) -> dict[str, int]:
    """Count the tokens of instructions that an earlier state has, too, as a region says them once."""
    speaking = {
        state_id: instructions_of(state)
        for state_id, state in definition.states.items()
        if definition.kind_of(state_id) not in WORKS
    }
    return {state_id: estimate(text) for text, ids in shared(speaking).items() for state_id in ids[1:]}


def _links(definition: Definition) -> Counter[tuple[int, int]]:
    """Count the transitions between two states, by their places; a final state is asked for nothing."""
    place = {state_id: number for number, state_id in enumerate(definition.states)}
    found: Counter[tuple[int, int]] = Counter()
    for state_id, state in definition.states.items():
        for transition in state.transitions:
            if definition.states[transition.target_state].transitions:
                here, there = sorted((place[state_id], place[transition.target_state]))
                found[here, there] += 1
    return found


def _offered(definition: Definition) -> tuple[str, ...]:
    """Return where global transitions lead, as far as words of the size of a region go.

    A digression is answered by the reply that names it. That reply has to know all that its state knows.
    """
    found: dict[str, int] = {}
    for transition in sorted(definition.global_transitions, key=lambda transition: transition.priority):
        size = _tokens(definition.states[transition.target_state])
        if sum(found.values()) + size <= REGION_TOKENS:
            found.setdefault(transition.target_state, size)
    return tuple(found)


def _tokens(state: State) -> int:
    texts = (
        *(state.description, state.purpose, state.instructions),
        *(state.extraction_instructions, state.response_instructions),
    )
    return _LINE + sum(map(estimate, texts))


def _own(state: State) -> Iterator[str]:
    """Yield the keys that a state collects, and those that its conditions read."""
    yield from state.required_context_keys
    yield from demanded(state.transitions)


def _nearby(definition: Definition, states: Sequence[str], known: frozenset[str]) -> Iterator[str]:
    """Return the keys of some states, of their global transitions, and of what lies directly behind them.

    What follows them comes as far as there is room. First come lists and objects that a fixed reply reads out. What is
    read out is what is corrected there, and what the schema lacks can be written as text alone. Then comes what is
    collected behind global transitions, which a message that opens one may tell.
    """
    found: dict[str, None] = {}
    targets: dict[str, None] = {}
    for state_id in states:
        state = definition.states[state_id]
        found |= dict.fromkeys(_own(state))
        targets |= dict.fromkeys(transition.target_state for transition in state.transitions)
    found |= dict.fromkeys(demanded(definition.global_transitions))
    for target in targets:
        found |= dict.fromkeys(definition.states[target].required_context_keys)
    whole = dict.fromkeys(name if name in known else name.partition(".")[0] for name in found)
    offered = (definition.states[transition.target_state] for transition in definition.global_transitions)
    beyond = (name.partition(".")[0] for state in offered for name in state.required_context_keys)
    for name in (*_read_out(definition, states), *beyond):
        if len(whole) < MOST_KEYS:
            whole.setdefault(name)
    return (name for name in whole if name in known)


def _read_out(definition: Definition, states: Iterable[str]) -> Iterator[str]:
    """Yield the lists and objects that fixed replies of some states read out; one too many does no harm."""
    schemas = definition.key_schemas
    for state_id in states:
        for expression in _EXPRESSION.findall(definition.states[state_id].reply or ""):
            for name in _NAME.findall(expression):
                if schemas.get(name, {}).get("type") in ("array", "object"):
                    yield name


def demanded(transitions: Iterable[Transition]) -> Iterator[str]:
    """Yield the keys that conditions read."""
    for transition in transitions:
        for condition in transition.conditions:
            yield from condition.requires_context_keys
            if condition.rule is not None:
                yield from sorted(condition.rule.reads)


def _named(definition: Definition, states: Iterable[str]) -> Iterator[str]:
    """Return every state that a reply in some of the states may name, in the definition's order."""
    everywhere = {transition.target_state for transition in definition.global_transitions}
    named: set[str] = set()
    for state_id in states:
        state = definition.states[state_id]
        if definition.kind_of(state_id) == "converse":
            named |= {state_id, *everywhere, *(transition.target_state for transition in state.transitions)}
    return (state_id for state_id in definition.states if state_id in named)
