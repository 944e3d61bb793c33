"""Fixed texts that fail to render, or that are empty."""

from __future__ import annotations

import json
import re

from llm_fsm._json import member, step
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.facts.reply_trials import reply_trials
from llm_fsm.lint.facts.suggestions import near_hint, quoted
from llm_fsm.lint.facts.texts import failure_words, replies
from llm_fsm.lint.rule import Fault, Faults, lint_rule


@lint_rule("S123", "error", blocks=False)
def reply_fails(document: Document) -> Faults:
    """Rendering a fixed reply fails, always or with some values of its keys.

    Why it is bad:
    A reply cannot add numbers to texts, or go through something that is no list. A sum needs a number in each item.
    A reply that fails is replaced by `on_failure` of the state's `model`, or by a standard apology.

    Example:
        "context_schema": {"type": "object", "properties": {"guests": {"type": "integer"}}},
        "states": {"hello": {"purpose": "Ask how many come", "required_context_keys": ["guests"], "transitions": [
                {"target_state": "bye", "conditions": [{"requires_context_keys": ["guests"]}]}]},
            "bye": {"kind": "final", "purpose": "Confirm", "reply": "{{ 'Guests: ' + guests }}"}}

    Fix:
    Rewrite the part that the message names: `Guests: {{ guests }}`. If a part of an object may be missing, require
    it in the schema, or test for it with `if`.
    """
    for state, trial in reply_trials(document).items():
        if trial.outcome == "empty":
            continue
        always = trial.outcome == "fails"
        when = "" if always else f" when {trial.values}"
        yield Fault(
            f"the fixed reply of state {quoted(state)} cannot be said{when}: {trial.why}",
            pointer=document.states[state].pointer + "/reply",
            level=None if always else "warning",
        )


@lint_rule("S124", "warning")
def empty_reply(document: Document) -> Faults:
    """A fixed reply is always empty, with any values of its keys.

    Why it is bad:
    The user reads nothing in this state, although the file seems to have a text.

    Example:
        "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "bye"}]},
                   "bye": {"kind": "final", "purpose": "Say goodbye", "reply": "{# say goodbye #}"}}

    Fix:
    Write the text, or remove the reply, so that the model speaks.
    """
    tried = reply_trials(document)
    for state, placed in document.states.items():
        text = placed.text("reply")
        blank = bool(text) and not text.strip()
        if blank or (state in tried and tried[state].outcome == "empty"):
            yield Fault(
                f"the fixed reply of state {quoted(state)} says nothing"
                + ("" if blank else " in any case"),
                pointer=placed.pointer + "/reply",
                hint="write the words, or take it out and the model speaks",
            )


_STATE_KEYS = ("execute", "route", "flow", "wait_for")
_TOOL_KEYS = ("registered", "mcp", "tool")


@lint_rule("S126", "warning")
def blank_text(document: Document) -> Faults:
    """A name or a text is blank.

    Why it is bad:
    A blank name cannot be used, and users see nothing in place of a blank text.

    Example:
        "name": " ", "states": {"hello": {"purpose": "Greet"}}

    Fix:
    Write it, or take the key out.
    """
    yield from _blank(document.root, "name", "a definition needs a name that says what it is")
    for owner in (document.root, *document.states.values()):
        yield from _blank(owner.at("model"), "name", "name a model, or leave the key out")
        yield from _blank(
            owner.at("model"), "on_failure", "write what users read when the model fails"
        )
    for quota in document.root.at("limits").members("per"):
        yield from _blank(quota, "on_limit", "write what users read at the limit")
    for state in document.states.values():
        for key in _STATE_KEYS:
            yield from _blank(state, key, "name it, or leave the key out")
        for result in state.items("key_results"):
            yield from _blank(result, "name", "name the key result")
    for tool in document.root.members("tools"):
        if not tool.name.strip():
            yield Fault(
                "a tool has a blank name", pointer="/tools" + step(tool.name), hint="name the tool"
            )
        for key in _TOOL_KEYS:
            yield from _blank(tool, key, "name it")


def _blank(placed: Placed, key: str, hint: str) -> Faults:
    value = placed.get(key)
    if isinstance(value, str) and not value.strip():
        yield Fault(f"{quoted(key)} is blank", pointer=placed.pointer + step(key), hint=hint)


_ROLES = ("user", "system")
_ANSWERERS = frozenset({"assistant", "bot", "agent"})


@lint_rule("W407", "warning", at_key=True)
def example_dialogue_roles(document: Document) -> Faults:
    """A message of an example dialogue has another role than `user` or `system`.

    Why it is bad:
    The conversation that the model reads has only `user` and `system`, so the role of this message is lost.

    Example:
        "states": {"hello": {"purpose": "Greet", "example_dialogue": [{"usre": "Hi"}, {"system": "Hello!"}]}}

    Fix:
    Write `{"user": "…"}` for the user's messages and `{"system": "…"}` for the answers.
    """
    for state in document.states.values():
        for message in state.items("example_dialogue"):
            for role in message.value:
                if role in _ROLES:
                    continue
                wrong = "system" if role in _ANSWERERS else role
                yield Fault(
                    f"{quoted(role)} takes no part in a dialogue",
                    pointer=message.pointer + step(role),
                    hint=near_hint(wrong, _ROLES) or 'the two are "user" and "system"',
                    level="info" if role in _ANSWERERS else "warning",
                )


_TAGS = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)


@lint_rule("W411", "warning")
def reply_is_data(document: Document) -> Faults:
    r"""A fixed reply is JSON instead of text.

    Why it is bad:
    The user sees a fixed reply unchanged. Only models reply in JSON.

    Example:
        "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "bye"}]},
                   "bye": {"kind": "final", "purpose": "Say goodbye", "reply": "{\"message\": \"Goodbye!\"}"}}

    Fix:
    Write only the text.
    """
    for pointer, text in (*replies(document), *failure_words(document)):
        plain = _TAGS.sub("0", text).strip()
        if plain[:1] in ("{", "[") and plain[-1:] in ("}", "]") and '"' in plain:
            try:
                value = json.loads(plain)
            except ValueError:
                continue
            words = member(value, "message")
            told = isinstance(words, str) and plain == text.strip()
            hint = f"write {quoted(str(words))}" if told else "write the words alone"
            yield Fault("users would read JSON here", pointer=pointer, hint=hint)
