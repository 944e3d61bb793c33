"""From a model's text to a reply, or to one named fault.

Strict JSON comes first, then the object inside fences, prose or a thinking block. Then come a reply
that was cut off, and repair. Whatever comes in, the outcome is a `Reply` or a `ReplyError`. Its
fault is one of `empty`, `too-long`, `not-json`, `not-object`, `too-deep`, `several-objects`,
`duplicate-key`, `cut-off`, `no-target`, `no-message`.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from llm_fsm._json import JsonDict, JsonMap, of_kind
from llm_fsm.conditions.coercion import all_mended, joined, may_be_halved, mended
from llm_fsm.definition.names import UNSEEN
from llm_fsm.errors import ReplyError
from llm_fsm.session.placeholders import is_dots
from llm_fsm.session.reply_schema import updates
from llm_fsm.turn.reply.reasoning import after_thoughts, unthought

MAX_CHARS = 1_000_000
"""A model that repeats itself without end must not hold up the conversation."""
_MAX_REPAIR_CHARS = 100_000
"""Characters of a broken reply that are repaired. The repair reads some texts in quadratic time."""
_MAX_CANDIDATES = 50
"""Braces at which a whole object is looked for."""
_MAX_DEPTH = 200
"""No reply is nested so deep. The limit bounds the work on hostile text."""
_MAX_WRAPS = 3
"""Objects around a reply: a call of a tool, its arguments, and one more that some models add."""
_MAX_FENCES = 5
"""A reply is in one of the first code fences, if it is in one. Each is tried as JSON."""
_MAX_REASONING = 4000
"""Reasoning is only recorded. Nothing is decided by it."""
_OWN_KEYS = frozenset({"transition", "target_state", "message", "question"})
_MAX_ENDINGS = 4
"""Places at which a reply that was cut off is closed. The last few lose the least."""
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}\[\],]', re.DOTALL)
_CLOSERS = {"{": "}", "[": "]"}
_HALF_ESCAPE = re.compile(
    r"((?<!\\)(?:\\\\)*)(?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u[0-9a-fA-F]{0,3})?)?$"
)
"""Half a character at the end of a text."""
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL
)
_PLACES = {
    "transition": re.compile(r'"transition"\s*:\s*(?=\{)'),
    "context_update": re.compile(r'"context_update"\s*:\s*(?=[\{\[])'),
}
_TARGET = re.compile(r"target_state[\"']?\s*:")
_WORDS = re.compile(r'"(?:message|question)"\s*:\s*"[^"]')
_FENCE = re.compile(r"```[A-Za-z0-9_-]*\s*\n?(.*?)```", re.DOTALL)
_BEGUN = re.compile(
    r"(?:```[A-Za-z]*\s*)?\{\s*"
    r'(?:"[a-z_]*$|"(?:transition|target_state|context_update|message|question|reasoning)"\s*(?::|$)|$)'
)
"""The beginning of a reply, however little of it has arrived."""
_NUMERAL = re.compile(
    r'"[^"\\]*(?:\\.[^"\\]*)*"'
    r"|(?P<before>[:,\[]\s*)(?P<digits>\+[0-9]+|0[0-9]+)(?=\s*[,}\]])",
    re.DOTALL,
)
"""Digits that are no JSON number, and mean a text: phone numbers and postcodes without quotes."""
_ODD = ("{", "```", "<", "[", "◁")
"""Beginnings of a message that may be a reply or a thought."""


class Reply(NamedTuple):
    """One reply of the model.

    `message` is empty if it sent no text. `question` is None if it has no such field: an older
    form, whose message may ask. `update` is as sent, unchecked. `update_fault` says why a
    `context_update` was not an object and so counts as empty.
    """

    target: str
    update: JsonMap
    message: str = ""
    reasoning: str = ""
    update_fault: str | None = None
    question: str | None = None


# -- JSON ------------------------------------------------------------------------------------------


def _object(pairs: list[tuple[str, Any]]) -> JsonDict:
    values = dict(pairs)
    if len(values) == len(pairs):
        return values
    seen: JsonDict = {}
    for key, value in pairs:
        if key in seen and seen[key] != value:
            name = json.dumps(key)
            raise ReplyError("duplicate-key", f"the key {name} stands twice with two values")
        seen[key] = value
    return values


def _whole_number(digits: str) -> int | float:
    return int(digits) if len(digits) <= 20 else float("inf")


# NaN, Infinity and numbers of thousands of digits are read as floats that no context accepts, so
# that the one bad value is refused and the rest of the reply counts. Raw line breaks in strings are
# forgiven.
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_whole_number, strict=False)


def decode(text: str) -> Any:
    """Decode strict JSON of a reply or of a call's arguments.

    Raises:
        ValueError: It is not JSON.
        ReplyError: It cannot count: a key has two values, or it is nested too deep.
    """
    try:
        # `raw_decode` costs less than `decode`, which looks for spaces around the value
        value, end = _DECODER.raw_decode(text)
        return value if end == len(text) else _DECODER.decode(text)
    except RecursionError:
        raise ReplyError("too-deep", "the reply is nested too deep") from None


def only_object(text: str) -> JsonDict | None:
    """Return the one object in a text that is whole; None if there is none, or another brace
    follows.

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
    if not isinstance(value, dict) or "{" in text[end:]:
        return None
    return value


