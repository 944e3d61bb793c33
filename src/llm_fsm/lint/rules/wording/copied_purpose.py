"""Two states that talk have the same purpose; where other words tell them apart, it is a note.

Why it is bad:
The model does the same in both. Mostly one was copied and its words were left as they were.

Example:
    "states": {"name": {"purpose": "Ask the user for the name", "transitions": [{"target_state": "town"}]},
               "town": {"purpose": "Ask the user for the name", "transitions": [{"target_state": "bye"}]},
               "bye": {"purpose": "Say goodbye"}}

Fix:
Say what the second one is there for.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Placed, Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule

_OTHER = ("description", "instructions", "extraction_instructions", "response_instructions", "reply")


def check(subject: Subject) -> Iterator[Finding]:
    """Compare purposes without regard to case and blanks, then everything else that is said."""
    seen: dict[tuple[str, str], list[str]] = {}
    for name, state in subject.states.items():
        purpose = " ".join(state.text("purpose").casefold().split()).rstrip(".")
        kind = subject.kind_of(name)
        if len(purpose) < 12 or kind not in ("converse", "task"):
            continue
        first = next(iter(seen.get((kind, purpose), ())), None)
        if first is not None:
            other = subject.states[first]
            keys = [one.value.get("required_context_keys") for one in (other, state)]
            again = bool(keys[0]) and keys[0] == keys[1]
            yield RULE.finding(
                f"state {quoted(name)} has the same purpose as state {quoted(first)}",
                pointer=state.pointer + "/purpose",
                hint="say what it is there for",
                level=None if _same(other, state) and not again else "info",
            )
        seen.setdefault((kind, purpose), []).append(name)


def _same(one: Placed, other: Placed) -> bool:
    return all(one.text(key).strip() == other.text(key).strip() for key in _OTHER)


RULE = Rule(name="copied-purpose", code="W413", level="warning", check=check)
