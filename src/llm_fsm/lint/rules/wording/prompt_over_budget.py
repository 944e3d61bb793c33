"""Prompts that are too long."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.prompt_budget import BUDGET, FRAME, budget_of, shared_tokens, state_tokens
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import lint_rule


@lint_rule("W406", "warning", at_key=True)
def prompt_over_budget(document: Document) -> Iterator[Finding]:
    """The prompt of a state, before history and context, takes more tokens than its budget.

    Why it is bad:
    Every turn pays for it in money and time, and models overlook what stands in the middle of long prompts.

    Example:
        "x-lint": {"token_budget": 100}, "states": {"hello": {"purpose": "Greet the user"}}

    Fix:
    Shorten the words, split the state, or narrow its transitions. Another budget is set by `"x-lint":
    {"token_budget": 6000}` or by `token-budget` in pyproject.toml. The words of the file are counted, and what
    stands in every prompt; `llm-fsm prompt FILE --budget N` counts prompts as they are sent.
    """
    budget = budget_of(document.root.value) or document.token_budget or BUDGET
    shared = shared_tokens(document)
    if shared > budget:
        yield prompt_over_budget.finding(
            f"what every prompt begins with takes about {shared:,} tokens, over the budget of {budget:,}",
            pointer="",
            hint="shorten persona, description and the descriptions of context keys"
            if budget > FRAME
            else f"set a larger one: about {FRAME} tokens stand in the prompt of every machine",
        )
        return
    for name, (own, moves) in state_tokens(document).items():
        total = shared + own + moves
        if total > budget:
            yield prompt_over_budget.finding(
                f"the prompt of state {quoted(name)} takes about {total:,} tokens, over its budget of {budget:,}"
                f" (all states {shared:,}, its own words {own:,}, transitions {moves:,})",
                pointer=document.states[name].pointer,
                hint="shorten it, or split the state",
            )
