"""What words ask: one thing or several, whether yes and no answer it, and what is numbered in them.

Rough, in a few dozen languages, and only ever to the safe side: what looks like several questions, or like one that
yes does not answer, is for a model.
"""

from __future__ import annotations

import re

YES = frozenset(("yes", "y", "true", "ja", "oui", "sí", "si", "sim", "да", "はい", "是", "نعم", "כן"))
NO = frozenset(("no", "n", "false", "nein", "non", "não", "нет", "いいえ", "否", "لا", "לא"))
_MARK = re.compile("[?\uff1f\u061f\u037e\u055e\u1367]+|か(?=。|$)", re.MULTILINE)
_SENTENCE_END = re.compile("(?<=[.!?…\u061f])\\s+|(?<=[。！\uff1f])|\n+")
_WORD = re.compile(r"[\w'’]+")
_TURNED = frozenset(
    (
        *("not", "cannot", "never", "without", "or", "neither", "nor", "mind"),
        *("nicht", "nichts", "kein", "keine", "keinen", "keiner", "keines", "ohne", "oder", "nie"),
        *("pas", "ne", "sans", "ou", "jamais", "aucun", "aucune"),
        *("sin", "nunca", "ningún", "não", "nao", "sem", "non", "senza", "oppure"),
        *("niet", "geen", "zonder", "inte", "ikke", "ingen", "eller", "utan", "uden", "uten"),
        *("bez", "lub", "albo", "nebo", "не", "без", "или", "ни", "değil", "veya", "yoksa"),
        *("ليس", "لم", "لن", "أو", "أم", "بدون", "ألا", "או", "אין", "בלי", "नहीं", "या"),
    )
)
"""Words that turn a question round, or make it a choice: yes may then be meant either way, or say nothing."""
_TURNED_PARTS = re.compile("n['’]t$|^n['’]|ません|ない|それとも|不|没|沒|还是|還是|或")
_SPANISH_OR = re.compile(r"¿[^?]*\bo\b")
_NO_AGREES = re.compile(r"[ąćęłńśźżčďěňřšťůž]|\bczy\b", re.IGNORECASE)
"""Letters of languages in which "no" says yes (Polish, Czech, Slovak), or hardly anything, and of some others."""


def several(words: str) -> bool:
    """True where more than one thing may have been asked."""
    return len(_MARK.findall(words)) > 1


def takes(word: str, words: str) -> bool:
    """True where yes or no answers what was asked, and this word is that for certain."""
    if word == "no" and no_agrees(words):
        return False
    sentences = _SENTENCE_END.split(words)
    asked = next((part for part in reversed(sentences) if _MARK.search(part)), words)
    return not _is_turned(_WORD.findall(_SPANISH_OR.sub("or", asked.casefold())))


def no_agrees(text: str) -> bool:
    """True for text of a language in which "no" may say yes."""
    return _NO_AGREES.search(text) is not None


def _is_turned(words: list[str]) -> bool:
    """True where words turn a question round, but for a yes and a no beside each other, which are its answers."""
    for place, word in enumerate(words):
        after = words[place + 1 : place + 3]
        if word in YES and not NO.isdisjoint(after):
            end = place + 2 + (after[0] not in NO)
            words = words[:place] + words[end:]
            break
    return any(word in _TURNED or word in NO or _TURNED_PARTS.search(word) for word in words)


def times_listed(label: str, words: str) -> int:
    """How often a number, or a letter, marks a point of a list in the words."""
    if label not in words:  # which spares a pattern made of a whole message
        return 0
    mark = re.escape(label)
    return len(
        re.findall(rf"(?<!\w){mark}(?:[.):]\s|\]|\s*=|\s+[-–—]\s|\ufe0f?\u20e3)|^\s*{mark}\s", words, re.MULTILINE)
    )