def _objects(text: str) -> list[JsonDict]:
    """Return the complete JSON objects in a text, outermost ones only.

    Raises ReplyError, RecursionError.
    """
    objects: list[JsonDict] = []
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
                objects.append(value)
        position = text.find("{", end)
    return objects


def _object_in(value: object) -> JsonDict | None:
    """Return an object, as it is or as the JSON text of one; None for anything else."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        with suppress(ValueError, ReplyError):
            value = decode(value.strip())
    return value if isinstance(value, dict) else None


# -- The reply among objects -----------------------------------------------------------------------


def _names_target(value: JsonMap) -> bool:
    target = value.get("target_state")
    return isinstance(target, str) and target.strip(UNSEEN) != ""


def _has_target(value: object) -> bool:
    """Return true for a reply in the form that was asked for."""
    if not isinstance(value, dict):
        return False
    transition = value.get("transition")
    return isinstance(transition, dict) and _names_target(transition)


def _is_flat(value: object) -> bool:
    """Return true for a reply with all of it on one level."""
    return isinstance(value, dict) and _names_target(value)


def _chosen(objects: list[JsonDict]) -> JsonDict | None:
    """Return the one object that is a reply, or holds one.

    Raises ReplyError if there are several different ones.
    """
    replies = [item for item in objects if _has_target(item)]
    if not replies and not any(map(_is_flat, objects)):
        replies = _all_held(objects)
    if not replies:
        return None
    if any(item != replies[0] for item in replies[1:]):
        raise _several()
    return replies[0]


def _all_held(objects: Iterable[JsonDict], depth: int = 0) -> list[JsonDict]:
    held = (_held(item, depth) for item in objects)
    return [item for item in held if item is not None]


def _held(value: JsonMap, depth: int = 0) -> JsonDict | None:
    """Return the one reply in an object that is a written-out call of a tool, or a filled-in
    schema.
    """
    if depth == _MAX_WRAPS or not _OWN_KEYS.isdisjoint(value):
        return None
    parts = map(_object_in, value.values())
    inner = [item for item in parts if item is not None]
    replies = [item for item in inner if _is_reply(item)]
    if not replies:
        replies = _all_held(inner, depth + 1)
    return replies[0] if len(replies) == 1 else None


def _is_reply(item: JsonDict) -> bool:
    return _has_target(item) or ("message" in item and _is_flat(item))


def _several() -> ReplyError:
    reason = "the reply holds several different JSON objects; send exactly one"
    return ReplyError("several-objects", reason)


# -- Replies that end too early --------------------------------------------------------------------


def _endings(text: str) -> list[tuple[str, str]]:
    """Return a JSON text that stops too early, closed in each way that may be right.

    Each comes with the end of the text that it leaves out. The list is empty if nothing is open. A
    text that ends in the middle of an escape loses that. Raises ReplyError.
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
    endings = [(whole + closers, "")]
    for end, closed in reversed(places):
        endings.append((text[:end] + closed, text[end:]))
    return endings


def _cut_off(endings: Iterable[tuple[str, str]]) -> Any:
    """Return the complete part of a reply cut off behind its transition; None for other texts."""
    for ending, left_out in endings:
        try:
            whole = decode(ending)
        except ValueError:
            continue
        if whole and _WORDS.search(left_out) is None:
            return _uncut(whole)
    return None


