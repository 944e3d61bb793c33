"""How many tokens a text will take, estimated by script.

Tokenizers of current models take about four characters of English, two of other alphabets and one of
Chinese, Japanese or Korean per token. Good to about a quarter, which is enough for budgets.
"""

from __future__ import annotations

_WIDE = (0x11, *range(0x2E, 0xA0), *range(0xAC, 0xD8), 0xF9, 0xFA, 0xFF)
"""First bytes in UTF-16 of characters that have a token each."""
_OTHER = bytes(sorted({*range(256)} - {*_WIDE}))


def estimate(text: str) -> int:
    """Estimated tokens of a text."""
    if text.isascii():
        return (len(text) + 3) // 4
    # Counted in bytes, since a look at each character takes longer than all else that a prompt needs.
    plain = len(text.encode("ascii", "ignore"))
    other = len(text) - plain
    if len(text.encode("utf-8", "surrogatepass")) == plain + 2 * other:
        return (plain + 3) // 4 + (other + 1) // 2  # of two bytes each, none is wide
    wide = len(text.encode("utf-16-be", "surrogatepass")[::2].translate(None, _OTHER))
    return (plain + 3) // 4 + wide + (other - wide + 1) // 2
