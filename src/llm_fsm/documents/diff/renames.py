"""Guess renamed states and keys, and write the old definition in the new names."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator
from difflib import SequenceMatcher
from itertools import product
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, TextMap, value_at
from llm_fsm.definition.marks import places_in
from llm_fsm.definition.models import Condition, Definition, Transition
from llm_fsm.definition.names import declared_key, root_of
from llm_fsm.definition.naming import Naming
from llm_fsm.documents.patch import PatchError
from llm_fsm.documents.renaming import Renaming
from llm_fsm.documents.renaming import renamed as in_new_names

WORDS = (
    "description",
    "purpose",
    "instructions",
    "extraction_instructions",
    "response_instructions",
    "reply",
    "example_dialogue",
)
"""Keys of a state that hold texts."""
_NAMING = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs"})
"""Keywords of a schema that map names to schemas."""
_PLAIN = frozenset({"enum", "const", "required", "dependentRequired"})
"""Keywords of a schema that contain no schema."""
_ALIKE = 0.6
_MOST_PAIRS = 40_000
_NOTHING_SAID = frozenset(
    {
        "title",
        "description",
        "examples",
        "$comment",
        "default",
        "x-ask",
        "x-secret",
        "x-fast",
        "x-source",
        "x-from",
        "x-labels",
        "x-currency",
        "x-valid",
        "x-said",
    }
)


def renamed_states(old: Definition, new: Definition) -> dict[str, str]:
    """Return old state id to new one, for states that were probably renamed."""
    gone = [name for name in old.states if name not in new.states]
    come = [name for name in new.states if name not in old.states]
    if not gone or not come or len(gone) * len(come) > _MOST_PAIRS:
        return {}
    old_traits = {name: _traits(old, name) for name in gone}
    new_traits = {name: _traits(new, name) for name in come}
    scores = [
        (_overlap(old_traits[was], new_traits[now]), was, now) for was, now in product(gone, come)
    ]
    scores.sort(key=lambda score: -score[0])
    found: dict[str, str] = {}
    for score, was, now in scores:
        if score >= _ALIKE and was not in found and now not in found.values():
            found[was] = now
    return found


def renamed_keys(old: Definition, new: Definition, states: TextMap) -> dict[str, str]:
    """Return old context key to new one, for keys that were probably renamed."""
    was_used = collected(old)
    is_used = collected(new)
    gone = [key for key in was_used if key not in is_used]
    come = [key for key in is_used if key not in was_used]
    if len(gone) * len(come) > _MOST_PAIRS:
        return {}
    found: dict[str, str] = {}
    for was in gone:
        places = {states.get(name, name) for name in was_used[was]}
        for now in come:
            same = bare(old.key_schemas.get(was, {})) == bare(new.key_schemas.get(now, {}))
            close = SequenceMatcher(a=was, b=now, autojunk=False).ratio() >= _ALIKE
            if (
                same
                and now not in found.values()
                and (close or (places and places == is_used[now]))
            ):
                found[was] = now
                break
    return found


def _traits(definition: Definition, name: str) -> set[tuple[str, str]]:
    state = definition.states[name]
    texts = " ".join(str(getattr(state, key) or "") for key in WORDS if key != "example_dialogue")
    found = {("word", word.lower()) for word in re.findall(r"\w+", texts)}
    found |= {("key", key) for key in state.required_context_keys} | {
        ("tool", tool) for tool in state.tools
    }
    found |= {("to", transition.target_state) for transition in state.transitions}
    found |= {
        ("from", source)
        for source, other in definition.states.items()
        if any(transition.target_state == name for transition in other.transitions)
    }
    return found


def _overlap(one: set[tuple[str, str]], other: set[tuple[str, str]]) -> float:
    if one and other:
        return len(one & other) / len(one | other)
    return 0.0


def collected(definition: Definition) -> dict[str, set[str]]:
    """Return every key that is declared, collected or asked for, and the states that collect it."""
    known = definition.key_schemas
    found: dict[str, set[str]] = {key: set() for key in known}
    for name, state in definition.states.items():
        for key in state.required_context_keys:
            found.setdefault(head_of(key, known) if known else key, set()).add(name)
    for _, transition in _moves(definition):
        for key in asked(transition.conditions):
            found.setdefault(head_of(key, found), set())
    return found


def head_of(name: str, known: Container[str]) -> str:
    """Return the key that a name means: the name itself if it is known, else the part before its
    first dot.
    """
    return declared_key(name, known) or root_of(name)


def _moves(definition: Definition) -> Iterator[tuple[str | None, Transition]]:
    for name, state in definition.states.items():
        yield from ((name, transition) for transition in state.transitions)
    yield from ((None, transition) for transition in definition.global_transitions)


def asked(conditions: Iterable[Condition]) -> list[str]:
    """Return the keys that conditions require, or that their rules read, in the order of the file."""
    found: dict[str, None] = {}
    for condition in conditions:
        document = condition.model_dump()
        for place in places_in(Condition, document):
            name = value_at(document, place.pointer)
            if place.naming is Naming.KEY and name and not name.startswith("_"):
                found[name] = None
    return list(found)


def renamed(old: Definition, states: TextMap, keys: TextMap) -> Definition:
    """Return the old definition with the new names, so that a rename counts once."""
    if not states and not keys:
        return old
    renamings = [Renaming("state", name, to) for name, to in states.items()]
    renamings += [Renaming("key", name, to) for name, to in keys.items()]
    text = json.dumps(old.model_dump(mode="json", by_alias=True))
    try:
        return Definition.model_validate(json.loads(in_new_names(text, renamings)))
    except PatchError:  # it has the new key beside the old one
        return old


def bare(schema: JsonMap) -> JsonDict:
    """Return the part of a schema that restricts values, without their meaning or source."""
    return {word: _bare(word, value) for word, value in schema.items() if word not in _NOTHING_SAID}


def _bare(word: str, value: Any) -> Any:
    if word in _NAMING and isinstance(value, dict):
        return {name: _bare("", part) for name, part in value.items()}
    match value:
        case list() if word not in _PLAIN:
            return [_bare("", part) for part in value]
        case dict() if word not in _PLAIN:
            return bare(value)
    return value
