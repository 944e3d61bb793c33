"""From a model's text to a reply, or to one named fault.

Strict JSON comes first, then the object inside fences, prose or a thinking block. Then come a reply that
was cut off, and repair. Whatever comes in, the outcome is a `Reply` or a `ReplyError`. Its fault is one of
`empty`, `too-long`, `not-json`, `not-object`, `too-deep`, `several-objects`, `duplicate-key`,
`cut-off`, `no-target`, `no-message`.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from llm_fsm.conditions.coercion import all_mended, joined, may_be_halved, mended
from llm_fsm.definition.names import UNSEEN
from llm_fsm.errors import ReplyError
from llm_fsm.session.reply_schema import updates
from llm_fsm.turn.reply.reasoning import after_thoughts, unthought

MAX_CHARS = 1_000_000
_MAX_REPAIR_CHARS = 100_000
_MAX_CANDIDATES = 50
_MAX_DEPTH = 200
_MAX_WRAPS = 3
_OWN_KEYS = frozenset({"transition", "target_state", "message"})
_MAX_ENDINGS = 4
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}\[\],]', re.DOTALL)
_CLOSERS = {"{": "}", "[": "]"}
_HALF_ESCAPE = re.compile(
    r"((?<!\\)(?:\\\\)*)(?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u[0-9a-fA-F]{0,3})?)?$"
)
"""Half a character at the end of a text."""
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL
)
_TRANSITION = re.compile(r'"transition"\s*:\s*(?=\{)')
_TARGET = re.compile(r"target_state[\"']?\s*:")
_WORDS = re.compile(r'"message"\s*:\s*"[^"]')
_FENCE = re.compile(r"```[A-Za-z0-9_-]*\s*\n?(.*?)```", re.DOTALL)
_BEGUN = re.compile(
    r"(?:```[A-Za-z]*\s*)?\{\s*"
    r'(?:"[a-z_]*$|"(?:transition|target_state|context_update|message|reasoning)"\s*(?::|$)|$)'
)
"""The beginning of a reply, however little of it has arrived."""
_NUMERAL = re.compile(
    r'"[^"\\]*(?:\\.[^"\\]*)*"|(?P<before>[:,\[]\s*)(?P<digits>\+[0-9]+|0[0-9]+)(?=\s*[,}\]])', re.DOTALL
)
"""Digits that are no JSON number, and mean a text: phone numbers and postcodes that a model sent without quotes."""
_ODD = ("{", "```", "<", "[", "◁")
"""Beginnings of words that may be a reply or a thought."""


class Reply(NamedTuple):
    """One reply of the model: what it wants. `message` is empty where it sent no words; `update` is as sent, unchecked.

    `update_fault` says why a `context_update` was not an object and so counts as empty.
    """

    target: str
    update: Mapping[str, Any]
    message: str = ""
    reasoning: str = ""
    update_fault: str | None = None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: dict[str, Any] = {}
        for key, value in pairs:
            if key in seen and seen[key] != value:
                raise ReplyError("duplicate-key", f"the key {json.dumps(key)} stands twice with two values")
            seen[key] = value
    return found


def _whole_number(digits: str) -> int | float:
    return int(digits) if len(digits) <= 20 else float("inf")


# NaN, Infinity and numbers of thousands of digits are read as floats that no context accepts, so that
# the one bad value is refused and the rest of the reply counts. Raw line breaks in strings are forgiven.
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_whole_number, strict=False)


def decode(text: str) -> Any:
    """Decode strict JSON of a reply or of a call's arguments.

    Raises:
        ValueError: It is no JSON.
        ReplyError: It cannot count: a key stands twice with two values, or it is nested too deep.
    """
    try:
        value, end = _DECODER.raw_decode(text)  # takes less than `decode`, which looks for spaces around it
        return value if end == len(text) else _DECODER.decode(text)
    except RecursionError:
        raise ReplyError("too-deep", "the reply is nested too deep") from None


def only_object(text: str) -> dict[str, Any] | None:
    """Return the one object that stands whole among other words; None where there is none, or another brace.

    Raises:
        ReplyError: As `decode`.
    """
    start = text.find("{")
    if start < 0:
        return None
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and "{" not in text[end:] else None


def _objects(text: str) -> list[dict[str, Any]]:
    """Return every complete JSON object in a text, outermost ones only. Raises ReplyError, RecursionError."""
    found: list[dict[str, Any]] = []
    position = text.find("{")
    tries = 0
    while position >= 0 and tries < _MAX_CANDIDATES:
        tries += 1
        try:
            value, end = _DECODER.raw_decode(text, position)
        except ValueError:
            end = position + 1
        else:
            if isinstance(value, dict):
                found.append(value)
        position = text.find("{", end)
    return found


def _has_target(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    transition = value.get("transition")
    target = transition.get("target_state") if isinstance(transition, dict) else None
    return isinstance(target, str) and target.strip(UNSEEN) != ""


def _is_flat(value: object) -> bool:
    """Return true for a reply with all of it on one level."""
    return _has_target({"transition": value})


def _chosen(objects: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the one object that is a reply, or holds one. Raises ReplyError when there are several different ones."""
    replies = [item for item in objects if _has_target(item)]
    if not replies and not any(map(_is_flat, objects)):
        replies = [held for item in objects if (held := _held(item)) is not None]
    if not replies:
        return None
    if any(item != replies[0] for item in replies[1:]):
        raise _several()
    return replies[0]


