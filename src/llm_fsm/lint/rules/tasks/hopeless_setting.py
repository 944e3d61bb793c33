"""Limits that leave no room."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.conditions.coercion import is_number
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.facts.prompt_budget import shared_tokens
from llm_fsm.lint.rule import lint_rule

_REPLY_TOKENS = 50
"""The tokens that a reply of a few words takes at least."""
_HOTTEST = 2


@lint_rule("T517", "warning", needs_form=True)
def hopeless_setting(document: Document) -> Iterator[Finding]:
    """A limit or a setting of the model leaves no room for what the machine is to do.

    Why it is bad:
    Every conversation runs into it: no call is allowed, a reply cannot end, or the model sees nothing of what was
    said.

    Example:
        "limits": {"llm_calls": 0}, "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "bye"}]},
                                               "bye": {"purpose": "Say goodbye"}}

    Fix:
    Write a number that leaves room, or take the key out.
    """
    yield from _limits(document)
    for owner in (document.root, *document.states.values()):
        yield from _model(owner)
    history = document.root.value.get("history")
    if isinstance(history, dict):
        placed = Placed("/history", history)
        yield from _below(placed, "max_exchanges", 1, "the model sees nothing of what was said before")
        yield from _below(placed, "max_message_chars", 20, "the model sees hardly a word of each message")
        yield from _below(placed, "max_tokens", 50, "the model sees hardly anything of what was said before")


def _limits(document: Document) -> Iterator[Finding]:
    written = document.root.value.get("limits")
    if not isinstance(written, dict):
        return
    limits = Placed("/limits", written)
    kinds = {name: document.kind_of(name) for name in document.states}
    speaking = next((name for name, kind in kinds.items() if kind == "converse"), None)
    if speaking is not None:
        yield from _below(limits, "llm_calls", 1, f'no message can be answered, the first in state "{speaking}"')
        needed = shared_tokens(document)
        yield from _below(limits, "tokens", needed, f"a single prompt takes about {needed:,} tokens")
    if any(state.value.get("tools") for state in document.states.values()):
        yield from _below(limits, "tool_calls", 1, "no tool can be called, although states list tools")
    if speaking is not None or "task" in kinds.values():
        yield from _below(limits, "seconds", 1, "hardly a model answers in that time")


def _model(owner: Placed) -> Iterator[Finding]:
    written = owner.value.get("model")
    if not isinstance(written, dict):
        return
    settings = Placed(owner.pointer + "/model", written)
    heat = written.get("temperature")
    if is_number(heat) and heat > _HOTTEST:
        yield hopeless_setting.finding(
            f'"temperature" {heat:g}: providers take at most 2',
            pointer=settings.pointer + "/temperature",
            hint="from 0, the same words each time, to 1 is usual",
        )
    yield from _below(settings, "max_tokens", _REPLY_TOKENS, "a reply is cut off before it ends")


def _below(placed: Placed, key: str, least: float, why: str) -> Iterator[Finding]:
    value = placed.value.get(key)
    if is_number(value) and value < least:
        yield hopeless_setting.finding(f'"{key}" {value:g}: {why}', pointer=f"{placed.pointer}/{key}")
