"""Values that a text may hold for a key, by the key's JSON Schema and simple patterns: English only.

Each reader yields candidates as (value, start, end), the likeliest first; what the schema refuses is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from llm_fsm.definition.json_schema.validator import Shape, ShapeError, compile_shape
from llm_fsm.llm.offline.moments import COUNTS, ISO_DATE, clock_times, dates
from llm_fsm.llm.offline.vocabulary import GREETINGS, NO, YES, polarity, stem, stems, words, words_of

Schema: TypeAlias = Mapping[str, Any]
Candidate: TypeAlias = tuple[Any, int, int]


@dataclass(frozen=True, slots=True)
class Heard:
    """What a reader is given: the text, the key's schema, and the time in seconds since the epoch."""

    text: str
    schema: Schema
    now: float | None


Reader: TypeAlias = Callable[[Heard], Iterator[Candidate]]

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_EMAIL = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s<>\"]+[^\s<>\".,;:!?)]")
_UUID = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?")
_PHONE = re.compile(r"\+?\(?\d[\d\s()./-]{4,24}\d")
_NUMBER = re.compile(
    r"(?<![\w.])[-−]?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w])|(?<![\w.])[-−]?\d+(?:\.\d+)?(?!\w)"
)
_NUMBERED = re.compile(
    rf"(?:(?:i'?ll take|i take|take|the|option|number|no\.?|choice|#)\s*)*"
    rf"(?:\d+|{'|'.join((*COUNTS, *_ORDINALS))})(?:\s+(?:one|option|please))*[.!]?",
    re.IGNORECASE,
)
_SURE_NAME = re.compile(
    r"\b(?:my (?:full |first |last )?name(?:'s| is)|the name(?:'s| is)|name is|name:|call me|i am called|i'm called"
    r"|change my name to)\s+(?:actually |now )?",
    re.IGNORECASE,
)
_LIKELY_NAME = re.compile(r"\b(?:i'm|i am|im|it's|it is|this is)\s+", re.IGNORECASE)
_NAME_WORD = re.compile(r"[^\W\d_]+(?:['’.-][^\W\d_]+)*\.?")
_PARTICLES = words("van von de der den da di la le bin al el dos du of")
_NO_NAMES = words(
    "i a an the not and but or so very here looking trying calling having going interested fine good well happy glad "
    "sorry afraid just still also from in at on about to my your it's i'm it that this what please thanks thank you "
    "we is are was can could would need want have help cancel stop bye goodbye quit exit back "
    "hm hmm um uh eh oh wow nice cool maybe later"
)
_PERMISSIVE = "hello"


def read_values(key: str, schema: Schema, text: str, now: float | None) -> Iterator[Candidate]:
    """The values that the text holds for the key, with their places; the likeliest first.

    `now`: seconds since the epoch, from which "tomorrow" counts. Free texts are not read here.
    """
    shape = _shape(schema)
    for reader in _readers(key, schema):
        for value, start, end in reader(Heard(text, schema, now)):
            if shape is None or shape.fault(value) is None:
                yield value, start, end


def is_free_text(key: str, schema: Schema) -> bool:
    """Whether any words can be the key's value."""
    return type_of(schema) in {"", "string"} and not _readers(key, schema)


def accepts(schema: Schema, value: Any) -> bool:
    """Whether the schema, as far as it can be compiled, lets the value pass."""
    shape = _shape(schema)
    return shape is None or shape.fault(value) is None


def type_of(schema: Schema) -> str:
    """The JSON type that is wanted, "" where the schema does not say."""
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((item for item in kind if item != "null"), "")
    return kind if isinstance(kind, str) else ""


def options_of(schema: Schema) -> list[Any]:
    """The values of an enum or const, without null."""
    if "const" in schema:
        return [schema["const"]]
    listed = schema.get("enum")
    return [item for item in listed if item is not None] if isinstance(listed, list) else []


def key_words(key: str, schema: Schema) -> list[str]:
    """The words by which people call the key: those of its name and title."""
    return words_of(f"{key.replace('_', ' ')} {schema.get('title') or ''}")


def is_self_evident(key: str, schema: Schema) -> bool:
    """Whether a value of this key is known by its look alone."""
    return rank(key, schema) <= _RANK[_options]


def is_unmistakable(key: str, schema: Schema) -> bool:
    """Whether it is known so surely that the key may be set although nobody asked for it."""
    return rank(key, schema) <= _RANK[_times]


def rank(key: str, schema: Schema) -> int:
    """How peculiar values of this key look: those of lower rank are read first."""
    return min((_RANK[reader] for reader in _readers(key, schema)), default=len(_RANK))


