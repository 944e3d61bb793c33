"""The texts of a state, as prompts show them."""

from __future__ import annotations

from dataclasses import dataclass

from llm_fsm._text import clean, escaped, estimate
from llm_fsm.definition.models import State
from llm_fsm.definition.names import Kind

TAGS = 6
"""Tokens of the markup around a section."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateText:
    """A state's own texts. `tokens` is the estimated size of <current_state>.

    `note` says, in the line of an option, that it speaks by itself; "" if the reply speaks for it.
    """

    id: str
    description: str = ""
    purpose: str = ""
    instructions: str = ""
    example: str = ""
    note: str = ""
    tokens: int = 0


def state_text(state_id: str, state: State, kind: Kind) -> StateText:
    """Return the texts of a state. Its instructions of all kinds are joined."""
    texts = {
        "description": "" if state.description == state.purpose else clean(state.description),
        "purpose": clean(state.purpose),
        "instructions": instructions_of(state),
        "example": escaped(state.example_dialogue) if state.example_dialogue else "",
    }
    tokens = estimate(state_id) + 2 * TAGS
    tokens += sum(estimate(text) + TAGS for text in texts.values() if text)
    return StateText(id=state_id, **texts, note=_note(state, kind), tokens=tokens)


def _note(state: State, kind: Kind) -> str:
    if state.reply is not None or kind in ("task", "subflow") or state.tools_first:
        return "It says its own text."
    return "It reads the values back." if state.confirms else ""


def instructions_of(state: State) -> str:
    """Return the instructions of a state, those of all kinds."""
    kinds = (state.instructions, state.extraction_instructions, state.response_instructions)
    return clean("\n".join(text for text in kinds if text))
