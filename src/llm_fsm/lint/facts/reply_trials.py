"""Trials of fixed replies: each is rendered with values that its keys may have.

Only replies that do more than name keys are rendered, because the others cannot fail. The values of
a key come from its schema. A key without one is tried as text, number, list, object and boolean. A
failure counts if it happens with every value, or with a value of a declared type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice, product
from typing import Any, Literal, NamedTuple

from llm_fsm._json import JsonDict, JsonMap, list_at, object_at
from llm_fsm.definition.json_schema.validator import types_of
from llm_fsm.definition.names import root_of
from llm_fsm.definition.templates import is_plain, renderings, template_fault
from llm_fsm.lint.document import Document, once
from llm_fsm.lint.facts.data_flow import DataFlow, data_flow, is_system
from llm_fsm.lint.solver.samples import samples
from llm_fsm.lint.solver.value_sets import domain, points

Outcome = Literal["fails", "may-fail", "empty"]

_MOST = 256
_LITERALS = 6
_FEW = 2
_SAMPLES = 5
_LONGEST = 4_000
_DEPTH = 4
_TAGS = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_TEXT = re.compile(r"'([^'\\]*)'|\"([^\"\\]*)\"")
_NUMBER = re.compile(r"(?<![\w.])\d{1,9}(?![\w.])")
_SYSTEM: JsonMap = {
    **dict.fromkeys(
        ("_conversation_id", "_current_state", "_previous_state", "_user_input"), "text"
    ),
    **dict.fromkeys(("_turn", "_turns_in_state", "_misses", "_timestamp"), 1),
    "_timezone": "UTC",
    "_refusals": {},
    "_extra": {},
}
_ANYTHING: tuple[Any, ...] = ("text", 2, ["text"], {"name": "text"}, True)
_TYPED = ("TypeError", "WordingError", "UndefinedError")


class Trial(NamedTuple):
    """The outcome of trying a reply. `why`: the reason of a failure; `values`: the values with
    which it failed, as text.
    """

    outcome: Outcome
    why: str = ""
    values: str = ""


@once
def reply_trials(document: Document) -> Mapping[str, Trial]:
    """Return state to the fault of its fixed reply, without states whose replies render."""
    flow = data_flow(document)
    found = {}
    for state, placed in document.states.items():
        text = placed.text("reply")
        if text.strip() and not is_plain(text) and template_fault(text) is None:
            trial = _tried(flow, state, text)
            if trial is not None:
                found[state] = trial
    return found


def _tried(flow: DataFlow, state: str, text: str) -> Trial | None:
    code = " ".join(tag[0] for tag in _TAGS.finditer(text))
    if len(text) > _LONGEST or code.count("{%") > 40 or code.count(" for ") > 2:
        return None
    names = list(dict.fromkeys(root_of(mention.name) for mention in flow.replies.get(state, ())))
    literals = _literals(code)
    offered = {name: _values(flow, name, literals) for name in names}
    typed = all(is_system(name) or _is_closed(flow.document.keys.get(name), 0) for name in names)
    contexts = list(_contexts(offered))
    results = list(renderings(text, contexts))
    trials = list(zip(results, contexts, strict=True))
    failed = [trial for trial in trials if trial[0].words is None]
    if len(failed) == len(results) and (typed or all(_is_sure(one.why, names) for one in results)):
        return Trial("fails", _plainly(failed[0][0].why))
    hard = next((one for one in failed if one[0].kind in _TYPED), None)
    if hard is not None and typed:
        passed = [values for result, values in trials if result.words is not None]
        return Trial("may-fail", _plainly(hard[0].why), _shown(_telling(hard[1], passed)))
    # no parts of unknown values
    whole = len(names) <= _FEW and not re.search(r"[\[.]", _TEXT.sub("", code))
    silent = not failed and (typed or whole) and not any(one.words for one in results)
    return Trial("empty") if silent and not (names and _TAGS.sub("", text).strip()) else None


def _literals(code: str) -> list[Any]:
    """Return the values that the template compares with, and the next numbers."""
    literals: list[Any] = [first or second for first, second in _TEXT.findall(code)]
    for digits in _NUMBER.findall(_TEXT.sub("", code)):
        number = int(digits)
        # The neighbours decide comparisons such as `n > 3` in the other way.
        literals += (number, number + 1, number - 1)
    return list(dict.fromkeys(literals))[:_LITERALS]


def _is_closed(schema: object, depth: int) -> bool:
    """Return true for a schema that describes every part, so that its samples are complete."""
    if not isinstance(schema, dict) or depth > _DEPTH:
        return False
    types = types_of(schema)
    if "enum" in schema or "const" in schema or (types and not types & {"array", "object"}):
        return True
    inner = (
        [schema.get("items")] if types == {"array"} else [*object_at(schema, "properties").values()]
    )
    return bool(inner) and all(_is_closed(part, depth + 1) for part in inner)


def _is_sure(why: str, names: list[str]) -> bool:
    """Return true for a failure that no value of a key could prevent."""
    undefined = re.search(r"'(\w+)' is undefined", why)
    return undefined is not None and undefined[1] not in names


def _contexts(offered: Mapping[str, tuple[Any, ...]]) -> Iterator[JsonDict]:
    """Yield contexts of these values: all combinations if they are few, else each value once beside
    the first ones.
    """
    size = 1
    for values in offered.values():
        size *= len(values)
    names = list(offered)
    if size <= _MOST:
        for values in product(*offered.values()):
            yield dict(zip(names, values, strict=True))
        return
    first = {name: values[0] for name, values in offered.items()}
    for turn in range(max(map(len, offered.values()))):
        yield {name: values[turn % len(values)] for name, values in offered.items()}
    for name in islice(names, _MOST // _SAMPLES):
        for value in offered[name]:
            yield {**first, name: value}


def _values(flow: DataFlow, name: str, literals: list[Any]) -> tuple[Any, ...]:
    if name in _SYSTEM:
        return (_SYSTEM[name],)
    keys = flow.document.keys
    definitions = flow.known.keys.definitions
    if name not in keys:
        return (*_ANYTHING, *literals)
    whole_set = domain(keys[name], definitions)
    fitting = [value for value in literals if not (points([value]) & whole_set).empty]
    typical = list(islice(samples(keys[name], definitions), _SAMPLES))
    sparse = [_sparse(keys[name], value) for value in typical]
    distinct = {repr(value): value for value in (*typical, *sparse, *fitting)}
    return tuple(distinct.values()) or ("text",)


def _sparse(schema: object, value: Any) -> Any:
    """Return a value without the parts that its schema does not require. A list keeps its first
    item whole.
    """
    match schema, value:
        case dict(), list():
            items = schema.get("items")
            return [*value[:1], *(_sparse(items, item) for item in value)]
        case dict(), dict():
            kept = list_at(schema, "required")
            parts = object_at(schema, "properties")
            named = value.items()
            return {name: _sparse(parts.get(name), part) for name, part in named if name in kept}
    return value


def _telling(values: JsonMap, passed: list[JsonDict]) -> JsonMap:
    """Return the values with which a reply always failed; all values if there are none."""
    found = {
        name: value
        for name, value in values.items()
        if not any(other[name] == value for other in passed)
    }
    return found or values


def _shown(values: JsonMap) -> str:
    told = [
        f"{name} is {value!r:.40}" for name, value in values.items() if not name.startswith("_")
    ]
    return " and ".join(told[:3])


def _plainly(why: str) -> str:
    """Rewrite an error of the template engine for authors."""
    for pattern, words in _REASONS:
        found = re.search(pattern, why)
        if found is not None:
            return words + (f" ({found[0].split()[0]})" if found[0].endswith("undefined") else "")
    return why


_REASONS = (
    (
        r"concatenate str|unsupported operand type.*'str'",
        "text and numbers cannot be added; write {{ a }}{{ b }}",
    ),
    (r"'\w+' is undefined", "it computes with something that replies do not have"),
    (r"has no attribute '\w+'", "it computes with a part that a value may not have"),
)
