"""Small helpers for text: web addresses, shortening, suggestions, hashes, escaping and token estimates."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterable
from difflib import SequenceMatcher
from ipaddress import ip_address
from urllib.parse import urlsplit

from llm_fsm._json import in_unicode

TRUNCATED = "... [truncated]"
CLAIMED = "[said elsewhere, as the client claims] "
"""The beginning of a message that a prompt shows, and that nobody here has said or heard."""
INTERRUPTED = "… [interrupted]"
"""The end of a message that the user did not hear to its end."""


def cut(text: str, chars: int) -> str:
    """Return the first `chars` characters of a text, with a mark if the rest is cut."""
    return text if len(text) <= chars else text[:chars] + TRUNCATED


def units(text: str) -> int:
    """Return the length of a text in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def is_word(text: str, start: int, end: int) -> bool:
    """Return true if neither a letter nor a digit stands beside a place in a text."""
    return not (text[:start][-1:].isalnum() or text[end : end + 1].isalnum())


def shortened(text: str, chars: int) -> str:
    """Return a text of at most `chars` characters, with … at its end if something is missing."""
    return text if len(text) <= chars else text[: chars - 1] + "…"


def sha256_of(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8, in hexadecimal. Halves of surrogate pairs count, too."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def listed(names: Iterable[str], limit: int = 8) -> str:
    """Return names for a message, the first `limit` of them."""
    every = list(names)
    shown = ", ".join(every[:limit])
    return f"{shown}, … ({len(every)} in all)" if len(every) > limit else shown


_LONGEST_WORD = 200
_CUTOFF = 0.6
_MOST_NEAR = 3


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the most similar candidate to `word`, or None if none is close.

    Letter case only counts between candidates that are otherwise equally close. Then the first one
    wins. Words over 200 characters have no similar candidate.
    """
    if len(word) > _LONGEST_WORD:
        return None
    folded = word.casefold()
    loose = SequenceMatcher(b=folded, autojunk=False)
    exact = SequenceMatcher(b=word, autojunk=False)
    best: str | None = None
    best_score = (_CUTOFF, 0.0)
    for candidate in candidates:
        bare = candidate.casefold()
        length = len(bare) + len(folded)
        if length and 2.0 * min(len(bare), len(folded)) / length < best_score[0]:
            continue  # the upper limit of their similarity
        loose.set_seq1(bare)
        if loose.quick_ratio() < best_score[0]:
            continue
        exact.set_seq1(candidate)
        score = (loose.ratio(), exact.ratio())
        if score > best_score:
            best, best_score = candidate, score
    return best


def nearest_ones(word: str, candidates: Iterable[str]) -> list[str]:
    """Return up to three candidates that are similar to `word`, the most similar one first."""
    left = list(candidates)
    found: list[str] = []
    while len(found) < _MOST_NEAR and (near := nearest(word, left)) is not None:
        found.append(near)
        left.remove(near)
    return found


def suggestion(word: str, candidates: Iterable[str], otherwise: str = "there are") -> str:
    """Return the question whether the most similar candidate is meant; the list of all of them if
    none is close.
    """
    names = list(candidates)
    guess = nearest(word, names)
    return f"did you mean {guess!r}?" if guess else f"{otherwise} {', '.join(names) or 'none'}"


def unused(name: str, taken: Container[str]) -> str:
    """Return the name, or with the first number that makes it another one than those taken."""
    found = name
    number = 2
    while found in taken:
        found = f"{name}_{number}"
        number += 1
    return found


def escaped(value: object) -> str:
    """Write compact JSON in which `<`, `>`, `&`, line separators and lone surrogates are \\u
    escapes.
    """
    text = in_unicode(value)
    return _safe(text) if not text.isascii() or "<" in text or ">" in text or "&" in text else text


def _safe(text: str) -> str:
    if "<" in text or ">" in text or "&" in text:  # a test is much faster than a replacement
        text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return (
        text if text.isascii() else text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    )


def clean(text: str) -> str:
    """Return an author's text without lone surrogates, so that it can be sent."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


MIN_KEY = 4
"""The length of the shortest text that is hidden as an API key."""

_WIDE = (0x11, *range(0x2E, 0xA0), *range(0xAC, 0xD8), 0xF9, 0xFA, 0xFF)
"""First bytes in UTF-16 of characters with one token each."""
_OTHER = bytes(sorted({*range(256)} - {*_WIDE}))


def estimate(text: str) -> int:
    """Estimate the tokens of a text."""
    if text.isascii():
        return (len(text) + 3) // 4
    # It counts bytes, because a loop over characters takes longer than the rest of a prompt.
    plain = len(text.encode("ascii", "ignore"))
    other = len(text) - plain
    if len(text.encode("utf-8", "surrogatepass")) == plain + 2 * other:
        return (plain + 3) // 4 + (other + 1) // 2  # of two bytes each, none is wide
    wide = len(text.encode("utf-16-be", "surrogatepass")[::2].translate(None, _OTHER))
    return (plain + 3) // 4 + wide + (other - wide + 1) // 2


def is_address(text: object) -> bool:
    """Return true for an http:// or https:// URL with a host and a possible port."""
    if not isinstance(text, str):
        return False
    try:
        parts = urlsplit(text.strip())
        host = parts.hostname or " "
        return (
            parts.scheme in {"http", "https"}
            and host.isprintable()
            and " " not in host
            and parts.port != 0
        )
    except ValueError:
        return False


def is_local(url: str) -> bool:
    """Return true if the host of a URL is this machine."""
    host = (urlsplit(url.strip()).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def without_keys(text: str, *keys: str | None) -> str:
    """Hide API keys in a text, except for short ones, which would match parts of words."""
    for key in keys:
        if key and len(key) >= MIN_KEY:
            text = text.replace(key, "***")
    return text


_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters (C0, C1), line separators, bidirectional overrides and isolates, and lone
surrogates.

A foreign text could move the cursor or hide text with them.
"""
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def visible(text: str) -> str:
    """Return a text as one line, with escapes for characters that could move the cursor or hide
    text.
    """
    return _UNSAFE.sub(escape_of, text)


def escape_of(found: re.Match[str]) -> str:
    """Return the escape of one matched character, as Python and JSON write it: `\\x1b`, `\\u202e`."""
    character = found.group()
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
