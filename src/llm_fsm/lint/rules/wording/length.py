"""Descriptions and prompts that are too long."""

from __future__ import annotations

from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.prompt_budget import BUDGET, FRAME, budget_of, shared_tokens, state_tokens
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.logics import transitions_of
from llm_fsm.lint.rule import Fault, Faults, lint_rule

_CHARS = 600


@lint_rule("W408", "info")
def overlong_description(document: Document) -> Faults:
    """The description of a transition or condition is longer than 600 characters.

    Why it is bad:
    It is in the menu of every prompt of its state. A menu is read better if each entry is one sentence.

    Example:
        "states": {"menu": {"purpose": "Ask", "transitions": [{"target_state": "order", "description": [
            "The user wants to order something from the menu, which they may say in very many different ways, such as",
            "I would like a pizza, or can I have, or give me, or just the name of a dish; all of these count, and",
            "also when they ask whether they can order now, or how ordering works, unless they only want to know",
            "the prices, in which case they should stay here, except if they have asked for the prices twice already",
            "and seem to be ready, which you can tell from how they write: short messages mean that they are in a",
            "hurry and want to get it over with, long ones mean that they still think; then wait for them."]}]},
            "order": {"purpose": "Take the order"}}

    Fix:
    Say in one sentence when to take it. Move instructions to the `instructions` of the state.
    """
    for _, transition in transitions_of(document):
        for placed in (transition, *transition.items("conditions")):
            size = len(placed.text("description"))
            if size > _CHARS:
                yield Fault(
                    f"this description has {size:,} characters",
                    pointer=placed.pointer + "/description",
                    hint="say in one sentence when to take the transition",
                )


@lint_rule("W406", "warning", at_key=True)
def prompt_over_budget(document: Document) -> Faults:
    """The prompt of a state, before history and context, takes more tokens than its budget.

    Why it is bad:
    Every turn pays for it in money and time, and models overlook the middle of long prompts.

    Example:
        "x-lint": {"token_budget": 100}, "states": {"hello": {"purpose": "Greet the user"}}

    Fix:
    Shorten the texts, split the state, or narrow its transitions. Set another budget by
    `"x-lint": {"token_budget": 6000}` or by `token-budget` in pyproject.toml. The rule counts the texts of the file and
    the fixed parts of prompts. `llm-fsm prompt FILE --budget N` counts prompts as they are sent.
    """
    budget = budget_of(document.root.value) or document.token_budget or BUDGET
    shared = shared_tokens(document)
    if shared > budget:
        yield Fault(
            f"what every prompt begins with takes about {shared:,} tokens, over the budget of"
            f" {budget:,}",
            pointer="",
            hint="shorten persona, description and the descriptions of context keys"
            if budget > FRAME
            else f"set a larger one: about {FRAME} tokens stand in the prompt of every machine",
        )
        return
    for name, (own, moves) in state_tokens(document).items():
        total = shared + own + moves
        if total > budget:
            yield Fault(
                f"the prompt of state {quoted(name)} takes about {total:,} tokens, over its"
                f" budget of {budget:,}. All states take {shared:,}, its own words {own:,},"
                f" transitions {moves:,}",
                pointer=document.states[name].pointer,
                hint="shorten it, or split the state",
            )
