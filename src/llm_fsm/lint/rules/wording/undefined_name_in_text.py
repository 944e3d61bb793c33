"""Names in texts for the model that do not exist."""

from __future__ import annotations

import re

from llm_fsm.definition.names import root_of
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.suggestions import Slips, quoted
from llm_fsm.lint.facts.texts import known_names, near_names, texts
from llm_fsm.lint.rule import Fault, Faults, lint_rule

# Names in back-quotes or braces, and words with an underscore, which look like names.
_NAME = re.compile(
    r"`([A-Za-z][A-Za-z0-9_.-]{3,63})`"
    r"|\{\{\s*([A-Za-z][A-Za-z0-9_]{3,63})"
    r"|\b([A-Za-z][A-Za-z0-9]*_\w{2,63})\b"
)


_SETTING = re.compile(
    r"\b(?:set|store|save|extract|record|write|put)\s+"
    r"(?:(?:it|this|as|in|to|into|under|the|context|key|value)\s+){0,4}$",
    re.IGNORECASE,
)
"""Words directly before a name that tell the model to set it."""


@lint_rule("W404", "warning")
def unknown_name_in_words(document: Document) -> Faults:
    """A text for the model names a key, state or tool that does not exist, but a similar one does.

    Why it is bad:
    The model writes the value under the wrong name, and nothing reads it.

    Example:
        "states": {"hello": {"purpose": "Ask", "instructions": "Store the address as `emial_address`.",
                             "required_context_keys": ["email_address"], "transitions": [{"target_state": "bye"}]},
                   "bye": {"purpose": "Say goodbye"}}

    Fix:
    Correct the name.
    """
    known = known_names(document)
    names = near_names(document)
    for pointer, text in texts(document):
        if "_" not in text and "`" not in text and "{" not in text:
            continue
        for match in _NAME.finditer(text):
            name = next(group for group in match.groups() if group)
            if not known.keys().isdisjoint((name, root_of(name), _before_ending(name))):
                continue
            meant = names.meant(name)
            if meant is not None:
                yield Fault(
                    f"{quoted(name)} is no key, state or tool",
                    pointer=pointer,
                    hint=f"did you mean the {known[meant]} {quoted(meant)}?",
                )
            elif document.has_schema and match[1] and _SETTING.search(text[: match.start()][-60:]):
                yield Fault(
                    f"the text tells the model to set {quoted(name)}, which is no key;"
                    ' the value would land in "_extra"',
                    pointer=pointer,
                    hint='declare it in "context_schema"',
                )


def _before_ending(name: str) -> str:
    """Return a name without the ending that some languages, such as Korean, write directly after
    it.
    """
    return name[: next((place for place, letter in enumerate(name) if not letter.isascii()), None)]


# A name that is marked as one: in back-quotes, or with an underscore.
_MARKED = r"(?:`([A-Za-z_][\w-]{1,63})`|\b([A-Za-z]+_\w+))"
_STATE = re.compile(rf"\bstate\s+{_MARKED}|{_MARKED}\s+state\b")
_TOOL = re.compile(
    rf"\b(?:tool|function)\s+{_MARKED}|{_MARKED}\s+(?:tool|function)\b"
    rf"|(?<![\w.`])`?([a-z]+(?:_[a-z0-9]+)+)\(\)"
)


@lint_rule("W414", "warning")
def unknown_place_in_words(document: Document) -> Faults:
    """A text names a state or a tool that does not exist, in back-quotes or with an underscore.

    Why it is bad:
    The model tries a move that is refused, or a call that it cannot make, and says that it did.

    Example:
        "states": {"hello": {"purpose": "Greet", "instructions": "When the user is ready, go to state `checkout`.",
                             "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Name a state or a tool of this file, or write it without a name.
    """
    # `unknown-name-in-words` reports similar names.
    known = {name.casefold() for name in known_names(document)}
    for state in document.states.values():
        function = state.get("execute")
        if function:
            known.add(str(function).casefold())
    for tool in document.root.members("tools"):
        for key in ("registered", "tool"):
            bound = tool.get(key)
            if isinstance(bound, str):
                known.add(bound.casefold())
    near = Slips(known)
    spoken = {name.replace("_", " ").replace("-", " ").casefold() for name in document.states}
    tools = document.root.get("tools") or ()
    for pointer, text in texts(document):
        for pattern, what, there in ((_STATE, "state", document.states), (_TOOL, "tool", tools)):
            for match in pattern.finditer(text):
                name = next(group for group in match.groups() if group)
                plain = name.casefold()
                if plain in known or plain.replace("_", " ").replace("-", " ") in spoken:
                    continue
                if _nearly_known(document, name) or near.meant(plain):
                    continue
                hint = document.speller.hint(name, there, f"{what}s")
                yield Fault(f"there is no {what} {quoted(name)}", pointer=pointer, hint=hint)
                break


def _nearly_known(document: Document, name: str) -> bool:
    """Return true for a name in small letters that is a typo of a known one."""
    meant = None
    if name == name.casefold():
        meant = near_names(document).meant(name)
    return meant is not None and meant == meant.casefold()