def _shape(schema: Schema) -> Shape | None:
    try:
        return compile_shape(schema)
    except ShapeError:
        return None


def _readers(key: str, schema: Schema) -> Sequence[Reader]:
    kind = type_of(schema)
    if options_of(schema):
        return (_options,)
    if kind in _BY_TYPE:
        return (_BY_TYPE[kind],)
    if kind not in {"", "string"}:
        return ()
    named = set(key_words(key, schema))
    wanted = schema.get("format")
    if isinstance(wanted, str) and wanted in _BY_FORMAT:
        return (_BY_FORMAT[wanted],)
    found = [reader for words, reader in _BY_NAME if named & words]
    described = set(words_of(str(schema.get("description") or "")))
    if not found and "name" in described and not described & {"username", "file", "company", "product"}:
        found = [_names]
    if kind == "" and not found and named & {"age", "quantity", "count", "amount", "guests"}:
        found = [_numbers]
    if "pattern" in schema and not _fits(schema, _PERMISSIVE):
        found += [reader for sample, reader in _BY_SAMPLE if _fits(schema, sample) and reader not in found]
        found.append(_tokens)
    return found


def _fits(schema: Schema, sample: str) -> bool:
    return accepts({"pattern": schema["pattern"]}, sample)


def _matches(pattern: re.Pattern[str], text: str) -> Iterator[Candidate]:
    for match in pattern.finditer(text):
        yield match.group(), match.start(), match.end()


def _emails(heard: Heard) -> Iterator[Candidate]:
    return _matches(_EMAIL, heard.text)


def _uris(heard: Heard) -> Iterator[Candidate]:
    return _matches(_URI, heard.text)


def _uuids(heard: Heard) -> Iterator[Candidate]:
    return _matches(_UUID, heard.text)


def _phones(heard: Heard) -> Iterator[Candidate]:
    for raw, start, end in _matches(_PHONE, heard.text):
        digits = re.sub(r"\D", "", raw)
        if len(digits) >= 6 and not ISO_DATE.fullmatch(raw):
            yield from ((form, start, end) for form in (raw, digits, f"+{digits}"))


def _numbers(heard: Heard) -> Iterator[Candidate]:
    for raw, start, end in _matches(_NUMBER, heard.text):
        number = float(raw.replace(",", "").replace("−", "-"))
        if abs(number) < 1e15:
            yield (int(number) if number.is_integer() else number), start, end
    for match in re.finditer(rf"\b({'|'.join(COUNTS)})\b", heard.text, re.IGNORECASE):
        yield COUNTS.index(match.group().lower()), match.start(), match.end()


def _booleans(heard: Heard) -> Iterator[Candidate]:
    said = polarity(heard.text)
    if said is not None:
        yield said, 0, 0


def _options(heard: Heard) -> Iterator[Candidate]:
    """The listed values that the text names, the longest first; else the one that it numbers or hints at."""
    options = options_of(heard.schema)
    numeric = any(isinstance(option, int | float) for option in options)
    found = [item for item in _numbers(heard) if item[0] in options] if numeric else []
    found += [item for item in _booleans(heard) if item[0] in options]
    spoken = [(stem(match.group().lower()), match) for match in re.finditer(r"[^\W_]+", heard.text)]
    for option in sorted(options, key=lambda option: -len(str(option))):
        found += _named(str(option), option, spoken)
    yield from found
    if found or numeric:
        return
    if _NUMBERED.fullmatch(heard.text.strip()):
        for number, start, end in (*_ordinals(heard.text), *_numbers(heard)):
            if isinstance(number, int) and 1 <= number <= len(options):
                yield options[number - 1], start, end
    said = stems([heard.text]) - YES - NO
    hints = [option for option in options if len(words_of(str(option))) > 1 and stems([str(option)]) & said]
    if len(hints) == 1:
        yield hints[0], 0, 0


def _named(name: str, option: Any, spoken: Sequence[tuple[str, re.Match[str]]]) -> Iterator[Candidate]:
    """Where the text says the option's words, except after "not"."""
    parts = [stem(word) for word in words_of(name)] or [name]
    for at in range(len(spoken) - len(parts) + 1):
        said = [word for word, _ in spoken[at : at + len(parts)]]
        if said == parts and (at == 0 or spoken[at - 1][0] not in {"not", "no"}):
            yield option, spoken[at][1].start(), spoken[at + len(parts) - 1][1].end()


