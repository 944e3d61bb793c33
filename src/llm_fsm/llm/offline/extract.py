"""Find values that a message certainly gives: the whole message, or typed words in it.

Typed words are e-mail addresses, dates, times of day, numbers, words with a digit, and choices of
an enum. A value must fit the schema of its key. Nothing is read from a question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from itertools import chain
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, Schemas, list_at, object_at, without
from llm_fsm.definition.json_schema.validator import ShapeError, compile_shape
from llm_fsm.definition.names import label
from llm_fsm.languages import language_of
from llm_fsm.languages.reading import dates, numbers, pieces, times
from llm_fsm.llm.offline.amounts import EMAIL, Found, Message, Span, amounts, is_doubtful
from llm_fsm.session.messages import PlainTurn
from llm_fsm.session.normalize import as_schema
from llm_fsm.turn.agreement import is_no, is_yes
from llm_fsm.turn.recognize import named_values

MAX_CHARS = 2000
"""The most characters of a message that are read."""
YES = frozenset(
    (
        "yes",
        "yeah",
        "yep",
        "y",
        "ok",
        "okay",
        "sure",
        "correct",
        "right",
        "that's right",
        "yes please",
        "i agree",
    )
)
NO = frozenset(("no", "nope", "n", "nothing", "no thanks", "no thank you", "skip"))
LEAVING = frozenset(("stop", "cancel", "quit", "exit", "abort", "bye", "goodbye"))
WAYS: Mapping[str, frozenset[str]] = {
    "cancel": LEAVING,
    "restart": frozenset(("restart", "start over", "start again")),
    "repeat": frozenset(("repeat", "say that again", "pardon")),
    "skip": frozenset(("skip", "skip that", "pass")),
    "back": frozenset(("back", "go back", "one step back")),
    "clarify": frozenset(("what do you mean", "i do not understand", "i don't understand")),
    "handover": frozenset(("human", "agent", "person", "operator")),
}
"""Repair pattern to the messages that name it."""
_TALK = (YES | NO | LEAVING | {"hello", "hi", "hey", "thanks", "thank you", "help"}).union(
    *WAYS.values()
)
"""Messages that are no free text."""
_POLITE = re.compile(
    r"^(?:(?:please|can you|could you|can i|i want|i need|i would like|to|talk|speak|an?) )+"
    r"|(?:,? (?:please|that|now))+$"
)
_NO_DAY = date(5, 1, 1)
"""A day from which no day is counted: only days with a year are certain."""
_PHONE = re.compile(r"(?<![\w.-])\+?\(?\d[\d ()/-]{3,22}\d\d(?![ ()/-]*\d|\w)")
_PHONES = re.compile(
    r"phone|mobile|fax|telef|téléph|handy|rufnummer|celular|cellulare|هاتف|電話", re.IGNORECASE
)
"""Titles of telephone numbers."""
_DIGITS = re.compile(r"[^\s,;!?()\"<>]*\d(?:[^\s;!?()\"<>]*[^\s,.;:!?()\"<>])?")
_NAMED = re.compile(r"(?:i'm|i am|my name is|it's|it is|this is|call me)\s+(.+)", re.IGNORECASE)
_CAPITALS = re.compile(r"(?:[^\W\d_a-z][^\W\d_]*(?:['’-][^\W\d_]+)*\.?\s*){1,4}")

_GREETED = re.compile(
    r"^(?:hi|hello|hey|good (?:morning|day|afternoon|evening))\b(?: there\b)?[\s,!.–-]*",
    re.IGNORECASE,
)
_NAME_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*\.?")
_PARTICLES = frozenset(
    ("van", "von", "der", "den", "de", "da", "di", "du", "del", "dos", "la", "le", "al", "el", "y")
)
"""Words of a name that have no capital."""
_OTHER_NAMES = re.compile(
    r"\b(?:company|product|file|project|business|event|team|brand|user|domain|host|shop|pet)",
    re.IGNORECASE,
)
"""Titles of names that are no person's."""
_CLAUSE = re.compile(
    r"[,.;!?:\n]\s|(?<!anything )(?<!everything )(?<!\ball )\bbut\b", re.IGNORECASE
)
"""The border of a part of a sentence. What is denied in one part is not denied in the next."""
_DENIED = re.compile(
    r"\b(?:not|no|never|neither|nor|cannot|without|except|besides|avoid|than|instead of"
    r"|apart from|other than|(?:any|every)thing but|all but|hates?|hated|dislikes?|loathe|detest)\b"
    r"|n['’]t\b",
    re.IGNORECASE,
)
"""Words before a value by which it is no choice."""
_DENIED_AFTER = re.compile(
    r"\b(?:not|never|cannot|hates?|dislikes?)\b|n['’]t\b|\bis (?:too|out|wrong)\b", re.IGNORECASE
)
_SHORT_ANSWERS = frozenset(("yes", "no", "none", "ok", "never"))
"""Choices that are common words: they count only as a clause of their own."""
_SHORT = re.compile(r"\s*(?:$|[,.;!]|please\b|thanks\b|thank you\b)", re.IGNORECASE)
_UNSURE = re.compile(
    r"(?:i have |i've )?no (?:idea|clue|preference)|(?:i )?(?:do not|don't|dunno|can't) (?:know|say|tell)"
    r"|dunno|(?:i am |i'm )?not sure|whatever|anything|it depends|hm+|who knows",
    re.IGNORECASE,
)
"""Messages that give no value."""


