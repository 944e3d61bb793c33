"""The worth of a task's output: its value, the checks of its key results, and what a judge said.

A judge's reply counts only where it is clear: whatever is not a plain pass for a named key result fails.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from llm_fsm._text import cut
from llm_fsm.conditions.coercion import mended
from llm_fsm.conditions.compiler import test
from llm_fsm.errors import ReplyError
from llm_fsm.session.values import ValueFault, to_json_value
from llm_fsm.turn.compiled import Check
from llm_fsm.turn.reply.parser import document

MAX_OUTPUT_CHARS = 1_000_000
"""Characters of a model's answer that can be an output."""

MAX_JUDGED_CHARS = 200_000
"""Characters of an output, as JSON, that a judge is shown; what it cannot see whole fails."""

_REASON_CHARS = 2000

Verdict = tuple[bool, str]


def output_of(text: str) -> Any:
    """Return the output that a model's answer is: the JSON value that it is as a whole, else the text."""
    stripped = text.strip()
    try:
        return to_json_value(_decode(stripped))
    except (ValueError, ValueFault, RecursionError):
        return mended(stripped)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON number")


_decode = json.JSONDecoder(parse_constant=_refuse).decode


def by_logic(check: Check, data: Mapping[str, Any]) -> Verdict:
    """Check a key result by its rule over {output, context, input}."""
    if check.rule is None:
        return False, "it has no rule"
    found = test(check.rule, data)
    if found.holds:
        return True, ""
    if found.error is not None:
        return False, f"it could not be checked: {found.error}"
    return False, check.description or f"this must hold: {json.dumps(check.logic, ensure_ascii=False)}"


def judged(checks: Sequence[Check], text: str) -> dict[str, Verdict]:
    """Return a judge's verdicts by name, those that it gave clearly. Raises ReplyError for nonsense."""
    found = document(text)
    verdicts = found.get("verdicts", _named_verdicts(checks, found))
    if not isinstance(verdicts, list):
        raise ReplyError(
            "no-verdicts", 'the reply lacks "verdicts": [{"name": "…", "passed": …, "reason": "…"}]'
        )
    said: dict[str, Verdict] = {}
    for item in verdicts:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            continue
        name, reason = item["name"], item.get("reason")
        passed = item.get("passed") is True and said.get(name, (True, ""))[0]
        said[name] = (passed, cut(reason, _REASON_CHARS) if isinstance(reason, str) else "")
    known = {check.name: said[check.name] for check in checks if check.name in said}
    if not known:
        raise ReplyError("no-verdicts", "the reply holds no verdict on any of the criteria")
    return known


def _named_verdicts(checks: Sequence[Check], found: Mapping[str, Any]) -> list[Any] | None:
    """Return verdicts that were given as {name: true or false}; whatever is not plainly true has not passed."""
    named = [check.name for check in checks if check.name in found]
    return [{"name": name, "passed": found[name]} for name in named] or None
