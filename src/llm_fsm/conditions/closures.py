"""Operators that decide which arguments to evaluate, and against which data.

A closure takes the data in scope and the meter; in the body of a loop, the data is the element.
Operators that only need the values of their arguments are in `operators.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

from llm_fsm._json import JsonDict, as_list
from llm_fsm.conditions.coercion import Meter, OperatorFault, look_up, number_of, text_of, truthy
from llm_fsm.conditions.nodes import NULL, Node, Nodes, RulePlace, call_of, guarded, joined
from llm_fsm.conditions.operators import ABSENT, SLOT, found, length, pattern_of

_Each = Iterator[tuple[Any, Any]]
"""Elements, with the value of a loop's body for each."""


def _matches(nodes: Nodes, operator: str, place: RulePlace) -> Node:
    source = nodes[1].literal
    if source is ABSENT:
        return call_of(nodes, operator, place)
    text, pattern = nodes[0].run, pattern_of(source)

    def run(data: Any, meter: Meter) -> Any:
        return found(meter, text(data, meter), pattern)

    return joined(guarded(run, operator, place), operator, nodes)


def _junction(nodes: Nodes, operator: str, _place: RulePlace) -> Node:
    """Return the first falsy value (`and`) or the first truthy one (`or`); otherwise the last."""
    runs = [node.run for node in nodes]
    stop = operator == "or"

    def run(data: Any, meter: Meter) -> Any:
        value = None
        for part in runs:
            value = part(data, meter)
            if truthy(value) is stop:
                return value
        return value

    return joined(run, operator, nodes)


def _if(nodes: Nodes, operator: str, _place: RulePlace) -> Node:
    runs = [node.run for node in nodes]
    branches = list(zip(runs[0:-1:2], runs[1::2], strict=True))
    otherwise = runs[-1] if len(runs) % 2 else NULL.run

    def run(data: Any, meter: Meter) -> Any:
        for condition, branch in branches:
            if truthy(condition(data, meter)):
                return branch(data, meter)
        return otherwise(data, meter)

    return joined(run, operator, nodes)


def _name(value: Any, meter: Meter) -> str:
    return "" if value is None else text_of(meter, value)


def _names(node: Node) -> list[str] | None:
    """Return the names that a node gives as literals; None if they are computed."""
    if node.literal is ABSENT:
        return None
    return [_name(value, Meter(None)) for value in as_list(node.literal)]


def _reads(names: list[str] | None, place: RulePlace) -> JsonDict:
    """Return the names that this part adds to the rule's reads."""
    if place.inside:
        return {}
    return {"reads": names or (), "reads_unknown": names is None or "" in names}


def _variable(nodes: Nodes, operator: str, place: RulePlace) -> Node:
    names = _names(nodes[0]) if nodes else [""]
    name = None if names is None else ",".join(names)
    default = nodes[1].run if len(nodes) > 1 else NULL.run
    computed = nodes[0].run if nodes else NULL.run

    def run(data: Any, meter: Meter) -> Any:
        value = look_up(data, _name(computed(data, meter), meter) if name is None else name, ABSENT)
        return default(data, meter) if value is ABSENT else value

    reads = _reads(None if name is None else [name], place)
    return joined(guarded(run, operator, place), operator, nodes, name=name, **reads)


def _is_missing(data: Any, key: Any, meter: Meter) -> bool:
    value = look_up(data, _name(key, meter))
    return value is None or (isinstance(value, str) and value == "")


def _missing_of(data: Any, keys: Any, meter: Meter) -> list[Any]:
    listed = keys if isinstance(keys, (list, tuple)) else (keys,)
    meter.spend(len(listed))
    missing = [key for key in listed if _is_missing(data, key, meter)]
    meter.build(SLOT * len(missing))
    return missing


def _missing(nodes: Nodes, operator: str, place: RulePlace) -> Node:
    runs = [node.run for node in nodes]

    def run(data: Any, meter: Meter) -> Any:
        values = [part(data, meter) for part in runs]
        first_is_all = bool(values) and isinstance(values[0], (list, tuple))
        return _missing_of(data, values[0] if first_is_all else values, meter)

    known = [_names(node) for node in nodes]
    names: list[Any] | None = None
    if None not in known:
        names = list(chain.from_iterable(found or () for found in known))
    return joined(guarded(run, operator, place), operator, nodes, **_reads(names, place))


