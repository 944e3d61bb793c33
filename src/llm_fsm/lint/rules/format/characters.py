"""Ids that look alike, and invisible characters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from unicodedata import normalize

from llm_fsm._json import step
from llm_fsm.lint.document import Document, texts_of_states
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.facts.texts import as_written, every_text
from llm_fsm.lint.logics import conditions_of
from llm_fsm.lint.rule import Fault, Faults, lint_rule

# Cyrillic and Greek letters beside the Latin ones that they look like (Unicode TR39, confusables).
_LOOK_ALIKE = str.maketrans("авеӏіјкмнорсԁѕтухһԛԝαινορτυχγκ", "abeiijkmhopcdstyxhqwaivoptuxyk")
_PARTING = str.maketrans("", "", "_-. ")


def seen_as(name: str) -> str:
    """Return a name as it looks, without case, separators and differences between alphabets."""
    plain = name if name.isascii() else normalize("NFKC", name)
    folded = plain.casefold()
    return (folded if folded.isascii() else folded.translate(_LOOK_ALIKE)).translate(_PARTING)


def _groups(document: Document) -> Iterator[tuple[str, Iterable[tuple[str, str]]]]:
    """Yield the kind of each group, with its names and pointers."""
    yield "state", [(name, state.pointer) for name, state in document.states.items()]
    yield "tool", [(name, "/tools" + step(name)) for name in document.root.at("tools").value]
    yield "context key", _keys(document)


def _keys(document: Document) -> list[tuple[str, str]]:
    """Return declared keys, then those that states collect and transitions require, each with its
    first place.
    """
    places = {key: "/context_schema/properties" + step(key) for key in document.keys}
    for _, pointer, key in texts_of_states(document, "required_context_keys"):
        places.setdefault(key, pointer)
    for condition in conditions_of(document):
        for pointer, key in condition.texts("requires_context_keys"):
            places.setdefault(key, pointer)
    return list(places.items())


@lint_rule("S112", "warning", at_key=True)
def confusable_ids(document: Document) -> Faults:
    """Two names differ only by case, by `_` or `-`, or by letters of other alphabets that look alike.

    Why it is bad:
    People and models confuse them, and readers of the file do not see the difference. A value is stored under one key
    and read under the other.

    Example:
        "states": {"confirm_order": {"purpose": "Ask", "transitions": [{"target_state": "ConfirmOrder"}]},
                   "ConfirmOrder": {"purpose": "Order"}}

    Fix:
    Use one spelling. If they are different things, use different words.
    """
    for what, names in _groups(document):
        first: dict[str, str] = {}
        for name, pointer in names:
            look = seen_as(name)
            other = first.setdefault(look, name)
            if other != name and look:
                yield Fault(
                    f"{what} {quoted(name)} looks like {what} {quoted(other)}",
                    pointer=pointer,
                    hint="use one spelling, or different words",
                )
            elif not name.isascii() and what == "tool":
                yield Fault(
                    f"{what} {quoted(name)} has letters that are not ASCII: {name!a}",
                    pointer=pointer,
                    hint="models and providers take ASCII names only",
                )


# Joiners (200c, 200d) and direction marks (200e, 200f) belong to the writing of many languages and
# to emoji.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
    "\u200b\u2060\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)
_MAY_HIDE = re.compile(r"\\[ubf]|\x7f")
"""Escapes in JSON of all characters but the printable ones of ASCII, tabs and line breaks."""
_FROM_RIGHT = re.compile("[\u0590-\u08ff\ufb1d-\ufefc]")
_TURNS = re.compile("[\u202a-\u202c\u2066-\u2069]")
"""Marks that texts of right-to-left scripts need around words of other scripts."""
_FLAG = re.compile("\U0001f3f4[\U000e0020-\U000e007f]+")


@lint_rule("S125", "warning")
def hidden_characters(document: Document) -> Faults:
    """A text has invisible characters: control characters, direction marks, or blanks without width.

    Why it is bad:
    Readers do not see the text that the model and the conditions read. Two values look equal and are not, and a line
    may be shown in another order than it has.

    Example:
        "states": {"hello": {"purpose": "Ask for the tier", "required_context_keys": ["tier"], "transitions": [
            {"target_state": "bye", "conditions": [{"logic": {"==": [{"var": "tier"}, "gold\\u200b"]}}]}]},
            "bye": {"purpose": "Say goodbye"}}

    Fix:
    Remove them. The message names them.
    """
    # One finding for each text.
    if not _MAY_HIDE.search(as_written(document)):
        return
    for pointer, text, is_key in every_text(document):
        if text.isascii() and text.isprintable():
            continue
        plain = text
        if _FROM_RIGHT.search(text):
            plain = _TURNS.sub("", text)
        found = _HIDDEN.search(_FLAG.sub("", plain))
        if found is not None:
            what = "this name" if is_key else "this text"
            message = f"{what} has the hidden character U+{ord(found[0]):04X}"
            yield Fault(message, pointer=pointer, hint="take it out")
