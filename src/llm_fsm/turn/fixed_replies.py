"""Words that come from the definition and not from a model: fixed replies and the sentence of last
resort.

`llm_fsm.definition.reply_template` has the language of fixed replies.
"""

from __future__ import annotations

import re

from llm_fsm._json import Schemas
from llm_fsm.definition.names import is_foreign, label
from llm_fsm.definition.reply_template import FixedReply, WordingError, compile_reply
from llm_fsm.languages import (
    QUESTION_MARKS,
    QUOTATION_MARKS,
    certain_sentence,
    ends_in_question,
    is_english,
    listed,
    own_sentence,
)

__all__ = [
    "FixedReply",
    "WordingError",
    "compile_reply",
    "ended",
    "is_ended",
    "own_question",
    "sentence",
]

ENDS = f".!…:;。！：।۔։።{QUESTION_MARKS}"
"""Marks that end a sentence, of any script."""
_EMOJI = re.compile(
    "(?:[\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b05-\u2b55\U0001f000-\U0001faff\U000e007f]"
    "\ufe0f?|\ufe0f\u20e3?)$"
)
"""Also a sign that U+FE0F makes one, a digit on its key, and the flag of a region with its tags."""
_STOPS = (
    (re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff][)\\]）」』】]*$"), "。"),
    (re.compile("[\u0900-\u09ff]$"), "।"),
    (re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]$"), ""),
)
"""The full stops of scripts with another one than Latin. Thai and its neighbours have none."""


def sentence(text: str) -> str:
    """Return a text with single blanks and, if it lacks an end, the full stop of its script."""
    # No-break blanks stay, as before a question mark in French.
    stripped = re.sub(r"[^\S\u00a0\u202f]+", " ", text).strip()
    return ended(stripped) if stripped else ""


def ended(text: str) -> str:
    """Return a text and, if it lacks an end, the full stop of its script."""
    if is_ended(text):
        return text
    for letters, stop in _STOPS:
        if letters.search(text):
            return text + stop
    return text + "."


def is_ended(text: str) -> bool:
    """Return True if a text ends as a sentence does, also within quotes.

    An emoji is such an end, too: nobody puts a stop after it.
    """
    last = text.rstrip(QUOTATION_MARKS)[-1:]
    return last in ENDS or _EMOJI.search(text) is not None


def own_question(purpose: str, wanted: Schemas, language: str = "") -> str:
    """Return a plain sentence for a state that has no fixed reply.

    It has the purpose and, unless that asks, the keys that are still needed. If the machine has no
    words in the language, the names of the keys ask, unless the purpose has them all. Names of keys
    in another script than the purpose do not ask.

    Args:
        purpose: The state's purpose.
        wanted: The keys that are still needed, each with its schema.
        language: The language of the definition.
    """
    parts = [sentence(purpose)] if purpose else []
    if not ends_in_question(purpose):
        names: list[str] = []
        for key, schema in wanted.items():
            if is_english(language) or "title" in schema or not is_foreign(key, purpose):
                names.append(label(key, schema))
        parts += _request(purpose, names, language)
    return " ".join(parts) or certain_sentence(language, "go_on")


def _request(purpose: str, names: list[str], language: str) -> list[str]:
    """Return the sentence that asks for these names, if it is needed."""
    if not names:
        return []
    needed = own_sentence(language, "needed", listed(names, language))
    if needed:
        return [needed]
    if all(name.casefold() in purpose.casefold() for name in names):
        return []
    return [f"{listed(names, language)}?"]