def _missing_some(nodes: Nodes, operator: str, place: RulePlace) -> Node:
    wanted, options = nodes[0].run, nodes[1].run

    def run(data: Any, meter: Meter) -> Any:
        need = number_of(meter, wanted(data, meter))
        keys = options(data, meter)
        missing = _missing_of(data, keys, meter)
        given = (len(keys) if isinstance(keys, (list, tuple)) else 1) - len(missing)
        return [] if given >= need else missing

    return joined(guarded(run, operator, place), operator, nodes, **_reads(_names(nodes[1]), place))


def _context(nodes: Nodes, operator: str, place: RulePlace) -> Node:
    """Compile `has_context` or `context_length`: of a name, or of an object and a name in it."""
    if len(nodes) > 1 and nodes[0].literal is not ABSENT:
        raise OperatorFault(f'"{operator}" takes a name, or {{"var": ""}} and a name')
    measures = operator == "context_length"
    named = nodes[min(1, len(nodes) - 1)]
    key = named.run
    whole = nodes[0].run if len(nodes) > 1 and nodes[0].name != "" else None

    def run(data: Any, meter: Meter) -> Any:
        name = _name(key(data, meter), meter)
        value = look_up(data if whole is None else whole(data, meter), name)
        return length(meter, value) if measures else value is not None

    if whole is not None:
        return joined(guarded(run, operator, place), operator, nodes)
    return joined(guarded(run, operator, place), operator, (named,), **_reads(_names(named), place))


def _loop(nodes: Nodes, operator: str, place: RulePlace) -> Node:
    source, body, cost = nodes[0].run, nodes[1].run, max(1, nodes[1].size)
    ending = _ENDINGS[operator]

    def each(data: Any, meter: Meter) -> _Each:
        """Yield the elements with the value of the body for each; nothing if the value is no list."""
        items = source(data, meter)
        for item in items if isinstance(items, (list, tuple)) else ():
            meter.spend(cost)
            yield item, body(item, meter)

    def run(data: Any, meter: Meter) -> Any:
        return ending(each(data, meter), meter)

    return joined(guarded(run, operator, place), operator, nodes)


def _map(each: _Each, meter: Meter) -> list[Any]:
    values = [value for _, value in each]
    meter.build(SLOT * len(values))
    return values


def _filter(each: _Each, meter: Meter) -> list[Any]:
    items = [item for item, value in each if truthy(value)]
    meter.build(SLOT * len(items))
    return items


def _all(each: _Each, _meter: Meter) -> bool:
    """Return false for an empty list, too."""
    holds = False
    for _, value in each:
        holds = truthy(value)
        if not holds:
            return False
    return holds


def _some(each: _Each, _meter: Meter) -> bool:
    return any(truthy(value) for _, value in each)


def _none(each: _Each, meter: Meter) -> bool:
    return not _some(each, meter)


def _reduce(nodes: Nodes, operator: str, place: RulePlace) -> Node:
    source, body, cost = nodes[0].run, nodes[1].run, max(1, nodes[1].size)
    initial = nodes[2].run if len(nodes) > 2 else NULL.run

    def run(data: Any, meter: Meter) -> Any:
        items = source(data, meter)
        value = initial(data, meter)
        for item in items if isinstance(items, (list, tuple)) else ():
            meter.spend(cost)
            value = body({"current": item, "accumulator": value}, meter)
        return value

    return joined(guarded(run, operator, place), operator, nodes)


Build = Callable[[Nodes, str, RulePlace], Node]

_ENDINGS: Final[Mapping[str, Callable[[_Each, Meter], Any]]] = MappingProxyType(
    {"map": _map, "filter": _filter, "all": _all, "some": _some, "none": _none}
)
LOOPS: Final[Mapping[str, Build]] = MappingProxyType(
    {**dict.fromkeys(_ENDINGS, _loop), "reduce": _reduce}
)
SPECIAL: Final[Mapping[str, Build]] = MappingProxyType(
    {
        "var": _variable,
        "missing": _missing,
        "missing_some": _missing_some,
        "has_context": _context,
        "context_length": _context,
        "and": _junction,
        "or": _junction,
        "if": _if,
        "?:": _if,
        "matches": _matches,
    }
)
