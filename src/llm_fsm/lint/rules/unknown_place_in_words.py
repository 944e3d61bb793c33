"""Words send the model to a state, or tell it to use a tool, that does not exist.

Why it is bad:
The model tries a move that is refused, or a call that it cannot make, and says that it did.

Example:
    "states": {"hello": {"purpose": "Greet", "instructions": "When the user is ready, go to state `checkout`.",
                         "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

Fix:
Name a state or a tool of this file, or say it without a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from llm_fsm.findings import Finding
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.spelling import quoted, slip
from llm_fsm.lint.subject import Subject
from llm_fsm.lint.words import known_names, texts

_MOVING = r"(?:go|goes|going|move|moves|switch|transition|transitions|jump|proceed|advance|return|route|forward|change)"
_QUOTED = r"[`\"'“‘«]([A-Za-z_][\w-]{1,63})[`\"'”’»]"
_STATE = re.compile(
    rf"\b{_MOVING}\b[^.;\n`\"'“]{{0,24}}?\bto\s+(?:the\s+)?(?-i:state|step|node)\s+(?:{_QUOTED}|([A-Za-z_][\w-]{{1,63}})(?=\s*(?:[.,;:!)\n]|$|\b(?:when|if|once|as|after|and|or)\b)))"
    rf"|\b{_MOVING}\b[^.;\n`\"'“]{{0,24}}?\bto\s+(?:the\s+)?(?:{_QUOTED}|([A-Za-z]+_\w+))\s+state\b"
    rf"|\b{_MOVING}\b[^.;\n`\"'“]{{0,24}}?\bto\s+(?:`([A-Za-z_][\w-]{{1,63}})`|([A-Za-z]+_\w+)\b)",
    re.IGNORECASE,
)
_USING = r"(?:call|calls|use|uses|using|invoke|run|execute)"
_TOOL = re.compile(
    rf"\b{_USING}\s+(?:the\s+|your\s+)?(?:tool|function)\s+(?:{_QUOTED}|([A-Za-z]+_\w+)|([A-Za-z][\w-]{{2,63}})(?=\s*(?:[.,;:!)\n]|$|\b(?:to|for|with|when|if|first)\b)))"
    rf"|\b{_USING}\s+(?:the\s+|your\s+)?(?:{_QUOTED}|([A-Za-z]+_\w+))\s+(?:tool|function)\b"
    r"|(?<![\w.`])`?([a-z]+(?:_[a-z0-9]+)+)\(\)",
    re.IGNORECASE,
)
_NO_NAMES = frozenset(
    {
        *(
            "a",
            "an",
            "the",
            "that",
            "this",
            "it",
            "its",
            "above",
            "below",
            "again",
            "where",
            "which",
            "one",
            "two",
        ),
        *(
            "next",
            "previous",
            "first",
            "last",
            "final",
            "same",
            "other",
            "of",
            "is",
            "in",
            "on",
            "by",
            "to",
            "for",
        ),
        *(
            "calls",
            "calling",
            "names",
            "results",
            "output",
            "only",
            "once",
            "when",
            "if",
            "and",
            "or",
            "with",
        ),
        *(
            "list",
            "required",
            "available",
            "provided",
            "right",
            "changes",
            "machine",
            "level",
            "law",
            "court",
        ),
    }
)


def check(subject: Subject) -> Iterator[Finding]:
    """Look for names after words that announce one; what is nearly known is left to `unknown-name-in-words`."""
    known = {name.casefold() for name in known_names(subject)}
    known |= {
        str(value).casefold() for state in subject.states.values() if (value := state.value.get("execute"))
    }
    bound = [tool.value.get(key) for tool in subject.root.members("tools") for key in ("registered", "tool")]
    known |= {name.casefold() for name in bound if isinstance(name, str)}
    spoken = {name.replace("_", " ").replace("-", " ").casefold() for name in subject.states}
    tools = subject.root.value.get("tools")
    for pointer, text in texts(subject):
        for pattern, what, there in (
            (_STATE, "state", list(subject.states)),
            (_TOOL, "tool", list(tools or ())),
        ):
            for found in pattern.finditer(text):
                name = next(group for group in found.groups() if group)
                plain = name.casefold()
                if (
                    plain in known
                    or plain in _NO_NAMES
                    or plain.replace("_", " ").replace("-", " ") in spoken
                ):
                    continue
                if ("_" in name or f"`{name}`" in text) and any(slip(plain, one) for one in known):
                    continue
                yield RULE.finding(
                    f"there is no {what} {quoted(name)}",
                    pointer=pointer,
                    hint=subject.speller.hint(name, there, f"{what}s"),
                )
                break


RULE = Rule(name="unknown-place-in-words", code="W414", level="warning", check=check)
