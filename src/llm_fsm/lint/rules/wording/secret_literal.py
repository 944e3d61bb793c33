"""Secrets of services that stand in the file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.texts import all_joined, every_text
from llm_fsm.lint.rule import lint_rule

_SECRET = re.compile(
    r"\b(?:sk-(?:proj-|ant-|live-)?[A-Za-z0-9_-]{16,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{30,}"
    r"|github_pat_\w{22,}|glpat-[\w-]{20,}|AKIA[0-9A-Z]{16}|ASIA[0-9A-Z]{16}|AIza[\w-]{35}|xox[abprs]-[\w-]{10,}"
    r"|hf_[A-Za-z0-9]{30,}|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,})"
    r"|\b[Bb]earer\s+(?=[\w.~+/-]*\d)[\w.~+/-]{24,}|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|\b[a-z][a-z0-9+.-]{2,12}://[^\s/:@]{1,64}:[^\s/:@{}$<]{4,64}@[\w.-]+"
)
_SIGNS = (
    *("sk-", "sk_live_", "sk_test_", "rk_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "AKIA"),
    *("ASIA", "AIza", "xox", "hf_", "eyJ", "earer ", "PRIVATE KEY", "://"),
)
"""One of these is in every secret that is known."""
_SHOWN = 8


@lint_rule("W412", "warning")
def secret_literal(document: Document) -> Iterator[Finding]:
    """A key or a token of some service stands in the file.

    Why it is bad:
    Definitions are shown to models, shared and kept under version control. A definition never holds a secret.

    Example:
        "states": {"hello": {"purpose": "Greet", "instructions": "Call the API with AKIAIOSFODNN7EXAMPLE.",
                             "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Revoke it and take it out. Keys of models belong into the environment, those of tools into the program.
    """
    if not any(sign in all_joined(document) for sign in _SIGNS):
        return
    for pointer, text, is_key in every_text(document):
        found = None if is_key else _SECRET.search(text)
        if found is not None and not _made_up(found[0]):
            yield secret_literal.finding(
                f'"{found[0][:_SHOWN]}…" looks like a key or password of some service',
                pointer=pointer,
                hint="revoke it, and keep secrets out of definitions",
            )


def _made_up(text: str) -> bool:
    """True for what stands for a key: `sk-xxxxxxxxxxxxxxxxxxxx`."""
    tail = re.sub(r"^[A-Za-z]+[-_ ]", "", text)
    return len(set(tail.casefold())) < 6 or "your" in text.casefold()
