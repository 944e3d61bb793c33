"""Read the refusal of a server: one table of words and codes for all providers.

A refusal is one of five:

    form      the request has a form that the model does not take: send a simpler one, and remember
    that reply     the model's own reply was refused: ask again, and remember nothing
    account   somebody must pay, or raise a limit: stop, and say so
    moment    it is too much at this moment: try again, after `Retry-After`
    size      the prompt is longer than the model's context: send a shorter one, and remember

The first row of the table that fits decides. An answer that fits none is judged by its status
alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Set
from typing import Any, Literal, NamedTuple, TypeAlias

from llm_fsm.llm.retry import is_retryable

Kind: TypeAlias = Literal["form", "reply", "account", "moment", "size"]
Step: TypeAlias = Literal[
    "", "system", "schema", "tool", "json_object", "stream", "temperature", "parts"
]

FORM_STATUS = frozenset({400, 404, 415, 422, 501})
"""HTTP statuses with which providers reject a request for its form."""
ANY_STATUS = frozenset(range(200, 600))
"""Some gateways report an error of the provider with a status of their own."""
_PAID_STATUS = frozenset({200, 400, 402, 403, 429, *range(500, 600)})
PAY = "the account's quota or credit is spent; pay or raise its limit, or use another key or model"
"""The advice for a refused account."""
_SAID = 4000
_SIZE_STATUS = frozenset({200, 400, 413, 422, 500})
_ROOM = re.compile(
    r"(?:context (?:length|size|window)(?: is| of)?|n_ctx|maximum(?: context)?(?: length)?(?: is| of)?)"
    r"\W{0,4}(\d{3,8})|(\d{3,8}) (?:tokens? )?(?:maximum|limit)"
)
"""The size of a context in the words of a refusal."""


class Row(NamedTuple):
    """One row of the table: an answer with this status and these words is a refusal of this kind."""

    kind: Kind
    statuses: Set[int]
    words: re.Pattern[str]


def _row(kind: Kind, statuses: Set[int], *words: str) -> Row:
    return Row(kind, statuses, re.compile("|".join(words)))


TABLE: tuple[Row, ...] = (
    # Codes that say for certain that somebody must pay.
    _row(
        "account",
        ANY_STATUS,
        r"insufficient[_ ](user[_ ])?(quota|balance|credits?|funds)",
        r"billing_(hard_limit_reached|not_active)|exceeded_current_quota|payment_required|credit_limit_reached",
        r"arrearage|account_?overdue|overdue[_ ]payment|access_terminated",
    ),
    # A limit of a minute or a day passes, although its message may name the page for billing.
    _row(
        "moment",
        ANY_STATUS,
        r"(try|retry|wait)( your request)?( again)? (in|after) (about )?[0-9]|retry_?delay|retry_after",
        r"per[-_ ]?(second|minute|min|hour|day)\b|\b[rt]p[mds]\b|(requests|tokens)[-_ ]per",
        r"rate[_ ]limit (was |is |has been )?(reached|exceeded)|too many (concurrent )?requests|overloaded",
    ),
    _row(
        "size",
        _SIZE_STATUS,
        r"exceed_context_size|context_length_exceeded|model_max_prompt_tokens_exceeded",
        r"(exceeds?|than|over|beyond|fit (in|into)|maximum) .{0,40}context( length| window| size|\b)",
        r"context (length|window|size) (is |was |has been )?(exceeded|too (small|short))",
        r"(prompt|input|request|message|payload)s?( tokens?| length| entity)? ((is|are|was) )?too (long|large)",
        r"[`'\"]inputs[`'\"].{0,40} must (be|have) (<=?|less than|fewer than|at most)",
        r"too many (input |prompt )?tokens|reduce the length of",
        r"input (token count|length).{0,40}(exceeds|greater than|longer than)",
    ),
    _row(
        "account",
        _PAID_STATUS,
        r"\bbilling\b|\bbalance\b|\bcredits?\b|\bpayments?\b|\bprepaid\b|\btop[- ]?up\b|\brecharge\b",
        r"(spend(ing)?|usage|budget) limit|budget (has been |was )?(exceeded|exhausted)|good standing",
        r"quota (is |has been |was )?(spent|used up|exhausted)|\u6b20\u8d39|\u4f59\u989d",
    ),
    # The model wrote something that its server could not read.
    _row(
        "reply",
        frozenset({200, 400, 422, *range(500, 600)}),
        r"failed_generation|json_validate_failed|tool_use_failed|output_parse_failed|malformed_function_call",
        r"generated (json|output|text|tool call|content)|(model|its) (output|reply|response) (could not|cannot|can't)",
        r"failed to (generate|validate) (valid )?json|failed to (call a function|parse (the )?(tool|function) call)",
    ),
)
"""The refusals that are not of a form, in order. Those of forms are in `STEPS`."""

STEPS: dict[Step, re.Pattern[str]] = {
    "system": re.compile(
        r"\bsystem[_ ](role|message|prompt|instruction)s?\b.{0,60}"
        r"(\bnot\b|n't|un|in)[ -]?(currently |yet )?(support|allow|enabl|accept|permit|valid|available|implement)"
        r"|(\bnot\b|n't|\bno\b|unsupported|invalid|unknown|unexpected).{0,40}"
        r"\bsystem[_ ](role|message|prompt|instruction)"
        r"|(\bnot\b|n't|unsupported|invalid|unknown|unexpected).{0,40}['\"\u2018\u201c`]system['\"\u2019\u201d`]"
        r"|(unsupported|invalid|unknown|unexpected) (message )?role\W{1,4}system\b"
        r"|roles? (must|should) alternate|must alternate between|developer instruction"
        r"|\broles?\b.{0,40}\bonly\b.{0,30}\buser\b|\bonly\b.{0,40}\buser\b.{0,20}\bassistant\b"
        r"|(should be|expected|must be)( one of)?:?\s['\"\u2018`]?user['\"\u2019`]?,? (or )?['\"\u2018`]?assistant"
    ),
    "schema": re.compile(
        r"response[_ ]?format|json[_ ]?schema|\bschema\b|structured|guided|grammar|json[_ ]mode|output_config"
        r"|output_format|additionalproperties|\bstrict\b|response_?schema|response_?mime"
    ),
    "tool": re.compile(r"\btools?\b|tool[_ ]|function|\bschema\b|additionalproperties|\bstrict\b"),
    "json_object": re.compile(
        r"response[_ ]?format|json[_ ]?object|json[_ ]mode|the word .?.?json|response_?mime"
    ),
    "stream": re.compile(r"\bstream(ing|ed)?\b"),
}
"""Words that name a form which a model does not take; the key is the step down."""

_ANOTHER_CAUSE = re.compile(
    r"context[_ ](length|window|size)|maximum context|too many tokens|prompt is too long"
    r"|api[_ ]?key|unauthori|quota|billing|balance|credit|rate[_ ]limit"
    r"|content[_ ](filter|policy|management)|safety|model_not_found"
    r"|(model|deployment).{0,80}(not (exist|found)|n't exist|unknown)"
    r"|(unknown|invalid|no such) (model|deployment)"
)
_ECHOES = frozenset({"input", "ctx", "body", "messages"})
"""Keys of error bodies that repeat parts of the request."""
_TOLD = frozenset({"failed_generation", "retryDelay"})
"""Keys of error bodies whose presence says enough: the model's text, and Google's time to wait."""


def kind_of(status: int, body: str) -> Kind | None:
    """Return the kind of a refusal that is not one of the form.

    Args:
        status: The HTTP status.
        body: The body of the answer, or the message of an error.

    Returns:
        The kind; None if the words say nothing, so that the status decides.
    """
    words = words_of(body)
    for row in TABLE:
        if status in row.statuses and row.words.search(words):
            return row.kind
    return None


def context_in(words: str) -> int | None:
    """Return the tokens of a context that the words of a refusal name; None if they name none."""
    found = _ROOM.search(words.lower())
    return None if found is None else int(found[1] or found[2])


def may_pass(status: int, body: str) -> bool:
    """Return true if the same request may succeed later.

    Args:
        status: The HTTP status.
        body: The body of the answer, or the message of an error.
    """
    kind = kind_of(status, body)
    if kind is None:
        return is_retryable(status)
    return kind in ("moment", "reply")


def advice(status: int, body: str) -> str:
    """Return the words that an error message needs at its end; "" if there is nothing to do."""
    return f"; {PAY}" if kind_of(status, body) == "account" else ""


def rejects_system(status: int, body: str) -> bool:
    """Return true if an error answer means that the model has no system role."""
    return STEPS["system"].search(claims(status, body, {*FORM_STATUS, 500})) is not None


def claims(status: int, body: str, statuses: Set[int]) -> str:
    """Return what an error body says about the form of a request.

    Args:
        status: The HTTP status.
        body: The body.
        statuses: Those that can reject what was asked.

    Returns:
        The text in lower case, without copies of the request; "" if the body names another cause.
    """
    if status not in statuses or body.lstrip()[:1] == "<":
        return ""
    words = words_of(body)
    is_other = _ANOTHER_CAUSE.search(words) is not None or kind_of(status, body) is not None
    return "" if is_other else words


def words_of(body: str) -> str:
    """Return the texts in an error body, in lower case, without its copies of the request."""
    try:
        said = " ".join(_strings(json.loads(body)))
    except (ValueError, RecursionError):
        said = body
    return said[:_SAID].lower()


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _strings(item)
        case dict():
            for key, item in value.items():
                if key in _TOLD:
                    yield key
                elif key not in _ECHOES:
                    yield from _strings(item)
