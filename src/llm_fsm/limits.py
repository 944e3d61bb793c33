"""What a turn may use before it stops asking."""

from __future__ import annotations

from llm_fsm.definition import Limits
from llm_fsm.events import LimitReached
from llm_fsm.messages import Usage


def exceeded(limits: Limits, used: Usage) -> LimitReached | None:
    """The limit that forbids another model call after what was used, if one does."""
    for name, most, spent in (
        ("llm_calls", limits.llm_calls, used.calls),
        ("tokens", limits.tokens, used.input_tokens + used.output_tokens),
        ("seconds", limits.seconds, used.seconds),
        ("money", limits.money, used.cost),
    ):
        if most is not None and spent >= most:
            return LimitReached(limit=name, value=most)
    return None