def folded(text: str) -> str:
    """Normalise words for comparison: without case and outer marks, and with "-" and "_" as blanks."""
    return re.sub(r"[\s_-]+", " ", text.casefold().replace("’", "'")).strip(" .!,;:")


def yes_or_no(said: Message) -> bool | None:
    """Return what a message that is nothing but a yes or a no means; None for another one."""
    text = folded(said.text)
    if text in YES or is_yes(said.tag, said.text):
        return True
    if text in NO or is_no(said.tag, said.text):
        return False
    return None


def _is_talk(said: Message) -> bool:
    """Return true for a message that is no free text."""
    own = language_of(said.tag)
    return wish(said.text) in _TALK or folded(said.text) in (*own.yes, *own.no)


def wish(text: str) -> str:
    """Return the folded words of a message without those that are only polite."""
    said = folded(text.rstrip("?"))
    return said if said in _TALK else _POLITE.sub("", said)


def read_update(view: PlainTurn, closed: Sequence[str] = ()) -> JsonDict:
    """Return the keys that the message sets, with values that their schemas accept.

    Args:
        view: The turn.
        closed: Known keys that keep a transition closed. A bare value corrects them if nothing else
            is asked for.
    """
    text = (view.user or "")[:MAX_CHARS].strip()
    said = Message(text, view.language)
    if not text or text.endswith("?") or _UNSURE.fullmatch(folded(text)):
        return {}
    asked = view.wanted or {key: view.writable[key] for key in closed}
    values = {key: _whole(schema, said, view.own_words) for key, schema in asked.items()}
    fitting = [key for key, value in values.items() if value is not None]
    if fitting and (view.wanted or len(fitting) == 1):
        return {fitting[0]: values[fitting[0]]}
    found, rest = _in_sentence(view, asked, said)
    if view.wanted and not _is_talk(said):
        key = next((key for key in view.wanted if key not in found), "")
        value = _remaining(key, view.wanted[key], said, rest, alone=not found) if key else None
        if value and accepts(view.wanted[key], value):
            found[key] = value
    return {key: value for key, value in found.items() if view.context.get(key) != value}


def _remaining(key: str, schema: JsonMap, said: Message, rest: str, *, alone: bool) -> Any:
    """Return the value that is all the rest of a message, for a key that takes any words.

    A name or a telephone number is never a whole sentence, and a message that names the key says
    its value behind it.
    """
    if is_free(schema):
        if is_name(key, schema):
            return _name(said.text if alone else rest)
        if _PHONES.search(label(key, schema)):
            return _phone(rest)
        if not alone or _titles(key, schema, said.text):
            return None
        return said.text
    if alone and type_of(schema) == "array":
        return _items(schema, said)
    return None


def _phone(text: str) -> str:
    """Return the only telephone number of a text; "" if there is none, or a digit beside it."""
    found = _PHONE.search(text)
    if found is None or re.search(r"\d", text[: found.start()] + text[found.end() :]):
        return ""
    return found.group()


def is_free(schema: JsonMap) -> bool:
    """Return true if any words can be the value."""
    return (
        type_of(schema) in ("", "string")
        and not options_of(schema)
        and accepts(schema, "some words")
    )


def _fitting(schema: JsonMap, values: Iterable[Any]) -> Any:
    """Return the first value that a schema takes, as values are read; None if it takes none."""
    with suppress(ShapeError):
        shape = compile_shape(schema)
        for value in values:
            read, reason = as_schema(shape, value)
            if reason is None:
                return read
    return None


