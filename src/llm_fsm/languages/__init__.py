"""What the machine knows of human languages: one JSON file a language, in the folder `words`.

A language tag enters, and its `Language` leaves. The files are data for everybody who needs words:
a choice of yes or no, the words of a yes, proof, and the machine's own sentences. A translator adds
a language as a file, without code. What no file has, is not known, and nothing guesses it.
`reading` reads messages by the words of all languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any

import msgspec

LANGUAGE = "language"
"""The context key of the language of a conversation, if its definition has several."""
_WISH = re.compile(r"([A-Za-z-]+)(?:\s*;\s*q=(\d(?:\.\d+)?))?")
"""A language of the header `Accept-Language`, and its weight."""

QUESTION_MARKS = "?\uff1f\u061f\u037e\u055e\u1367"
"""Of Latin, full-width, Arabic, Greek, Armenian and Ethiopic script."""
QUOTATION_MARKS = "\"'”’»」』"
"""Those that may follow the end of a quoted sentence."""


class Language(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The words of one language, each in lower case.

    Attributes:
        yes: Messages that are nothing but a yes.
        no: Messages that are nothing but a no.
        right: The question after values that were read back.
        colon: What stands between a name and its value.
        agree: Phrases that are nothing but a yes; `polite` may stand beside them.
        polite: Words beside a yes that say nothing else.
        refuse: Words that no yes has.
        conditions: Words that make a condition of a yes.
        senses: Kind of a word (see `reading.Senses`) to its words, each with its value.
        everyday: Common words of this language that mean a number or a date in another one.
        sentences: What the machine says by itself, by name; `{}` stands for names. A file has all
            of them, or none.
    """

    yes: tuple[str, ...] = ()
    no: tuple[str, ...] = ()
    right: str = ""
    colon: str = ": "
    agree: tuple[str, ...] = ()
    polite: tuple[str, ...] = ()
    refuse: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    senses: dict[str, dict[str, float]] = {}
    everyday: tuple[str, ...] = ()
    sentences: dict[str, str] = {}


@cache
def every_language() -> tuple[Language, ...]:
    """Return the words of all languages."""
    names = [file.name for file in files(__name__).joinpath("words").iterdir()]
    return tuple(language_of(name.removesuffix(".json")) for name in names)


@cache
def language_of(tag: str) -> Language:
    """Return the words of a language.

    Args:
        tag: BCP 47 tag; its first part names the file. English if empty.

    Returns:
        The words; an empty `Language` if no file has them.
    """
    name = (tag or "en").partition("-")[0].lower()
    # A definition is data: its tag is compared with the files, and is never part of a path.
    for file in files(__name__).joinpath("words").iterdir():
        if file.name == f"{name}.json":
            return msgspec.json.decode(file.read_bytes(), type=Language)
    return Language()


@cache
def locale_of(language: str) -> Any:
    """Return the locale of a language tag, else that of its language; None if neither is known."""
    if not language:
        return None  # Babel is slow to load
    from babel import Locale, UnknownLocaleError  # noqa: PLC0415 - few definitions need it

    for tag in (language, language.partition("-")[0]):
        try:
            return Locale.parse(tag, sep="-")
        except (UnknownLocaleError, ValueError):
            continue
    return None


@cache
def number_marks(language: str) -> tuple[str, str]:
    """Return the decimal mark of a language, and the mark between thousands; English if unknown."""
    locale = locale_of(language)
    if locale is None:
        return ".", ","
    symbols = locale.number_symbols["latn"]
    return symbols["decimal"], symbols["group"]


def number_in(language: str, number: float, currency: str = "") -> str:
    """Return a number as a language writes it, with all of its digits.

    Args:
        language: BCP 47 tag. In an unknown one, the number is written as in JSON.
        number: The number.
        currency: ISO 4217 code of an amount of money; "" if it is none.
    """
    locale = locale_of(language)
    if locale is None:
        return f"{number} {currency}".strip()
    from babel.numbers import format_currency, format_decimal  # noqa: PLC0415 - as above

    if currency:
        money = format_currency(number, currency, locale=locale, decimal_quantization=False)
        return str(money)
    return str(format_decimal(number, locale=locale, decimal_quantization=False))


def listed(words: Sequence[str], language: str) -> str:
    """Return words in one text: "a, b und c" in German. Without a language: "a, b, c"."""
    locale = locale_of(language)
    if locale is None:
        return ", ".join(words)
    from babel.lists import format_list  # noqa: PLC0415 - as above

    return str(format_list(words, locale=locale))


def language_name(tag: str, language: str = "") -> str:
    """Return the name of a language in the words of another one; its tag if it has none.

    Args:
        tag: BCP 47 tag of the language.
        language: BCP 47 tag of the words; English if empty.
    """
    locale = locale_of(tag)
    name = None if locale is None else locale.get_display_name(locale_of(language or "en"))
    return name or tag


def language_names(tags: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the names of languages in the words of each of them, each with its tag."""
    listed = [*tags]
    return tuple((language_name(tag, language), tag) for tag, language in product(listed, listed))


def language_key(tags: Iterable[str], language: str) -> dict[str, Any]:
    """Return the schema of the key `LANGUAGE`, with names in the words of a language."""
    labels = {tag: language_name(tag, language) for tag in tags}
    return {
        "type": "string",
        "enum": [*labels],
        "title": ", ".join(labels.values()),
        "description": "the language to answer in: write it when the user asks for another one, or"
        " writes whole sentences in it",
        "x-labels": labels,
        "x-said": "quote",
    }


def spoken(wanted: str, tags: Sequence[str]) -> str:
    """Return the language of `tags` that fits a wish best; "" if none does.

    Args:
        wanted: A BCP 47 tag, or several as in the header `Accept-Language` (RFC 9110).
        tags: The languages.
    """
    from babel import negotiate_locale  # noqa: PLC0415 - as above

    found = _WISH.findall(wanted.replace("_", "-"))
    found.sort(key=lambda wish: -float(wish[1] or 1))
    # The answer has the letters of the wish.
    near = negotiate_locale([tag for tag, _ in found], tags, sep="-") or ""
    return next((tag for tag in tags if tag.lower() == near.lower()), "")


def own_sentence(tag: str, name: str, *parts: str) -> str:
    """Return a sentence that the machine says by itself.

    Args:
        tag: BCP 47 tag; English if empty.
        name: The name of the sentence in the file.
        parts: What stands in it.

    Returns:
        The sentence; "" if no file has it, because the words of another language would be foreign.
    """
    return language_of(tag).sentences.get(name, "").format(*parts)


def certain_sentence(tag: str, name: str) -> str:
    """Return a sentence where something must be said: in English if the language has none."""
    return own_sentence(tag, name) or own_sentence("en", name)


def truth_word(tag: str, value: object) -> str:
    """Return the first word of a yes or a no; "" if the language has none."""
    words = language_of(tag)
    return next(iter(words.yes if value else words.no), "")


def is_english(tag: str) -> bool:
    """Return true for a tag of English, or none."""
    return tag.partition("-")[0].lower() in ("", "en", "eng")


def ends_in_question(text: str) -> bool:
    """Return true if a text ends in a question mark of any script."""
    return text.rstrip().rstrip(QUOTATION_MARKS)[-1:] in tuple(QUESTION_MARKS)