def _ordinals(text: str) -> Iterator[Candidate]:
    for match in re.finditer(rf"\b({'|'.join(_ORDINALS)})\b", text, re.IGNORECASE):
        yield _ORDINALS.index(match.group().lower()) + 1, match.start(), match.end()


def _dates(heard: Heard) -> Iterator[Candidate]:
    return dates(heard.text, heard.now)


def _times(heard: Heard) -> Iterator[Candidate]:
    for hour, minute, start, end in clock_times(heard.text):
        for form in ("{:02}:{:02}", "{:02}:{:02}:00", "{:02}:{:02}:00Z"):
            yield form.format(hour, minute), start, end


def _moments(heard: Heard) -> Iterator[Candidate]:
    yield from _matches(_MOMENT, heard.text)
    for day, start, end in dates(heard.text, heard.now):
        rest = heard.text[:start] + " " * (end - start) + heard.text[end:]
        for hour, minute, begin, stop in clock_times(rest):
            yield f"{day}T{hour:02}:{minute:02}:00Z", min(start, begin), max(end, stop)


def _names(heard: Heard) -> Iterator[Candidate]:
    """Names after "my name is", "I'm" and the like; else a short message that can be nothing but a name."""
    text, plain = heard.text, heard.text.replace("’", "'")
    for pattern, sure in ((_SURE_NAME, True), (_LIKELY_NAME, False)):
        for match in pattern.finditer(plain):
            start, end = match.end(), _name_end(plain, match.end(), sure)
            if end > start:
                yield text[start:end], start, end
    words = list(_NAME_WORD.finditer(plain))
    while words and words[0].group().lower() in GREETINGS:
        words.pop(0)
    if not words or len(words) > 4 or re.search(r"[\d@?/:]", plain):
        return
    if not any(word.group().lower() in _NO_NAMES | YES | NO for word in words):
        yield text[words[0].start() : words[-1].end()].rstrip("."), words[0].start(), words[-1].end()


def _name_end(text: str, start: int, sure: bool) -> int:
    """Where the name that begins at `start` ends; `start` itself when there is none."""
    end = start
    for count, word in enumerate(_NAME_WORD.finditer(text, start, start + 80)):
        said = word.group().rstrip(".")
        if text[end : word.start()].strip() or count >= 4 or said.lower() in _NO_NAMES:
            break
        capital = said[:1].isupper()
        if not capital and not (said.lower() in _PARTICLES and end > start) and (not sure or count > 1):
            break
        end = word.start() + len(said)
    return end


def _tokens(heard: Heard) -> Iterator[Candidate]:
    """Everything that may fit a `pattern`: the whole text, then runs of up to four words, shortest first."""
    text = heard.text
    stripped = text.strip().rstrip(".!?,;")
    yield stripped, 0, len(text)
    spans = [(match.start(), match.end()) for match in re.finditer(r"[^\s,;]*[^\s,;.!?]", text)][:200]
    for size in range(1, 5):
        for at in range(len(spans) - size + 1):
            start, end = spans[at][0], spans[at + size - 1][1]
            said = text[start:end]
            yield from ((form, start, end) for form in (said, said.upper(), re.sub(r"[\s-]", "", said)))


_BY_TYPE: Mapping[str, Reader] = {"integer": _numbers, "number": _numbers, "boolean": _booleans}
_BY_FORMAT: Mapping[str, Reader] = {
    "email": _emails,
    "idn-email": _emails,
    "uri": _uris,
    "url": _uris,
    "iri": _uris,
    "uuid": _uuids,
    "date": _dates,
    "time": _times,
    "date-time": _moments,
    "phone": _phones,
    "tel": _phones,
}
_BY_SAMPLE: tuple[tuple[str, Reader], ...] = (
    ("12:34", _times),
    ("2026-01-31", _dates),
    ("ada@example.org", _emails),
)
"""What a `pattern` is likely to be for, by a text that it matches."""

_BY_NAME: tuple[tuple[frozenset[str], Reader], ...] = (
    (frozenset({"email", "mail"}), _emails),
    (frozenset({"phone", "telephone", "mobile", "tel", "cell"}), _phones),
    (frozenset({"url", "website", "uri"}), _uris),
    (frozenset({"uuid"}), _uuids),
    (frozenset({"time"}), _times),
    (frozenset({"name", "firstname", "lastname", "surname", "fullname"}), _names),
)
_ORDER = (
    _emails,
    _uris,
    _uuids,
    _moments,
    _dates,
    _times,
    _phones,
    _options,
    _tokens,
    _numbers,
    _names,
    _booleans,
)
_RANK: Mapping[Reader, int] = {reader: position for position, reader in enumerate(_ORDER)}