def accepts(schema: JsonMap, value: Any) -> bool:
    """Return true if the schema accepts the value, or cannot be compiled."""
    try:
        return compile_shape(schema).fault(value) is None
    except ShapeError:
        return True


def type_of(schema: JsonMap) -> str:
    """Return the JSON type of a schema; "" if it has none."""
    kind = schema.get("type")
    kinds = [item for item in kind if item != "null"] if isinstance(kind, list) else [kind]
    return kinds[0] if kinds and isinstance(kinds[0], str) else ""


def options_of(schema: JsonMap) -> list[Any]:
    """Return the values of an enum, without null."""
    return [item for item in list_at(schema, "enum") if item is not None]


def _whole(schema: JsonMap, message: Message, shown: str) -> Any:
    """Return the whole message as a typed value; None if it is none."""
    text = message.text
    said, kind, options = folded(text), type_of(schema), options_of(schema)
    known = named_values(schema)
    if known:
        named = {folded(words): value for words, value in known} | dict(known)
        exact = named.get(text.strip(), named.get(said))
        if exact is not None or options:
            return exact if exact is not None else _numbered(said, schema, folded(shown))
    if kind == "boolean" and (answer := yes_or_no(message)) is not None:
        return answer
    plain = text.rstrip(".!,;")
    values = [text, plain, plain.upper()]
    if kind in ("integer", "number"):
        found = amounts(message)
        values = [one.value for one in found if re.search(r"\w", _without(text, one)) is None]
    elif kind not in ("", "string", "boolean") or is_free(schema) or _is_talk(message):
        return None
    return _fitting(schema, values)


def _numbered(said: str, schema: JsonMap, shown: str) -> Any:
    """Return the choice whose shown number is the whole message."""
    match = re.fullmatch(r"(?:the |number |option )*([^\W_]+)(?: one)?", said)
    number = next(iter(numbers(pieces(match[1]))), None) if match else None
    if number is None:
        return None
    for words, option in named_values(schema):
        if re.search(rf"(?<!\w){number.value:.0f}[.):]\s+{re.escape(folded(words))}(?!\w)", shown):
            return option
    return None


def _in_sentence(view: PlainTurn, asked: Schemas, said: Message) -> tuple[JsonDict, str]:
    """Read typed words: first those of keys that the message names, then those that fit only one
    asked key.

    Return the values, and the message without them.
    """
    update = {}
    schemas = {**view.writable, **view.wanted}
    rest = said.text
    named = _named_keys(schemas, rest)
    said = said._replace(titles=tuple(chain.from_iterable(named.values())))
    for key, found in _titled(schemas, named, said).items():
        update[key] = found.value
        rest = _without(rest, found)
    # A key that is named without one certain value is asked for: another value is not its own.
    open_keys = without(asked, update)
    unnamed = {
        key: schema for key, schema in open_keys.items() if key not in named or len(asked) == 1
    }
    said = said._replace(text=rest)
    fitting = {key: _typed(schema, said) for key, schema in unnamed.items()}
    for key, listed in fitting.items():
        others = set()
        for other, those in fitting.items():
            others |= {one.start for one in those} if other != key else set()
        if len(listed) == 1 and listed[0].start not in others:
            update[key] = listed[0].value
            rest = _without(rest, listed[0])
    return update, rest


def _named_keys(schemas: Schemas, text: str) -> dict[str, list[Span]]:
    """Return the keys that a message names, with the places; a longer title hides one inside it."""
    places = {key: _titles(key, schema, text) for key, schema in schemas.items()}
    every = list(chain.from_iterable(places.values()))
    found = {}
    for key, spans in places.items():
        own = [span for span in spans if not any(_is_within(span, other) for other in every)]
        if own:
            found[key] = own
    return found


def _is_within(span: Span, other: Span) -> bool:
    return span != other and other[0] <= span[0] and span[1] <= other[1]


