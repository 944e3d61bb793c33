"""What the machine knows of human languages: one JSON file a language, in the folder `words`.

A language tag enters, and its `Language` leaves. The files are data for everybody who needs words:
a choice of yes or no, the words of a yes, proof, and the machine's own sentences. A translator adds
a language as a file, without code. What no file has, is not known, and nothing guesses it.
`reading` reads messages by the words of all languages.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

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


def is_english(tag: str) -> bool:
    """Return true for a tag of English, or none."""
    return tag.partition("-")[0].lower() in ("", "en", "eng")


def ends_in_question(text: str) -> bool:
    """Return true if a text ends in a question mark of any script."""
    return text.rstrip().rstrip(QUOTATION_MARKS)[-1:] in tuple(QUESTION_MARKS)
