"""The reading back of values: whether a text shows them, and the machine's own list of them.

A text shows a value if its words or its number stand whole in it, as the reply renders them. What a
text does not show, the machine lists itself, from titles and values.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from llm_fsm._json import JsonDict, JsonMap
from llm_fsm.conditions.coercion import look_up
from llm_fsm.definition.names import label
from llm_fsm.languages import ends_in_question, language_of, number_marks, truth_word
from llm_fsm.session.context import has
from llm_fsm.session.redaction import DOTS, is_foreign_name, redacted
from llm_fsm.session.session import Session
from llm_fsm.session.values import part_schema
from llm_fsm.turn.compiled import CompiledMachine, CompiledState

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\d_\u3040-\u30ff\u3400-\u9fff]+|\d+|•+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_CENT = 0.005


def whole_text(machine: CompiledMachine, state: CompiledState, shown: JsonMap, text: str) -> str:
    """Return the text of a state that confirms, with a list of the values that it does not show."""
    # What has no value cannot be read back; `blanks` asks for it.
    confirms = [key for key in state.definition.confirms if look_up(shown, key) is not None]
    unseen = [key for key in confirms if not shows(machine, state, shown, key, text)]
    if not unseen:
        return text
    asked = text or _question(machine, state.definition.purpose)
    return f"{_listed(machine, shown, unseen)}\n\n{asked}".strip()


def shown_values(machine: CompiledMachine, state: CompiledState, session: Session) -> JsonDict:
    """Return the values of a conversation, and the system names, as a fixed reply shows them."""
    secrets = (*session.secrets, *machine.keys.secret_values(session.context))
    known = machine.keys.visible(session.context)
    masked = [
        key
        for key in state.definition.confirms
        if machine.keys.is_secret(key) and has(session.context, key)
    ]
    # Dots show that there is a value, which is all that a user can agree to here.
    known |= dict.fromkeys(masked, DOTS)
    visible: JsonDict = redacted(secrets, known, foreign=is_foreign_name)
    shown = machine.in_words(visible, session.timezone)
    names: JsonDict = redacted(secrets, session.system_names())
    # The names last: no key may hide `_turn` or `_timestamp`.
    return shown | names


def shows(
    machine: CompiledMachine, state: CompiledState, shown: JsonMap, key: str, text: str
) -> bool:
    """Return true if each part of the value of a key stands in a text, as a reply renders it.

    A reply that names the key may say a yes or no in words of its own.
    """
    is_named = state.fixed is not None and key.partition(".")[0] in state.fixed.source
    return all(
        (isinstance(leaf, bool) and is_named)
        or _has_number(machine, leaf, text)
        or _phrase(_word(machine, leaf)) in _phrase(text)
        for leaf in _leaves(look_up(shown, key))
    )


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the texts, numbers and truth values in a value."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif value is not None:
        yield value


def words_in(text: str) -> list[tuple[str, int]]:
    """Return the words and the runs of digits of a text without case, each with its end."""
    found: list[tuple[str, int]] = []
    for match in _WORD.finditer(text):
        found.append((unicodedata.normalize("NFKC", match.group()).casefold(), match.end()))
    return found


def _phrase(text: str) -> str:
    return f" {' '.join(word for word, _ in words_in(text))} "


def _has_number(machine: CompiledMachine, value: Any, text: str) -> bool:
    """Return true if a text has a number, to its second decimal place."""
    # The digits of a number that shows as words of a label may mean another thing.
    if isinstance(value, bool | str) or getattr(value, "is_label", False):
        return False
    decimal, thousands = number_marks(machine.definition.language)
    # 1,000.00 is 1000 in English.
    written = _NUMBER.findall(text.replace(thousands, "").replace(decimal, "."))
    return any(abs(float(number) - abs(value)) < _CENT for number in written)


def _listed(machine: CompiledMachine, shown: JsonMap, keys: Iterable[str]) -> str:
    """Return the machine's own list of values: a line each, with the title of its key."""
    colon = language_of(machine.definition.language).colon
    lines: list[str] = []
    for key in keys:
        title = label(key, part_schema(machine.definition.key_schemas, key))
        value = look_up(shown, key)
        # A list in words has the word between its last two items.
        parts = [value] if hasattr(value, "words") else _leaves(value)
        words = ", ".join(_word(machine, part) for part in parts)
        lines.append(f"{title[:1].upper()}{title[1:]}{colon}{words}")
    return "\n".join(lines)


def _question(machine: CompiledMachine, purpose: str) -> str:
    """Return the question after a list: a purpose that asks, else that of the language."""
    return purpose if ends_in_question(purpose) else language_of(machine.definition.language).right


def _word(machine: CompiledMachine, leaf: Any) -> str:
    """Return a part of a value in words."""
    word = truth_word(machine.definition.language, leaf) if isinstance(leaf, bool) else ""
    return word or str(leaf)