def _titled(schemas: Schemas, named: Mapping[str, list[Span]], said: Message) -> dict[str, Found]:
    """Return the values that belong to the titles of keys.

    A value belongs to the title before it, up to the next title. Counts may also stand directly
    before their titles, if the first one does ("2 adults and 3 children").
    """
    starts = sorted(start for start, _ in chain.from_iterable(named.values()))
    counted = {key: _counted_before(schemas[key], spans, said) for key, spans in named.items()}
    first = min(named, key=lambda key: named[key][0], default=None)
    before = first is not None and counted[first] is not None
    found = {}
    for key, spans in named.items():
        if before:
            count = counted[key]
            if count is not None:
                found[key] = count
            continue
        values = []
        for _, end in spans:
            border = next((start for start in starts if start >= end), len(said.text))
            up_to = said._replace(text=said.text[:border])
            values += _behind_title(key, schemas[key], up_to, end)
        if len(values) == 1:
            found[key] = values[0]
    return found


def _counted_before(schema: JsonMap, spans: Sequence[Span], said: Message) -> Found | None:
    """Return the count directly before a title; None if there is none, or more than one."""
    if type_of(schema) not in ("integer", "number") or options_of(schema):
        return None
    found = []
    for start, _ in spans:
        gap = said.text[:start].rstrip()
        found += [one for one in _typed(schema, said) if one.end == len(gap)]
    return found[0] if len(found) == 1 else None


def _behind_title(key: str, schema: JsonMap, said: Message, end: int) -> list[Found]:
    """Return the values of a key in a text behind its title, which ends at a place."""
    if is_free(schema):
        return _stated(key, schema, said.text, end)
    return [one for one in _typed(schema, said) if one.start >= end]


def _without(text: str, found: Found) -> str:
    return text[: found.start] + " " * (found.end - found.start) + text[found.end :]


def _titles(key: str, schema: JsonMap, text: str) -> list[Span]:
    """Return the places where a message names a key."""
    found = map(_pattern, (label(key, schema), label(key, {})))
    titles = re.finditer(rf"(?<!\w)(?:{'|'.join(filter(None, found))})(?!\w)", text, re.IGNORECASE)
    return [match.span() for match in titles]


def _pattern(name: str) -> str:
    """Return a pattern of the words of a name, which blanks, "-" and "_" part; "" for no words."""
    return r"[\s_-]+".join(re.escape(word) for word in re.split(r"[\s_-]+", name) if word)


_STATED = re.compile(
    r"\s*(?::|=|\b(?:is|to|should be)\b)\s*(?:actually |now )?([^.!?\n]+)", re.IGNORECASE
)


_BESIDE = re.compile(r"\s+([^\W\d_a-z][^,;.!?\n]*)")


def _stated(key: str, schema: JsonMap, text: str, end: int) -> list[Found]:
    """Return the free text in "my city is Paris" or "change the city to Paris"."""
    named = is_name(key, schema)
    match = _STATED.match(text, end)
    if match is None and named:
        match = _BESIDE.match(text, end)
    if match is None:
        return []
    value = match[1].strip(" ,;")
    if named:
        leading = _CAPITALS.match(value)
        value = leading.group().strip() if leading else _name(value)
    elif _PHONES.search(label(key, schema)):
        value = _phone(value)
    if not value or not accepts(schema, value):
        return []
    return [Found(value, match.start(1), match.start(1) + len(value))]


def _typed(schema: JsonMap, said: Message) -> list[Found]:
    """Return the typed values in a message that a schema accepts, in their order, without overlaps.

    Values that the message denies do not count, and neither do digits that belong to something
    else.
    """
    kind, text = type_of(schema), said.text
    if options_of(schema):
        return _options(schema, text)
    if kind not in ("", "string", "integer", "number") or is_free(schema):
        return []
    found = []
    taken: list[Found] = []
    for one in amounts(said) if kind in ("integer", "number") else _tokens(said):
        if _is_apart(one.start, one.end, taken):
            taken.append(one)
            forms = one.value if isinstance(one.value, tuple) else (one.value,)
            value = _fitting(schema, forms)
            if value is not None and not is_denied(text, one.start, one.end):
                found.append(one._replace(value=value))
    return found


def _is_apart(start: int, end: int, found: Iterable[Found]) -> bool:
    """Return true if a place overlaps none of these."""
    return all(end <= one.start or one.end <= start for one in found)


def is_denied(text: str, start: int, end: int) -> bool:
    """Return True if a message says that it does not want what stands at a place in it."""
    borders = [match.end() for match in _CLAUSE.finditer(text, 0, start)]
    before = text[borders[-1] if borders else 0 : start]
    border = _CLAUSE.search(text, end)
    after = text[end : border.start() if border else len(text)]
    return bool(_DENIED.search(before) or _DENIED_AFTER.search(after))