def _uncut(value: Any) -> Any:
    """Return a reply that was not cut off in its transition.

    A message that ends the transition may be cut off, because its other parts are then whole.
    Raises ReplyError.
    """
    if _has_target(value):
        parts = list(value["transition"])
        is_last = list(value)[-1] == "transition"
        ends_in_message = "context_update" in parts and parts[-1] == "message"
        if not is_last or ends_in_message:
            return value
    elif _is_flat(value) and list(value)[-1] in ("message", "question"):
        return value
    raise ReplyError("cut-off", "the reply ends in the middle of its transition")


def _without_one_brace(text: str, error: ValueError) -> JsonDict | None:
    """Return the reply in a text that closes it once too often before its message, and is else
    sound.
    """
    if not isinstance(error, json.JSONDecodeError):
        return None
    if error.msg != "Extra data" or text[error.pos] != ",":
        return None
    with suppress(ValueError, ReplyError):
        whole = decode(text[: error.pos].rstrip()[:-1] + text[error.pos :])
        return whole if _has_target(whole) else None
    return None


# -- Repair ----------------------------------------------------------------------------------------


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
        value = _chosen(of_kind(value, dict))
    if value is not None and len(_TARGET.findall(text)) > 1:
        raise _several()  # of objects that have the same keys, json_repair gives the last
    return _with_its_transition(value, text)


def _with_its_transition(value: Any, text: str) -> Any:
    """Return a repaired reply with its transition as sent, if that is sound: a repair changes no
    value.
    """
    for name in ("transition", "context_update"):
        places = list(_PLACES[name].finditer(text))
        if len(places) != 1 or not isinstance(value, dict) or name not in value:
            continue
        with suppress(ValueError, RecursionError, ReplyError):
            sound, _ = _DECODER.raw_decode(text, places[0].end())
            return {**value, name: sound}
    return value


def quoted(text: str) -> str:
    """Return a reply with quotes around numerals that mean a text. Its message is left as it is.

    Readers of broken JSON take them for numbers, and a leading zero or plus is lost.
    """
    head, words, rest = text.partition('"message"')
    return _NUMERAL.sub(_in_quotes, head) + words + rest


def _in_quotes(match: re.Match[str]) -> str:
    if match["digits"] is None:
        return match[0]
    return f'{match["before"]}"{match["digits"]}"'


def _unescaped(match: re.Match[str]) -> str:
    """Return an escape as the character itself if both mean the same: json_repair does not know
    all.
    """
    escape = match.group()
    if escape == r"\/":
        return "/"
    if escape[1] != "u" or len(escape) < len(r"\u0000"):
        return escape
    character: str = json.loads(f'"{escape}"')
    return escape if character in '"\\' or character < " " else character


# -- The order of all this -------------------------------------------------------------------------


def document(text: str) -> JsonDict:
    """Return the JSON object that a text means, a reply or not. Raises ReplyError."""
    if len(text) > MAX_CHARS:
        reason = f"the reply is {len(text)} characters long; at most {MAX_CHARS} are read"
        raise ReplyError("too-long", reason)
    halved = may_be_halved(text)
    whole = joined(text) if halved else text
    stripped = whole.strip().lstrip("\ufeff")
    if not stripped:
        raise ReplyError("empty", "the reply is empty")
    try:
        value = _value(stripped)
        if halved:
            value = all_mended(value)
    except RecursionError:
        raise ReplyError("too-deep", "the reply is nested too deep") from None
    if not isinstance(value, dict):
        raise ReplyError("not-object", "the reply is not a JSON object")
    return value


def _value(text: str) -> Any:
    """Return the JSON value that a text means. Raises ReplyError."""
    if text.startswith(("{", '"')):
        try:
            value = decode(text)
        except ValueError as error:
            whole = _without_one_brace(text, error)
            if whole is not None:
                return whole
        else:
            if isinstance(value, str) and value.startswith("{"):
                return _value(value)
            return value
    return _value_in_prose(after_thoughts(text))


def _value_in_prose(body: str) -> Any:
    """Return the JSON value in a text with other words, or in one that is broken. Raises
    ReplyError.
    """
    for candidate in (*_FENCE.findall(body)[:_MAX_FENCES], body):
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
    beginning = _cut_off(endings)
    if beginning is not None:
        return beginning
    repaired = _repaired(body)
    if repaired is None:
        raise ReplyError("not-json", "the reply is not valid JSON and could not be repaired")
    return _uncut(repaired) if endings else repaired


# -- Messages --------------------------------------------------------------------------------------


def _text(value: object) -> str:
    return mended(value.strip()) if isinstance(value, str) else ""


