"""Which exchanges of a conversation the model is shown.

The window grows to twice `max_exchanges` and is then cut back in one block, so that between two cuts
the prompt's history is append-only and a provider's prompt cache can serve it. The token budget is the
harder bound: where even `max_exchanges` do not fit, fewer are kept, and these in blocks too.
"""

from __future__ import annotations

from llm_fsm.definition.models import HistorySettings
from llm_fsm.session.window import FRAME, Exchange, most_chars, tokens_in

_LOW = 2 / 3
"""Part of the token budget that is left where `max_exchanges` do not fit: else each turn would drop another one."""
_FEW = 2
"""Exchanges that are worth more to the model than a block."""


def surplus(window: tuple[Exchange, ...], settings: HistorySettings, *, afresh: bool = False) -> int:
    """How many of the oldest exchanges to drop now.

    `afresh`: the next prompt has other words before its history, so that no cache serves this either. A block that is
    due soon is cut at once then, as what is left is read anew once and not twice.
    """
    most = settings.max_exchanges
    many = most * 3 // 2 if afresh else 2 * most
    chars = FRAME * len(window) + most_chars(window)
    if len(window) <= many and chars <= settings.max_tokens:
        return 0  # no text has more tokens than characters, as they are estimated
    sizes = tokens_in(window)
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
