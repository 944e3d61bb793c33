"""Find values that a message certainly gives: the whole message, or typed words in it.

Typed words are e-mail addresses, dates, times of day, numbers, words with a digit, and choices of an enum. A value must
fit the schema of its key. Nothing is read from a question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import Any, NamedTuple, TypeAlias

from llm_fsm.definition.json_schema.validator import ShapeError, compile_shape
from llm_fsm.definition.names import label
from llm_fsm.session.messages import PlainTurn

Schema: TypeAlias = Mapping[str, Any]

MAX_CHARS = 2000
"""The most characters of a message that are read."""
YES = frozenset(
    ("yes", "yeah", "yep", "y", "ok", "okay", "sure", "correct", "right", "that's right", "yes please", "i agree")
)
NO = frozenset(("no", "nope", "n", "nothing", "no thanks", "no thank you", "skip"))
LEAVING = frozenset(("stop", "cancel", "quit", "exit", "abort", "bye", "goodbye"))
_TALK = YES | NO | LEAVING | {"hello", "hi", "hey", "thanks", "thank you", "help", "back"}
"""Messages that are no free text."""
_COUNTS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_PLACES = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = rf"({'|'.join(_MONTHS)})[a-z]*\.?"
_EMAIL = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_DATES = (
    (re.compile(r"\b(\d{4})-(\d\d?)-(\d\d?)\b(?![T:])"), (0, 1, 2)),
    (re.compile(r"\b(\d\d?)\.(\d\d?)\.(\d{4})\b"), (2, 1, 0)),
    (re.compile(rf"\b(\d\d?)(?:st|nd|rd|th)?(?: of)? {_MONTH},? (\d{{4}})\b", re.IGNORECASE), (2, 1, 0)),
    (re.compile(rf"\b{_MONTH} (\d\d?)(?:st|nd|rd|th)?,? (\d{{4}})\b", re.IGNORECASE), (2, 0, 1)),
)
"""Patterns, and the places of year, month and day in them."""
_CLOCK = re.compile(r"\b(\d\d?)(?:[:.](\d\d))?\s*(am|pm|a\.m\.|p\.m\.)(?!\w)|\b(\d\d?):(\d\d)\b(?!:)", re.IGNORECASE)
_PHONE = re.compile(r"\+?\(?\d[\d ()/-]{4,23}\d")
_DIGITS = re.compile(r"[^\s,;!?()\"<>]*\d(?:[^\s;!?()\"<>]*[^\s,.;:!?()\"<>])?")
_NUMBER = re.compile(r"[-−]?(?:\d{1,3}(?:,\d{3})+|\d{1,15})(?:\.\d{1,15})?")
_SPOKEN = re.compile(rf"\b(?:{'|'.join(_COUNTS[2:])})\b", re.IGNORECASE)
_NAMED = re.compile(r"(?:i'm|i am|my name is|it's|it is|this is|call me)\s+(.+)", re.IGNORECASE)
_CAPITALS = re.compile(r"(?:[^\W\d_a-z][^\W\d_]*(?:['’-][^\W\d_]+)*\.?\s*){1,4}")

_NEGATED = re.compile(r"\b(?:not|no|instead of|than)\s+(?:the |a |an )?$", re.IGNORECASE)


class Found(NamedTuple):
    """A value in a message, and its place."""

    value: Any
    start: int
    end: int


def folded(text: str) -> str:
    """Normalise words for comparison: without case and outer marks, and with "-" and "_" as blanks."""
    return re.sub(r"[\s_-]+", " ", text.casefold().replace("’", "'")).strip(" .!,;:")


def read_update(view: PlainTurn, closed: Sequence[str] = ()) -> dict[str, Any]:
    """Return the keys that the message sets, with values that their schemas accept.

    Args:
        view: The turn.
        closed: Known keys that keep a transition closed. A bare value corrects them if nothing else is asked for.
    """
    text = (view.user or "")[:MAX_CHARS].strip()
    if not text or text.endswith("?"):
        return {}
    asked = view.wanted or {key: view.writable[key] for key in closed}
    values = {key: _whole(schema, text, view.own_words) for key, schema in asked.items()}
    fitting = [key for key, value in values.items() if value is not None]
    if fitting and (view.wanted or len(fitting) == 1):
        return {fitting[0]: values[fitting[0]]}
    found, rest = _in_sentence(view, asked, text)
    if view.wanted and folded(text) not in _TALK:
        key, schema = next(((key, schema) for key, schema in view.wanted.items() if key not in found), ("", {}))
        if key and is_free(schema):
            value: Any = _name(key, schema, rest) if found else _name(key, schema, text) or text
        else:
            value = _items(schema, text) if key and not found and type_of(schema) == "array" else None
        if value and accepts(schema, value):
            found[key] = value
    return {key: value for key, value in found.items() if view.context.get(key) != value}


def is_free(schema: Schema) -> bool:
    """Return true if any words can be the value."""
    return type_of(schema) in ("", "string") and not options_of(schema) and accepts(schema, "some words")


def accepts(schema: Schema, value: Any) -> bool:
    """Return true if the schema accepts the value, or cannot be compiled."""
    try:
        return compile_shape(schema).fault(value) is None
    except ShapeError:
        return True


def type_of(schema: Schema) -> str:
    """Return the JSON type of a schema; "" if it has none."""
    kind = schema.get("type")
    kinds = [item for item in kind if item != "null"] if isinstance(kind, list) else [kind]
    return kinds[0] if kinds and isinstance(kinds[0], str) else ""


def options_of(schema: Schema) -> list[Any]:
    """Return the values of an enum, without null."""
    listed = schema.get("enum")
    return [item for item in listed if item is not None] if isinstance(listed, list) else []


def _whole(schema: Schema, text: str, shown: str) -> Any:
    """Return the whole message as a typed value; None if it is none."""
    said, kind, options = folded(text), type_of(schema), options_of(schema)
    if options:
        named = {text: option for option in options for text in (str(option), folded(str(option)))}
        exact = named.get(text.strip(), named.get(said))
        return exact if exact is not None else _numbered(said, options, folded(shown))
    if kind == "boolean":
        return True if said in YES else False if said in NO else None
    if kind in ("integer", "number"):
        values: list[Any] = [_COUNTS.index(said)] if said in _COUNTS else _numbers_of(text.rstrip(".!"))
    else:
        plain = text.rstrip(".!,;")
        values = [] if kind not in ("", "string") or is_free(schema) or said in _TALK else [text, plain, plain.upper()]
    return next((value for value in values if accepts(schema, value)), None)


def _numbered(said: str, options: Sequence[Any], shown: str) -> Any:
    """Return the choice whose shown number is the whole message."""
    match = re.fullmatch(rf"(?:the |number |option )*(\d+|{'|'.join((*_COUNTS, *_PLACES))})(?: one)?", said)
    if match is None:
        return None
    word = match[1]
    counted = _COUNTS if word in _COUNTS else ("", *_PLACES)
    number = int(word[:9]) if word.isdecimal() else counted.index(word)
    return next(
        (
            option
            for option in options
            if re.search(rf"(?<!\w){number}[.):]\s+{re.escape(folded(str(option)))}(?!\w)", shown)
        ),
        None,
    )


def _in_sentence(view: PlainTurn, asked: Mapping[str, Schema], text: str) -> tuple[dict[str, Any], str]:
    """Read typed words: first those of keys that the message names, then those that fit only one asked key.

    Return the values, and the message without them.
    """
    update: dict[str, Any] = {}
    for key, schema in {**view.writable, **view.wanted}.items():
        titles = _titles(key, schema, text)
        if not titles:
            continue
        found = _stated(key, schema, text) if is_free(schema) else _typed(schema, text)
        if found:
            best = min(found, key=lambda one: min(max(one.start - end, start - one.end) for start, end in titles))
            update[key] = best.value
            text = _without(text, best)
    rest = text
    fitting = {key: _typed(schema, text) for key, schema in asked.items() if key not in update}
    for key, found in fitting.items():
        others = {one.start for other, those in fitting.items() if other != key for one in those}
        if len(found) == 1 and found[0].start not in others:
            update[key] = found[0].value
            rest = _without(rest, found[0])
    return update, rest


def _without(text: str, found: Found) -> str:
    return text[: found.start] + " " * (found.end - found.start) + text[found.end :]


def _titles(key: str, schema: Schema, text: str) -> list[tuple[int, int]]:
    """Return the places where a message names a key."""
    names = {re.sub(r"[\s_-]+", r"[\\s_-]+", re.escape(name)) for name in (label(key, schema), label(key, {}))}
    return [match.span() for match in re.finditer(rf"(?<!\w)(?:{'|'.join(names)})(?!\w)", text, re.IGNORECASE)]


def _stated(key: str, schema: Schema, text: str) -> list[Found]:
    """Return the free text in "my city is Paris" or "change the city to Paris"."""
    found = []
    for _, end in _titles(key, schema, text):
        match = re.compile(r"\s*(?::|=|\b(?:is|to|should be)\b)\s*(?:actually |now )?([^.!?\n]+)").match(text, end)
        if match and accepts(schema, match[1].strip()):
            found.append(Found(match[1].strip(), match.start(1), match.end(1)))
    return found


def _typed(schema: Schema, text: str) -> list[Found]:
    """Return the typed values in a message that a schema accepts, in their order, without overlaps."""
    kind = type_of(schema)
    if options_of(schema):
        return _options(schema, text)
    if kind == "boolean" or kind not in ("", "string", "integer", "number") or is_free(schema):
        return []
    found: list[Found] = []
    for start, end, forms in _tokens(text):
        if all(end <= one.start or one.end <= start for one in found):
            those = (form for form in forms if isinstance(form, str) == (kind in ("", "string")))
            found += [Found(form, start, end) for form in those if accepts(schema, form)][:1]
    return found


def _options(schema: Schema, text: str) -> list[Found]:
    """Return the choices that a message names by whole words, the longest first, except after "not"."""
    found: list[Found] = []
    for option in sorted(options_of(schema), key=lambda option: -len(str(option))):
        words = re.sub(r"(?:\\?[\s_-])+", r"[\\s_-]+", re.escape(str(option)))
        for match in re.finditer(rf"(?<![\w+#]){words}(?![\w+#])", text, re.IGNORECASE):
            apart = all(match.end() <= one.start or one.end <= match.start() for one in found)
            if apart and not _NEGATED.search(text, 0, match.start()):
                found.append(Found(option, *match.span()))
    return found


def _tokens(text: str) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
    """Yield the typed words of a message as (start, end, possible values), the most certain kinds first."""
    for match in _EMAIL.finditer(text):
        yield *match.span(), (match.group(),)
    for pattern, order in _DATES:
        for match in pattern.finditer(text):
            year, month, day = (match.groups()[place].lower() for place in order)
            number = _MONTHS.index(month[:3]) + 1 if month[:3] in _MONTHS else int(month)
            with suppress(ValueError):
                yield *match.span(), (date(int(year), number, int(day)).isoformat(),)
    for match in _CLOCK.finditer(text):
        hour, minute, half = int(match[1] or match[4]), int(match[2] or match[5] or 0), (match[3] or "").lower()
        hour = hour % 12 + 12 * (half[0] == "p") if half else hour
        if hour < 24 and minute < 60:
            yield *match.span(), (f"{hour:02}:{minute:02}", f"{hour:02}:{minute:02}:00", f"{hour:02}:{minute:02}:00Z")
    for match in _PHONE.finditer(text):
        yield *match.span(), (match.group(),)
    for match in _SPOKEN.finditer(text):
        yield *match.span(), (_COUNTS.index(match.group().lower()),)
    for match in _DIGITS.finditer(text):
        yield *match.span(), (match.group(), match.group().upper(), *_numbers_of(match.group()))


def _numbers_of(text: str) -> list[Any]:
    if _NUMBER.fullmatch(text) is None:
        return []
    number = float(text.replace(",", "").replace("−", "-"))
    return [int(number) if number.is_integer() else number]


def _name(key: str, schema: Schema, text: str) -> str:
    """Return the name that a text consists of, perhaps after "I'm" and the like; "" if there is none."""
    if "name" not in label(key, schema).lower():
        return ""
    plain = re.sub(r"^[\s,;]+|[\s,;.!]+$|\s+and\s*$", "", text.replace("’", "'"))
    match = _NAMED.match(plain)
    name = _CAPITALS.fullmatch(match[1] if match else plain)
    return name.group() if name else ""


def _items(schema: Schema, text: str) -> list[Any]:
    """Return the items of a list: "eggs, milk and bread"."""
    inner = schema.get("items")
    item: Schema = inner if isinstance(inner, dict) else {}
    if options_of(item):
        return [one.value for one in sorted(_options(item, text), key=lambda one: one.start)]
    parts = [part for part in re.split(r"\s*(?:,|;|\n|\band\b|&)\s*", text.rstrip(".")) if part]
    return parts if is_free(item) else [value for part in parts if (value := _whole(item, part, "")) is not None]