def _options(schema: JsonMap, text: str) -> list[Found]:
    """Return the choices that a message names by whole words, the longest first.

    A choice that the message denies does not count.
    """
    found: list[Found] = []
    for name, option in sorted(named_values(schema), key=lambda item: -len(item[0])):
        words = _pattern(name)
        if not words:
            continue
        for match in re.finditer(rf"(?<![\w+#]){words}(?![\w+#])", text, re.IGNORECASE):
            if _is_apart(*match.span(), found) and _is_chosen(name, text, *match.span()):
                found.append(Found(option, *match.span()))
    same = {str(one.value) for one in found}
    return found[:1] if len(same) == 1 else found


def _is_chosen(name: str, text: str, start: int, end: int) -> bool:
    if folded(name) in _SHORT_ANSWERS:
        begins = not text[:start].strip() or text[:start].rstrip()[-1] in ",.;!"
        return begins and _SHORT.match(text, end) is not None
    return not is_denied(text, start, end)


def _tokens(said: Message) -> Iterator[Found]:
    """Yield the typed words of a message with their possible values, the most certain kinds first."""
    text = said.text
    moments: dict[Span, set[str]] = {}
    found = pieces(text, said.tag)
    for one in (*dates(found, _NO_DAY), *times(found)):
        moments.setdefault((one.start, one.end), set()).add(one.value)
    # "7:30" is a time of a clock of 24 hours, unless some word speaks of an afternoon.
    is_late = any(one.senses.get("half") == _AFTERNOON for one in found)
    for match in EMAIL.finditer(text):
        yield Found((match.group(),), *match.span())
    said_so: list[Found] = []
    is_unclear = False
    for (start, end), values in moments.items():
        first, written = min(values), text[start:end]
        if first.startswith("000") or (len(values) > 1 and ":" not in written):
            continue
        if not _is_apart(start, end, said_so):
            continue
        before = [one for one in found if one.end <= start]
        behind = [one for one in found if one.start >= end]
        is_unclear |= is_doubtful((*before, *behind)) or (is_late and len(values) > 1)
        is_unclear |= any(not _BOUNDS.isdisjoint(one.senses) for one in before[-1:])
        said_so.append(Found((first, f"{first}:00", f"{first}:00Z", written), start, end))
    for moment in said_so:
        yield moment._replace(value=()) if is_unclear else moment
    for match in (*_PHONE.finditer(text), *_DIGITS.finditer(text)):
        yield Found((match.group(), match.group().upper()), *match.span())


def is_name(key: str, schema: JsonMap) -> bool:
    """Return True if a key holds the name of a person."""
    titles = (label(key, schema), label(key, {}))
    named = any("name" in title.lower() for title in titles)
    return named and not any(_OTHER_NAMES.search(title) for title in titles)


def _name(text: str) -> str:
    """Return the name that a text consists of, perhaps behind a greeting and "I'm"; else ""."""
    plain = re.sub(r"^[\s,;]+|[\s,;.!]+$|\s+and\s*$", "", text.replace("’", "'"))
    plain = _GREETED.sub("", plain)
    match = _NAMED.match(plain)
    said = match[1] if match else plain
    name = _CAPITALS.fullmatch(said)
    if name is not None:
        return "" if wish(said) in _TALK else name.group()
    words = said.split()
    plain_name = words and all(map(_NAME_WORD.fullmatch, words)) and wish(said) not in _TALK
    others = [word for word in words if word.islower() and word not in _PARTICLES]
    if plain_name and len(words) <= _LONGEST_NAME and (not others or len(words) == 1):
        return said
    return ""


_AFTERNOON = 12
_BOUNDS = frozenset(("before", "after", "doubt"))
"""Kinds of words right before a day or a time that is not meant itself: "after 7:30"."""
_LONGEST_NAME = 5
"""The most words of a name."""


def _items(schema: JsonMap, said: Message) -> list[Any]:
    """Return the items of a list: "eggs, milk and bread"."""
    item = object_at(schema, "items")
    if options_of(item):
        return [one.value for one in sorted(_options(item, said.text), key=lambda one: one.start)]
    parts = [
        part for part in re.split(r"\s*(?:,|;|\n|\band\b|&)\s*", said.text.rstrip(".")) if part
    ]
    return (
        parts
        if is_free(item)
        else [
            value
            for part in parts
            if (value := _whole(item, Message(part, said.tag), "")) is not None
        ]
    )
