"""Fixed words have a placeholder in another notation than `{{ name }}`.

Why it is bad:
Nothing fills it in: users read `{name}` or `$name` as it stands.

Example:
    "states": {"hello": {"purpose": "Ask for the name", "required_context_keys": ["name"], "transitions": [
            {"target_state": "bye", "conditions": [{"requires_context_keys": ["name"]}]}]},
        "bye": {"kind": "final", "purpose": "Say goodbye", "reply": "Goodbye {name}!"}}

Fix:
Write `{{ name }}` in a fixed reply. `on_failure` is said as it stands, without names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import SYSTEM_NAMES, Subject
from llm_fsm.lint.facts.data_flow import flow
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.facts.texts import failure_words
from llm_fsm.lint.rule import Rule

_TAGS = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_NAME = r"([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_]\w*)*)"
_SURE = re.compile(rf"\$\{{\s*{_NAME}\s*\}}|%\({_NAME}\)[sd]|#\{{{_NAME}\}}|<%=\s*{_NAME}\s*%>")
_KNOWN = re.compile(
    rf"(?<![{{$#])\{{\s*{_NAME}(?:![rs]|:[^{{}}]{{0,12}})?\s*\}}|(?<!\w)\$({_NAME[1:-1]})|<{_NAME}>|\[{_NAME}\]|(?<!\w)%{_NAME}%"
)


def check(subject: Subject) -> Iterator[Finding]:
    """Look for other notations in replies, sure ones and those around the name of a key; one finding a text."""
    names = _names(subject)
    for state in subject.states.values():
        text = _TAGS.sub("", state.text("reply"))
        found = _SURE.search(text) or _around_key(text, names)
        if found is not None:
            name = next(group for group in found.groups() if group)
            yield RULE.finding(
                f"{quoted(found[0])} is not filled in: users read it as it stands",
                pointer=state.pointer + "/reply",
                hint=f'write "{{{{ {name} }}}}"',
            )
    for pointer, text in failure_words(subject):
        found = _TAGS.search(text) or _SURE.search(text) or _around_key(text, names)
        if found is not None:
            yield RULE.finding(
                f"{quoted(found[0])} is not filled in: these words are said as they stand",
                pointer=pointer,
                hint="write a sentence that is right for everybody",
            )


def _names(subject: Subject) -> set[str]:
    ways = flow(subject)
    return {*(subject.keys or ()), *ways.collected, *ways.outputs, *SYSTEM_NAMES}


def _around_key(text: str, names: set[str]) -> re.Match[str] | None:
    """A placeholder around a key; in single braces also around what cannot be anything but a name."""
    for found in _KNOWN.finditer(text):
        name = next(group for group in found.groups() if group)
        if f"</{name}>" in text:
            continue
        if name.split(".", 1)[0] in names or (found[0].startswith("{") and ("_" in name or "." in name)):
            return found
    return None


RULE = Rule(name="unfilled-placeholder", code="W410", level="warning", check=check)
