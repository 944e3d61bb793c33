"""Choose which states and keys the system message and the schema of a state's prompts include.

What a provider has cached of one turn should serve the next, in whatever state that is. A small
machine therefore has one schema, and one system message with the texts of all states and all keys.
A larger one is divided into regions: blocks of states in the order of the file. A turn then costs
as much among a thousand states as among ten. All states of a region share a system message and a
schema, except those with their own `reasoning`. What transitions name outside of the region is in
the entries of those transitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from operator import attrgetter

from llm_fsm._text import estimate
from llm_fsm.definition.models import Definition, State, Transition
from llm_fsm.turn.prompt.state_summary import WORKS, instructions_of, shared

MOST_KEYS = 24
"""Keys that every system message and schema of a machine lists, if it has no more."""
MOST_STATES = 24
"""States of a machine with one schema."""
_BLOCK_STATES = 12
"""Most states of a region in a machine that has more than `MOST_STATES`.

A provider's cache serves a conversation until it enters the next region, so a region of a few
states costs more than it saves.
"""
_BLOCK_TOKENS = 1500
"""Tokens of the texts of a region, about. Five long states fit, so that a region serves several
turns.
"""
REGION_TOKENS = 800
"""Tokens of the texts, about, that global transitions add to every region."""
_LINE = 4
"""Tokens of a state's line beside its texts."""
_EXPRESSION = re.compile(r"\{[{%].*?[%}]\}", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """States that have one system message.

    `shown`: the states whose texts it has; targets of global transitions are among them. `keys`:
    those that it lists. `named`: the states that the schema of a reply lets it name. `name`: the
    schema's own name, or "" if the schema serves all states of the machine.
    """

    states: tuple[str, ...]
    shown: tuple[str, ...]
    keys: tuple[str, ...]
    named: tuple[str, ...]
    name: str


def regions(definition: Definition, keys: Sequence[str], *, whole: bool) -> tuple[Region, ...]:
    """Return the regions of a machine.

    Args:
        definition: The definition.
        keys: All keys that a reply may write.
        whole: True for one region, whatever the size of the machine.
    """
    few_keys = whole or len(keys) <= MOST_KEYS
    few_states = whole or len(definition.states) <= MOST_STATES
    offered = _offered(definition)
    blocks = [tuple(definition.states)] if whole else _blocks(definition)
    every_named = tuple(_named(definition, definition.states))
    all_regions: list[Region] = []
    for states in blocks:
        listed = tuple(keys) if few_keys else _nearby(definition, states, frozenset(keys))
        named = every_named if few_states else tuple(_named(definition, states))
        region = Region(
            states=states,
            shown=tuple(dict.fromkeys((*states, *offered))),
            keys=listed,
            named=named or states,
            name="" if few_keys and few_states else states[0],
        )
        all_regions.append(region)
    return tuple(all_regions)


def _blocks(definition: Definition) -> list[tuple[str, ...]]:
    """Divide the states into blocks in the order of the file, of about the same number of states.

    A block also ends before a state with which its texts would be too long.
    """
    count = len(definition.states)
    most = count
    if count > MOST_STATES:
        most = ceil(count / ceil(count / _BLOCK_STATES))
    repeated = _repeated(definition)
    blocks: list[tuple[str, ...]] = []
    block: list[str] = []
    size = 0
    for state_id, state in definition.states.items():
        tokens = _tokens(state) - repeated.get(state_id, 0)
        if block and (len(block) == most or size + tokens > _BLOCK_TOKENS):
            blocks.append(tuple(block))
            block, size = [], 0
        block.append(state_id)
        size += tokens
    blocks.append(tuple(block))
    return blocks


def _repeated(definition: Definition) -> dict[str, int]:
    """Count the tokens of instructions that an earlier state has, too. A region has them once."""
    instructions: dict[str, str] = {}
    for state_id, state in definition.states.items():
        if definition.kind_of(state_id) not in WORKS:
            instructions[state_id] = instructions_of(state)
    repeated: dict[str, int] = {}
    for text, states in shared(instructions).items():
        tokens = estimate(text)
        for state_id in states[1:]:
            repeated[state_id] = tokens
    return repeated


def _offered(definition: Definition) -> tuple[str, ...]:
    """Return the targets of global transitions whose texts together are not too long.

    The reply that names a digression answers it. So it has to know all that the state of the
    digression knows.
    """
    sizes: dict[str, int] = {}
    by_priority = attrgetter("priority")
    for transition in sorted(definition.global_transitions, key=by_priority):
        target = transition.target_state
        size = _tokens(definition.states[target])
        if sum(sizes.values()) + size <= REGION_TOKENS:
            sizes.setdefault(target, size)
    return tuple(sizes)


def _tokens(state: State) -> int:
    texts = (
        state.description,
        state.purpose,
        state.instructions,
        state.extraction_instructions,
        state.response_instructions,
    )
    return _LINE + sum(map(estimate, texts))


def _nearby(
    definition: Definition, states: Sequence[str], known: frozenset[str]
) -> tuple[str, ...]:
    """Return the keys of some states, of their global transitions, and of the states directly
    behind them.

    Further keys are added while there is room. First come lists and objects that a fixed reply
    shows, because users correct what they see, and a value that the schema lacks can only be
    written as text. Then come the keys that are collected behind global transitions, because a
    message that opens one may have them.
    """
    needed: dict[str, None] = {}
    for state_id in states:
        state = definition.states[state_id]
        needed |= dict.fromkeys(state.required_context_keys)
        needed |= dict.fromkeys(demanded(state.transitions))
    needed |= dict.fromkeys(demanded(definition.global_transitions))
    for state_id in states:
        for transition in definition.states[state_id].transitions:
            target = definition.states[transition.target_state]
            needed |= dict.fromkeys(target.required_context_keys)
    listed: dict[str, None] = {}
    for name in needed:
        listed.setdefault(name if name in known else _whole(name))
    for name in (*_shown_keys(definition, states), *_keys_behind_global(definition)):
        if len(listed) < MOST_KEYS:
            listed.setdefault(name)
    return tuple(name for name in listed if name in known)


def _whole(name: str) -> str:
    """Return the key of a dotted name: the schema lists an object whole."""
    return name.partition(".")[0]


def _keys_behind_global(definition: Definition) -> Iterator[str]:
    """Yield the keys that the targets of global transitions collect."""
    for transition in definition.global_transitions:
        for name in definition.states[transition.target_state].required_context_keys:
            yield _whole(name)


def _shown_keys(definition: Definition, states: Iterable[str]) -> Iterator[str]:
    """Yield the lists and objects that fixed replies of some states show. One too many does no
    harm.
    """
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


def _picked(transitions: Iterable[Transition]) -> Iterator[str]:
    """Yield the targets of transitions that the program does not take by itself."""
    for transition in transitions:
        if not transition.auto or transition.agrees:
            yield transition.target_state


def _named(definition: Definition, states: Iterable[str]) -> Iterator[str]:
    """Yield every state that a reply in some of the states may name, in the order of the file."""
    named: set[str] = set()
    for state_id in states:
        if definition.kind_of(state_id) == "converse":
            named.add(state_id)
            named.update(_picked(definition.states[state_id].transitions))
    if named:
        named.update(_picked(definition.global_transitions))
    return (state_id for state_id in definition.states if state_id in named)