def _spoken(value: object) -> str:
    """Return a message without a thought before it, or the message of a reply within it."""
    text = _text(value)
    if is_dots(text):
        return ""
    if not text.startswith(_ODD):
        return text
    text = unthought(text)
    inner = _reply_in(text)
    return text if inner is None else _words(inner)


def _reply_in(text: str) -> JsonMap | None:
    """Return a reply in place of a message, as much as arrived of it; None if it is a message.

    JSON that is not a reply is meant to be read. The beginning of a reply without a message is {}.
    """
    if not text.startswith(("{", "```")):
        return None
    whole = True
    try:
        value: JsonDict = decode(text)
    except (ValueError, ReplyError):
        if _BEGUN.match(text) is None:
            return None
        whole = False
        try:
            value = document(text)
        except ReplyError:
            return {}
    if _has_target(value) or _is_flat(value) or isinstance(value.get("message"), str):
        return value
    return None if whole else {}


def _words(reply: JsonMap) -> str:
    """Return the message of a reply, or else the message in its transition."""
    own = _spoken(reply.get("message"))
    if own:
        return own
    transition = _object_in(reply.get("transition")) or {}
    return _spoken(transition.get("message"))


def _question(reply: JsonMap) -> str | None:
    """Return the question of a reply; None if it has no field for one."""
    transition = _object_in(reply.get("transition")) or {}
    if "question" not in reply and "question" not in transition:
        return None
    return _spoken(reply.get("question")) or _spoken(transition.get("question"))


def is_cut(text: str) -> bool:
    """Return true if a text ends before its JSON object does, or has none."""
    try:
        body = after_thoughts(joined(text))
        start = body.find("{")
        return start < 0 or (only_object(body) is None and _endings(body[start:]) != [])
    except (ReplyError, RecursionError):
        return True


class ReplyWords(NamedTuple):
    """The words of a reply in which nothing else counts; see `Reply`."""

    message: str
    question: str | None = None


def parse_words(text: str) -> ReplyWords:
    """Return the words of a reply in which nothing else counts.

    Raises:
        ReplyError: The text is no reply, or it has no words.
    """
    reply = document(text)
    for found in (reply, _held(reply) or {}):
        words = ReplyWords(_words(found), _question(found))
        if words.message or words.question:
            return words
    raise ReplyError("no-message", 'the reply lacks "message"')


# -- Replies ---------------------------------------------------------------------------------------


def parse(text: str, *, stay: str = "") -> Reply:
    """Return the reply that a text means: with all of it on one level, or with a `transition`.

    Args:
        text: The text.
        stay: The current state, if the reply need not name a target, because it can only stay.

    Raises:
        ReplyError: The text is no reply.
    """
    reply = document(text)
    if stay and "target_state" not in reply and isinstance(reply.get("message"), str):
        reply = {"target_state": stay, **reply} if "transition" not in reply else reply
    transition = _move(reply)
    if transition is None:
        reply = _held(reply) or reply
        transition = _move(reply)
    if transition is None:
        raise ReplyError("no-target", 'the reply lacks "target_state"')
    update, fault = transition.get("context_update"), None
    if not isinstance(update, dict):
        update, fault = _update(reply, transition)
    return Reply(
        target=transition["target_state"].strip(UNSEEN),
        update=update,
        message=_words(reply),
        reasoning=_text(reply.get("reasoning"))[:_MAX_REASONING],
        update_fault=fault,
        question=_question(reply),
    )


def _move(reply: JsonDict) -> JsonDict | None:
    """Return the part of a reply that names its target; None if nothing does."""
    transition = reply.get("transition", reply)
    if not isinstance(transition, dict):
        transition = _object_in(transition) or {}
    return transition if _names_target(transition) else None


def _update(reply: JsonDict, transition: JsonDict) -> tuple[JsonMap, str | None]:
    """Return the update of a reply, and its fault.

    An update beside the transition counts only if it precedes the message. The message is shown
    once the move was checked.
    """
    update = transition.get("context_update")
    if update is None and transition is not reply:
        update = reply.get("context_update")
        keys = list(reply)
        if update is not None and "message" in keys[: keys.index("context_update")]:
            return {}, "context_update must stand in transition"
    if update is None:
        return {}, None
    values = updates(update) if isinstance(update, list) else _object_in(update)
    if values is None:
        return {}, "context_update must be an object"
    return values, None
