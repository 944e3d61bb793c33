"""Values that no words of a user can prove."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm._json import step
from llm_fsm.languages import language_of
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.facts.suggestions import as_json, quoted
from llm_fsm.lint.rule import Fault, Faults, lint_rule

_FEWEST = 3
"""Letters of a value that people say."""


@lint_rule("S130", "warning")
def unprovable_value(document: Document) -> Faults:
    """A key with `x-said` has a value that no words of the user can prove.

    Why it is bad:
    A choice is proved by its own word, by its label, or by a word of `choices`. Nobody says a code. True and false are
    proved by yes and no, in languages whose words are known, and never by digits. Each such value is refused, and asked
    for again.

    Example:
        "context_schema": {"type": "object", "properties": {"room": {"enum": ["dbl2", "sgl1"], "x-said": "quote"}}},
        "states": {"hello": {"purpose": "Which room?", "required_context_keys": ["room"],
                             "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Write `x-labels` with the words that users say for each value. Let true and false be proved by `"quote"`.
    """
    known = language_of(str(document.root.get("language") or ""))
    chosen = [choice.get("value") for choice in _choices(document)]
    for key, schema in document.keys.items():
        labels = schema.get("x-labels")
        values = schema.get("enum")
        hint = 'write "x-labels" with words for its values'
        is_truth = schema.get("type") == "boolean"
        if is_truth and schema.get("x-said") == "digits":
            values, hint = [True, False], 'write "x-said": "quote"'
        elif schema.get("x-said") != "quote" or labels:
            continue
        elif is_truth and not known.yes:
            values = [True, False]
        for value in values if isinstance(values, list) else ():
            is_code = isinstance(value, bool) or (isinstance(value, str) and _is_code(value))
            if is_code and value not in chosen:
                yield Fault(
                    f"no words of the user prove {as_json(value, 40)} of key {quoted(key)}",
                    pointer=f"/context_schema/properties{step(key)}/x-said",
                    hint=hint,
                )
                break


def _choices(document: Document) -> Iterator[Placed]:
    for state in document.states.values():
        yield from state.items("choices")


def _is_code(text: str) -> bool:
    """Return true for a text of few letters, or of letters and digits. Digits alone are said."""
    letters = sum(map(str.isalpha, text))
    is_mixed = letters > 0 and any(map(str.isdigit, text))
    return is_mixed or (letters < _FEWEST and not text.isdecimal())
