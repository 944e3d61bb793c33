"""The exchanges that prompts show.

The history grows to twice `max_exchanges` and is then cut back in one block. Between two cuts the prompt is
append-only, so that the provider's prompt cache can serve it. The token budget is the harder bound. If not even
`max_exchanges` fit, fewer are kept, and these are cut in blocks too.
"""

from __future__ import annotations

from collections.abc import Iterable

from llm_fsm._text import escaped, estimate
from llm_fsm.definition.models import HistorySettings

Exchange = tuple[str | None, str]
"""The user's message (None: nobody spoke) and the answer."""
FRAME = 12
"""Tokens of the JSON around an exchange."""
_LOW = 2 / 3
"""Part of the token budget that a cut leaves. If it left the whole, each turn would cut again."""
_FEW = 2
"""Exchanges that are worth more to the model than a block."""


def in_prompt(window: Iterable[Exchange]) -> str:
    """Return the exchanges as the JSON that a prompt shows; "" if there are none."""
    messages: list[dict[str, str]] = []
    for user, system in window:
        if user is not None:
            messages.append({"user": user})
        messages.append({"system": system})
    return escaped(messages) if messages else ""


def surplus(window: tuple[Exchange, ...], settings: HistorySettings, *, afresh: bool = False) -> int:
    """Count the oldest exchanges to drop now.

    Args:
        window: The exchanges, the oldest first.
        settings: The definition's limits, in exchanges and tokens.
        afresh: The next prompt changes before its history, so no cache can serve the history either. A cut that is
            due soon is made at once.

    Returns:
        The number of exchanges to drop; 0 most of the time.
    """
    most = settings.max_exchanges
    many = most * 3 // 2 if afresh else 2 * most
    sizes = [estimate(user or "") + estimate(said) + FRAME for user, said in window]
    kept = sum(sizes)
    if len(window) <= many and kept <= settings.max_tokens:
        return 0
    dropped = max(0, len(window) - most)
    kept -= sum(sizes[:dropped])
    if kept <= settings.max_tokens:
        return dropped
    while dropped < len(window) and (
        kept > settings.max_tokens or (kept > _LOW * settings.max_tokens and len(window) - dropped > _FEW)
    ):
        kept -= sizes[dropped]
        dropped += 1
    return dropped
