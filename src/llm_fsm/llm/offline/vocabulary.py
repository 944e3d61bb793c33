"""Words and their kinship, as far as an adapter without a model understands them: English only."""

from __future__ import annotations

import re
from collections.abc import Iterable

WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def words(text: str) -> frozenset[str]:
    """A set of words, written as one text."""
    return frozenset(text.split())


SURE_YES = words("yes yeah yep yup ya correct confirm confirmed absolutely definitely agreed agree exactly")
YES = SURE_YES | words(
    "sure ok okay k right confirming true fine perfect great good accept approved approve ready y"
)
_AROUND_YES = words(
    "that that's is it it's this all of course sounds looks seems by to for with me i i'm am thanks thank you very "
    "much go ahead do so we are"
)
NO = words(
    "no nope nah never wrong incorrect false not don't dont doesn't isn't wasn't won't decline declined reject n"
)
GREETINGS = words("hi hello hey hiya greetings good morning afternoon evening day there howdy yo")
CORRECTING = words(
    "actually sorry wrong instead change correction correct meant rather update edit fix no not oops wait"
)
_FILLERS = words("oh well um uh hmm so ah er and but please")
_STOP = words(
    "a an the i you he she it we they me my your his her its our their to of in on at for with and or but is are was "
    "were be been being am do does did have has had will would can could should may might must this that these "
    "those there here if when then than as by from into about so just please want wants like i'd i'm i'll i've user "
    "users customer caller someone person who which what some any all more very also need needs let let's us get "
    "says said asks ask wish wishes state given known has provides provided"
)
_GROUPS = {
    "@yes": "yes confirm accept agree approve correct",
    "@no": "no decline refuse reject deny disagree",
    "@cancel": "cancel abort nevermind discard quit stop exit leave end finish bye goodbye",
    "@back": "back previous undo",
    "@help": "help assist assistance stuck confuse",
    "@change": "change edit modify update fix amend",
    "@again": "again restart retry repeat another",
    "@human": "human agent operator representative staff escalate",
}
_NEGATIONS = words("not no never don't dont doesn't isn't didn't won't cannot can't without")
_QUESTION_STARTS = words(
    "what why how when where who which whose whom is are do does did can could would will should may am"
)
_ENDINGS = sorted(
    words("ations ation ingly ments ment ings ing ies ied ers ed es er s e y"),
    key=lambda end: (-len(end), end),
)


def words_of(text: str) -> list[str]:
    """The lower-case words of a text; identifiers and camelCase fall into their parts."""
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", text.replace("’", "'"))
    return [word.lower() for word in WORD.findall(spaced)]


def stem(word: str) -> str:
    """A crude stem: what is left when an ending is taken off, at least three letters."""
    bare = word.removesuffix("'s")
    for suffix in _ENDINGS:
        if bare.endswith(suffix) and len(bare) - len(suffix) >= 3:
            bare = bare[: -len(suffix)]
            break
    return bare[:-1] if len(bare) > 3 and bare[-1] == bare[-2] else bare


_GIVE_UP = re.compile(
    r"\b(?:gives?|gave|giving) up\b|\bnever mind\b"
    r"|\b(?:not|don't|doesn't|dont|no longer) (?:\w+ ){0,2}?(?:wants?|wish(?:es)?|needs?|like)\b",
    re.IGNORECASE,
)
_MEANINGS = {stem(word): group for group, members in _GROUPS.items() for word in members.split()}
_OPPOSITE = {"@yes": "@no", "@no": "@yes"}


def meanings(text: str) -> set[str]:
    """The stems of a text's telling words; words like "confirm" become a group such as @yes, "not confirm" @no."""
    found: set[str] = set()
    words = words_of(_GIVE_UP.sub("abort", text))
    for position, word in enumerate(words):
        if word in _STOP or word in _NEGATIONS - {"no"}:
            continue
        meaning = _MEANINGS.get(stem(word), stem(word))
        if _NEGATIONS.intersection(words[max(0, position - 2) : position]):
            meaning = _OPPOSITE.get(meaning, meaning)
        found.add(meaning)
    return found


def stems(texts: Iterable[str]) -> set[str]:
    """The stems of all telling words of some texts."""
    return {stem(word) for text in texts for word in words_of(text) if word not in _STOP}


def polarity(text: str) -> bool | None:
    """True for a yes, False for a no, None for neither. The first word tells, or a short message as a whole."""
    words = [word for word in words_of(text) if word not in _FILLERS]
    if not words:
        return None
    if words[0] in NO:
        return False
    if words[0] in SURE_YES or words[:2] == ["of", "course"]:
        return True
    if len(words) > 6:
        return None
    if NO.intersection(words):
        return False
    rest = [word for word in words if word not in _AROUND_YES]
    return True if (rest and all(word in YES for word in rest)) or SURE_YES.intersection(words) else None


def is_question(text: str) -> bool:
    """Whether a message asks something: by its mark, or by its first word."""
    stripped = text.rstrip()
    first = next((word for word in words_of(text) if word not in _FILLERS), "")
    return stripped.endswith("?") or first in _QUESTION_STARTS


def is_small_talk(text: str) -> bool:
    """Whether a message is nothing but a greeting, a yes or no, or a wish to stop, go back or be helped."""
    words = [word for word in words_of(text) if word not in _FILLERS]
    if not words or all(word in GREETINGS or word in YES or word in NO for word in words):
        return True
    return len(words) <= 2 and any(stem(word) in _MEANINGS for word in words)