def _held(value: Mapping[str, Any], depth: int = 0) -> dict[str, Any] | None:
    """Return the one reply in an object that is a written-out call of a tool, or a filled-in schema."""
    if depth == _MAX_WRAPS or not _OWN_KEYS.isdisjoint(value):
        return None
    inner = [item for part in value.values() if (item := _object_in(part)) is not None]
    found = [item for item in inner if _has_target(item) or ("message" in item and _is_flat(item))]
    found = found or [held for item in inner if (held := _held(item, depth + 1)) is not None]
    return found[0] if len(found) == 1 else None


def _object_in(value: object) -> dict[str, Any] | None:
    """Return an object, as it is or as the JSON text of one; None for anything else."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        with suppress(ValueError, ReplyError):
            value = decode(value.strip())
    return value if isinstance(value, dict) else None


def _several() -> ReplyError:
    return ReplyError("several-objects", "the reply holds several different JSON objects; send exactly one")


def _endings(text: str) -> list[tuple[str, str]]:
    """Return a JSON text that stops too early, closed in each way that may be right, with what each leaves out.

    Empty where nothing is open. What ends in the middle of an escape loses that. Raises ReplyError.
    """
    closers, ended = "", True
    places: deque[tuple[int, str]] = deque(maxlen=_MAX_ENDINGS)
    for token in _TOKEN.finditer(text):
        mark = token.group()
        if mark in _CLOSERS:
            closers = _CLOSERS[mark] + closers
            places.append((token.end(), closers))
            if len(closers) > _MAX_DEPTH:
                raise ReplyError("too-deep", "the reply is nested too deep")
        elif mark == ",":
            places.append((token.start(), closers))
        elif mark in "}]":
            closers = closers[1:]
        else:
            ended = len(mark) > 1 and mark[-1] == '"'
    if not closers:
        return []
    whole = text if ended else _HALF_ESCAPE.sub(r"\1", text) + '"'
    return [(whole + closers, ""), *((text[:end] + closed, text[end:]) for end, closed in reversed(places))]


def _cut_off(endings: Iterable[tuple[str, str]]) -> Any:
    """Return the complete part of a reply that ends in the middle, past its transition; None where it is no JSON."""
    for ending, left_out in endings:
        with suppress(ValueError):
            if (whole := decode(ending)) and _WORDS.search(left_out) is None:
                return _uncut(whole)
    return None


def _uncut(value: Any) -> Any:
    """Return a reply cut off outside its transition, or in words that end its transition. Raises ReplyError."""
    if _has_target(value):
        parts = list(value["transition"])
        if list(value)[-1] != "transition" or ("context_update" in parts and parts[-1] == "message"):
            return value
    raise ReplyError("cut-off", "the reply ends in the middle of its transition")


def _repaired(text: str) -> Any:
    start = text.find("{")
    if start < 0 or len(text) - start > _MAX_REPAIR_CHARS:
        return None
    from json_repair import loads  # noqa: PLC0415 - only broken replies need it

    try:
        value = loads(_ESCAPE.sub(_unescaped, quoted(text[start:])), skip_json_loads=True)
    except (RecursionError, ValueError, IndexError, TypeError, KeyError, AttributeError):
        return None
    if isinstance(value, list):
        value = _chosen([item for item in value if isinstance(item, dict)])
    if value is not None and len(_TARGET.findall(text)) > 1:
        raise _several()  # of objects that have the same keys, json_repair gives the last
    return _with_its_transition(value, text)


def _with_its_transition(value: Any, text: str) -> Any:
    """Return a repaired reply with its transition as sent, where that is sound: repairing words changes no value."""
    places = list(_TRANSITION.finditer(text))
    if len(places) != 1 or not isinstance(value, dict) or "transition" not in value:
        return value
    try:
        return {**value, "transition": _DECODER.raw_decode(text, places[0].end())[0]}
    except (ValueError, RecursionError, ReplyError):
        return value


def quoted(text: str) -> str:
    """Return a reply with numerals that mean a text in quotes, up to its words, in which nothing is looked for.

    What reads broken JSON takes them for numbers, and a leading zero or plus is lost.
    """
    head, words, rest = text.partition('"message"')
    return _NUMERAL.sub(_in_quotes, head) + words + rest


def _in_quotes(found: re.Match[str]) -> str:
    return found[0] if found["digits"] is None else f'{found["before"]}"{found["digits"]}"'


def _unescaped(found: re.Match[str]) -> str:
    """Return an escape as the character itself where both mean the same: json_repair does not know all."""
    escape = found.group()
    if escape == r"\/":
        return "/"
    if escape[1] != "u" or len(escape) < len(r"\u0000"):
        return escape
    character: str = json.loads(f'"{escape}"')
    return escape if character in '"\\' or character < " " else character


def _find(text: str) -> Any:
    """Return the JSON value that a text means. Raises ReplyError."""
    if text.startswith(("{", '"')):
        try:
            value = decode(text)
        except ValueError as error:
            if (whole := _without_one_brace(text, error)) is not None:
                return whole
        else:
            return _find(value) if isinstance(value, str) and value.startswith("{") else value
    body = after_thoughts(text)
    for candidate in (*_FENCE.findall(body)[:5], body):
        chosen = _chosen(_objects(candidate))
        if chosen is not None:
            return chosen
    start = body.find("{")
    if start < 0:
        raise ReplyError("not-json", "the reply holds no JSON object")
    with suppress(ValueError):
        flat, end = _DECODER.raw_decode(body, start)
        if _is_flat(flat) and "{" not in body[end:]:
            return flat
    endings = _endings(body[start:])
    if (found := _cut_off(endings)) is not None:
        return found
    value = _repaired(body)
    if value is None:
        raise ReplyError("not-json", "the reply is not valid JSON and could not be repaired")
    return _uncut(value) if endings else value


def _without_one_brace(text: str, error: ValueError) -> dict[str, Any] | None:
    """Return the reply in a text that closes it once too often before its message, and is else sound."""
    if not isinstance(error, json.JSONDecodeError) or error.msg != "Extra data" or text[error.pos] != ",":
        return None
    with suppress(ValueError, ReplyError):
        whole = decode(text[: error.pos].rstrip()[:-1] + text[error.pos :])
        return whole if _has_target(whole) else None
    return None


def _text(value: object) -> str:
    return mended(value.strip()) if isinstance(value, str) else ""


def _spoken(value: object) -> str:
    """Return the words of a message without a thought before them, or those of a reply within it."""
    text = _text(value)
    if not text.startswith(_ODD):
        return text
    text = unthought(text)
    found = _once_more(text)
    return text if found is None else _words(found)


def _once_more(text: str) -> Mapping[str, Any] | None:
    """Return a reply that stands where words should, as much as came of it; None where there are words."""
    if not text.startswith(("{", "```")):
        return None
    whole = True
    try:
        found: dict[str, Any] = decode(text)
    except (ValueError, ReplyError):
        if _BEGUN.match(text) is None:
            return None
        whole = False
        try:
            found = document(text)
        except ReplyError:
            return {}
    if _has_target(found) or _is_flat(found) or isinstance(found.get("message"), str):
        return found
    return None if whole else {}  # JSON that was meant to be read, or the beginning of a reply without words


def _words(found: Mapping[str, Any]) -> str:
    """Return the words of a reply; those that stand in its transition, where it has none of its own."""
    return _spoken(found.get("message")) or _spoken((_object_in(found.get("transition")) or {}).get("message"))


def document(text: str) -> dict[str, Any]:
    """Return the JSON object that a text means, a reply or not. Raises ReplyError."""
    if len(text) > MAX_CHARS:
        raise ReplyError("too-long", f"the reply is {len(text)} characters long; at most {MAX_CHARS} are read")
    stripped = (joined(text) if (halved := may_be_halved(text)) else text).strip().lstrip("\ufeff")
    if not stripped:
        raise ReplyError("empty", "the reply is empty")
    try:
        value = all_mended(_find(stripped)) if halved else _find(stripped)
    except RecursionError:
        raise ReplyError("too-deep", "the reply is nested too deep") from None
    if not isinstance(value, dict):
        raise ReplyError("not-object", "the reply is not a JSON object")
    return value


def parse(text: str) -> Reply:
    """Return the reply that a text means: in the form asked for, or with all of it on one level. Raises ReplyError."""
    found = document(text)
    if (transition := _move(found)) is None:
        found = _held(found) or found
        transition = _move(found)
    if transition is None:
        raise ReplyError("no-target", 'the reply lacks "transition": {"target_state": "…"}')
    update, fault = transition.get("context_update"), None
    if not isinstance(update, dict):
        update, fault = _update(found, transition)
    reasoning = _text(found.get("reasoning"))[:4000]
    return Reply(transition["target_state"].strip(UNSEEN), update, _words(found), reasoning, fault)


def _move(found: dict[str, Any]) -> dict[str, Any] | None:
    """Return the part of a reply that names its target; None where nothing does."""
    transition = found.get("transition", found)
    if not isinstance(transition, dict):
        transition = _object_in(transition) or {}
    target = transition.get("target_state")
    return transition if isinstance(target, str) and target.strip(UNSEEN) else None


def _update(found: dict[str, Any], transition: dict[str, Any]) -> tuple[Mapping[str, Any], str | None]:
    """Return the update of a reply that is none as it stands, and what is wrong with it.

    One beside the transition counts only where it stands before the words: these are shown once the move was checked.
    """
    update = transition.get("context_update")
    if update is None and transition is not found and (update := found.get("context_update")) is not None:
        keys = list(found)
        if "message" in found and keys.index("message") < keys.index("context_update"):
            return {}, "context_update must stand in transition"
    if update is None:
        return {}, None
    known = updates(update) if isinstance(update, list) else _object_in(update)
    return ({}, "context_update must be an object") if known is None else (known, None)


def parse_words(text: str) -> str:
    """Return the message of a reply in which nothing else counts (greeting, words after a move). Raises ReplyError."""
    found = document(text)
    words = _words(found) or _words(_held(found) or {})
    if not words:
        raise ReplyError("no-message", 'the reply lacks "message"')
    return words
