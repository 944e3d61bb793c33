"""Secrets in places where they can be read."""

from __future__ import annotations

import re
from collections.abc import Iterator

from llm_fsm.definition.reply_names import placeholders
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.data_flow import DataFlow, data_flow
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.facts.texts import as_written, every_text, texts
from llm_fsm.lint.rule import Fault, Faults, lint_rule

Text = tuple[str, str]
"""Pointer and text."""


@lint_rule("K311", "warning")
def secret_in_prompt(document: Document) -> Faults:
    """A text of the prompt names a secret key as a placeholder.

    Why it is bad:
    `x-secret` keeps a value out of prompts. The placeholder is never filled, and the model should use a value that it
    cannot see.

    Example:
        "context_schema": {"type": "object", "properties": {"pin": {"type": "string", "x-secret": true}}},
        "states": {"hello": {"purpose": "Compare what the user says with {{pin}}", "transitions": [
            {"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Say it without the secret, and let the program or a condition compare the value.
    """
    flow = data_flow(document)
    if not any(flow.is_secret(key) for key in document.keys):
        return
    for pointer, text in _texts(document):
        for name in dict.fromkeys(placeholders(text)):
            if flow.is_secret(name):
                yield Fault(
                    "this text goes into the prompt, where the value of the secret"
                    f" {quoted(name)} is never shown",
                    pointer=pointer,
                    hint="say it without the secret",
                )
    yield from _scopes(flow)


def _scopes(flow: DataFlow) -> Faults:
    for state in flow.document.states.values():
        for pointer, name in state.at("context_scope").texts("read"):
            if flow.is_secret(name):
                message = f"{quoted(name)} is secret: a scope cannot show it to the model"
                yield Fault(message, pointer=pointer, hint="take it out")


def _texts(document: Document) -> Iterator[Text]:
    """Yield every text that a prompt is made of."""
    yield from texts(document)
    for state in document.states.values():
        for message in state.items("example_dialogue"):
            for speaker in message.value:
                yield f"{message.pointer}/{speaker}", message.text(speaker)
        for result in state.items("key_results"):
            yield result.pointer + "/description", result.text("description")
            judge = result.get("check")
            if isinstance(judge, dict) and isinstance(judge.get("judge"), str):
                yield result.pointer + "/check/judge", judge["judge"]


@lint_rule("K312", "error", blocks=False)
def secret_in_reply(document: Document) -> Faults:
    """A fixed reply shows a secret key.

    Why it is bad:
    `x-secret` keeps a value out of fixed replies, so the text has a hole in its place. Otherwise the secret would
    appear in histories, logs and traces.

    Example:
        "context_schema": {"type": "object", "properties": {"pin": {"type": "string", "x-secret": true}}},
        "states": {"hello": {"purpose": "Ask for the PIN", "required_context_keys": ["pin"], "transitions": [
                {"target_state": "bye", "conditions": [{"requires_context_keys": ["pin"]}]}]},
            "bye": {"kind": "final", "purpose": "Confirm", "reply": "Your PIN is {{ pin }}."}}

    Fix:
    Take the key out of the reply, or take `x-secret` from the key if it is none.
    """
    flow = data_flow(document)
    if not any(flow.is_secret(key) for key in document.keys):
        return
    for state, mentioned in flow.replies.items():
        shown = {
            mention.name: mention.shown
            for mention in sorted(mentioned, key=lambda found: found.shown)
        }
        for name, is_shown in shown.items():
            if flow.is_secret(name):
                verb = "shows" if is_shown else "tests"
                yield Fault(
                    f"the fixed reply of state {quoted(state)} {verb} the secret {quoted(name)}",
                    pointer=document.states[state].pointer + "/reply",
                    hint="secrets are never set in replies: take it out",
                    level=None if is_shown else "warning",
                )


_SECRET = re.compile(
    r"\b(?:sk-(?:proj-|ant-|live-)?[A-Za-z0-9_-]{16,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"
    r"|gh[pousr]_[A-Za-z0-9]{30,}"
    r"|github_pat_\w{22,}|glpat-[\w-]{20,}|AKIA[0-9A-Z]{16}|ASIA[0-9A-Z]{16}"
    r"|AIza[\w-]{35}|xox[abprs]-[\w-]{10,}"
    r"|hf_[A-Za-z0-9]{30,}|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,})"
    r"|\b[Bb]earer\s+(?=[\w.~+/-]*\d)[\w.~+/-]{24,}|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|\b[a-z][a-z0-9+.-]{2,12}://[^\s/:@]{1,64}:[^\s/:@{}$<]{4,64}@[\w.-]+"
)
_SIGNS = (
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "AKIA",
    "ASIA",
    "AIza",
    "xox",
    "hf_",
    "eyJ",
    "earer ",
    "PRIVATE KEY",
    "://",
)
"""Every known form of a secret contains one of these."""
_SHOWN = 8


@lint_rule("W412", "warning")
def secret_literal(document: Document) -> Faults:
    """The file contains a key or token of a service.

    Why it is bad:
    Definitions are shown to models, shared and kept under version control. A definition never holds a secret.

    Example:
        "states": {"hello": {"purpose": "Greet", "instructions": "Call the API with AKIAIOSFODNN7EXAMPLE.",
                             "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Revoke it and remove it. Keys of models belong in the environment, those of tools in the program.
    """
    if not any(sign in as_written(document) for sign in _SIGNS):
        return
    for pointer, text, is_key in every_text(document):
        found = None if is_key else _SECRET.search(text)
        if found is not None and not _made_up(found[0]):
            yield Fault(
                f'"{found[0][:_SHOWN]}…" looks like a key or password of some service',
                pointer=pointer,
                hint="revoke it, and keep secrets out of definitions",
            )


def _made_up(text: str) -> bool:
    """Return true for a placeholder of a key: `sk-xxxxxxxxxxxxxxxxxxxx`."""
    tail = re.sub(r"^[A-Za-z]+[-_ ]", "", text)
    return len(set(tail.casefold())) < 6 or "your" in text.casefold()
