"""Differences between two definitions, and their effect on running conversations.

| change | mark | conversations that it touches |
|---|---|---|
| state added; initial state changed | safe | |
| final state removed or renamed | safe: no conversation under way rests there | |
| other state removed | strands | those in the state: they cannot be opened any more |
| other state renamed (guessed, see below) | needs a map | those in the state |
| state becomes final, or loses its last transition | strands | those in the state |
| other change of a kind; `wait_for`, `answer_schema`, `flow` | needs a map | those in the state |
| final state becomes another kind | safe | |
| state confirms one more key | needs a map | those in the state |
| transition added; order of transitions of equal priority changed | safe | |
| transition removed, an end can still be reached from there | safe | |
| last transition to an end, or on, removed or closed for ever | strands | those in them |
| other condition removed or changed | safe | |
| condition asks for one more key, not written by the model | needs a map | those that lack it |
| condition asks for one more key, which no state asks for | needs a map | those that lack it |
| key no longer declared, but still collected or demanded | needs a map | those that lack the key |
| key added; title, description, `x-secret` changed; values widened; no keys left | safe | |
| key removed or renamed (guessed) | needs a map | those that have a value for it |
| key's schema narrowed or its type changed | needs a map | those whose value is refused now |
| key newly declared | needs a map | those whose value the schema refuses |
| secret key no longer declared | needs a map | those that have a value for it |
| key is no longer written by the model | needs a map | those that lack the key |
| `required`, `additionalProperties` of `context_schema` | safe: they bind no stored value | |
| words (purpose, instructions, replies, descriptions, examples, persona) | safe | |
| settings (history, model, limits, tools, priorities, `auto`, …) | safe | |

Guesses. A removed and an added state are one renamed state if they share six tenths of their
description (Jaccard 1901). That is the words of their texts, their keys, tools, targets and
sources; the best pairs come first. A removed and an added key are one renamed key if their schemas
differ in title and description at most. Their names must be similar (difflib, six tenths), or the
same states collect them.
"""

from __future__ import annotations

from dataclasses import replace

from llm_fsm.definition.models import Definition
from llm_fsm.documents.diff.change import Difference, Differences, member_changes
from llm_fsm.documents.diff.keys import key_changes
from llm_fsm.documents.diff.renames import renamed, renamed_keys, renamed_states
from llm_fsm.documents.diff.states import state_changes
from llm_fsm.documents.diff.transitions import transition_changes

__all__ = ["Difference", "diff"]

_TOP = frozenset({"states", "context_schema", "global_transitions", "initial_state"})
_SPOKEN = frozenset({"description", "persona"})


def diff(old: Definition, new: Definition) -> tuple[Difference, ...]:
    """Return all differences, the most severe first; none for definitions with the same content."""
    states = renamed_states(old, new)
    keys = renamed_keys(old, new, states)
    before = renamed(old, states, keys)
    back = {now: was for was, now in states.items()}
    found = [
        *_machine(before, new),
        *state_changes(old, before, new, states),
        *transition_changes(before, new, back),
        *key_changes(old, new, keys),
    ]
    rank = {"strands": 0, "needs-map": 1, "safe": 2}
    return tuple(sorted(found, key=lambda change: rank[change.impact]))


def _machine(old: Definition, new: Definition) -> Differences:
    if old.initial_state != new.initial_state:
        text = f'conversations begin in "{new.initial_state}" instead of "{old.initial_state}"'
        yield Difference(subject="machine", message=text, pointer="/initial_state")
    names = [name for name in Definition.model_fields if name not in _TOP]
    spoken = [name for name in names if name in _SPOKEN]
    yield from member_changes(old, new, spoken, "", "", subject="words")
    settings = [name for name in names if name not in _SPOKEN]
    for change in member_changes(old, new, settings, "", ""):
        if change.pointer != "/name":
            yield change
            continue
        reason = "conversations under the old name cannot be carried over"
        yield replace(change, reason=reason)
