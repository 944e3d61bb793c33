"""How many tokens a text will take, estimated by script.

Tokenizers of current models take about four characters of English, two of other alphabets and one of
Chinese, Japanese or Korean per token. Good to about a quarter, which is enough for budgets.
"""

from __future__ import annotations

import re
from functools import cache

_WIDE = "[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"


def estimate(text: str) -> int:
    """Estimated tokens of a text."""
    if text.isascii():
        return (len(text) + 3) // 4
    plain = sum(1 for character in text if character.isascii())
    wide = len(_wide().findall(text))
    return (plain + 3) // 4 + wide + (len(text) - plain - wide + 1) // 2


@cache
def _wide() -> re.Pattern[str]:
    return re.compile(_WIDE)
