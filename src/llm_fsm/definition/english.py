"""Whether the words of a definition are English, so that English sentences of ours are at home among them."""

from __future__ import annotations

import re
from collections.abc import Iterable

_EXPRESSION = re.compile(r"\{[{%#].*?[}%#]\}", re.DOTALL)
_LETTERS = re.compile(r"[^\W\d_]+")
_ENGLISH = frozenset(
    (
        *("the", "and", "of", "to", "your", "you", "with", "what", "which", "for", "how", "is", "are", "user", "their"),
        *("ask", "get", "tell", "say", "give", "choose", "collect", "confirm", "greet", "when", "where", "this", "if"),
    )
)
"""Some of the commonest words of English, and of its definitions where they say little."""
_PLACES = re.compile(r"\b(?:(?i:las?|les?|los|el|d[aei]|du|del|della|il|van)\s)+(?=[A-Z])")
"""What stands in names that English has, too: Las Vegas, Charles de Gaulle."""
_FOREIGN = frozenset(
    (
        *("der", "das", "dem", "des", "und", "ist", "ihre", "ihr", "sie", "ein", "eine", "wie", "nach", "bitte"),
        *("de", "het", "een", "van", "uw", "wat", "welke", "voor", "naar", "niet", "klant"),
        *("och", "ditt", "vad", "att", "og", "dit", "det", "hvad", "hvilken", "vilken", "kunden", "navn", "namn"),
        *("le", "la", "les", "du", "et", "est", "une", "votre", "vous", "quel", "quelle", "pour", "nom"),
        *("il", "di", "che", "del", "della", "dell", "una", "suo", "sua", "quale", "gli", "nome", "cliente"),
        *("el", "los", "las", "su", "que", "cual", "para", "nombre", "seu", "qual", "uma", "da"),
        *("yang", "dan", "anda", "untuk", "apa", "nomor", "nombor", "dengan", "tidak", "kami", "nama", "pelanggan"),
        *("jest", "jaki", "numer", "klient", "klienta", "nimi", "bir", "ang", "ng", "mga", "ya", "kwa", "jina"),
    )
)
"""Common words, in ASCII letters, of languages that often need no others; none of them is English."""


def reads_english(texts: Iterable[str]) -> bool:
    """False where more words are of other languages, or have letters it lacks, than are the commonest of English.

    A single word of another one may be a name.
    """
    words = [word for text in texts for word in _words_of(text)]
    foreign, told = sum(not word.isascii() for word in words), sum(word in _FOREIGN for word in words)
    return foreign + (told if told > 1 else 0) <= sum(word in _ENGLISH for word in words)


def _words_of(text: str) -> list[str]:
    return _LETTERS.findall(_PLACES.sub("", _EXPRESSION.sub(" ", text)).lower())
