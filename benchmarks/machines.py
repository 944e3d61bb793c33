"""Machines of awkward shapes, of about 1,000 states and 3,000 transitions unless they say
otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Any

Document = dict[str, Any]

_END = {"kind": "final", "purpose": "Say goodbye"}


def _machine(
    states: Mapping[str, Any], keys: Mapping[str, Any] | None = None, **more: Any
) -> Document:
    schema = (
        {} if keys is None else {"context_schema": {"type": "object", "properties": dict(keys)}}
    )
    return {
        "name": "shape",
        "initial_state": next(iter(states)),
        **schema,
        **more,
        "states": dict(states),
    }


def _to(target: str, logic: Any = None, *keys: str, **more: Any) -> Document:
    condition = {"requires_context_keys": list(keys)} if keys else {}
    if logic is not None:
        condition["logic"] = logic
    return {
        "target_state": target,
        "description": f"go to {target}",
        "conditions": [condition] * bool(condition),
        **more,
    }


def _is(key: str, value: Any) -> Any:
    return {"==": [{"var": key}, value]}


def grid() -> Document:
    """1,000 states in which three transitions lead on, with a key and a comparison each."""
    keys = {f"key_{n}": {"type": "integer"} for n in range(300)}
    states = {
        f"s{n}": {
            "purpose": f"Do step {n}",
            "required_context_keys": [f"key_{n % 300}"],
            "transitions": [
                _to(
                    f"s{(n * 3 + k) % 1000}",
                    {">": [{"var": f"key_{n % 300}"}, k]},
                    f"key_{n % 300}",
                )
                for k in range(3)
            ],
        }
        for n in range(999)
    }
    return _machine({**states, "s999": _END}, keys)


def complete() -> Document:
    """55 states, each with a transition to every other one, closed by its own key."""
    keys = {f"key_{n}": {"type": "string"} for n in range(55)}
    states = {
        f"s{n}": {
            "purpose": f"Do step {n}",
            "transitions": [_to(f"s{m}", None, f"key_{m}") for m in range(55) if m != n],
        }
        for n in range(55)
    }
    return _machine(states, keys)


def chain_of_decisions() -> Document:
    """1,000 deciding states in a row, each with three ways on."""
    keys = {"n": {"type": "integer", "minimum": 0, "maximum": 10_000}}
    states: Document = {
        "start": {
            "purpose": "Ask",
            "required_context_keys": ["n"],
            "transitions": [_to("d0", None, "n")],
        }
    }
    for n in range(999):
        states[f"d{n}"] = {
            "kind": "decide",
            "transitions": [
                _to("end", _is("n", n), priority=1),
                _to(f"d{n + 1}", {">": [{"var": "n"}, n]}, priority=2),
                _to("start", None, priority=3),
            ],
        }
    return _machine({**states, "d999": _END, "end": _END}, keys)


def layered_decisions() -> Document:
    """Twenty layers of fifty deciding states, each leading to three of the next: countless ways."""
    keys = {f"k{n}": {"type": "string", "enum": ["a", "b", "c"]} for n in range(20)}
    states: Document = {"start": {"purpose": "Ask", "transitions": [_to("l0_0")]}}
    for layer in range(20):
        for n in range(50):
            states[f"l{layer}_{n}"] = {
                "kind": "decide",
                "transitions": [
                    _to(
                        "end" if layer == 19 else f"l{layer + 1}_{(n + k * 7) % 50}",
                        _is(f"k{layer}", value),
                    )
                    for k, value in enumerate("abc")
                ],
            }
    return _machine({**states, "end": _END}, keys)


def _lists(count: int, size: int, shift: int) -> Document:
    values = [f"value {n}" for n in range(size)]
    moves = [
        _to(
            f"s{n}",
            {"in": [{"var": "k"}, values[n * shift % size :] + values[: n * shift % size // 2]]},
        )
        for n in range(count)
    ]
    states: Document = {
        "start": {
            "purpose": "Ask",
            "required_context_keys": ["k"],
            "transitions": [_to("route", None, "k")],
        },
        "route": {"kind": "decide", "transitions": moves},
        **{f"s{n}": _END for n in range(count)},
    }
    return _machine(states, {"k": {"type": "string", "enum": values}})


def lists() -> Document:
    """One decision by 50 lists of up to 500 values."""
    return _lists(50, 500, 7)


def long_lists() -> Document:
    """One decision by 150 lists of up to 2,000 values."""
    return _lists(150, 2000, 11)


def open_lists() -> Document:
    """One decision by 150 lists of 1,000 of any texts, half of them refused."""
    chance = Random(3)
    moves = []
    for n in range(150):
        found: Any = {"in": [{"var": "k"}, [f"v{chance.randrange(100_000)}" for _ in range(1000)]]}
        moves.append(_to("end", {"!": found} if n % 2 else found, priority=n))
    states = {
        "start": {
            "purpose": "Ask",
            "required_context_keys": ["k"],
            "transitions": [_to("route", None, "k")],
        },
        "route": {"kind": "decide", "transitions": moves},
        "end": _END,
    }
    return _machine(states, {"k": {"type": "string"}})


def many_keys() -> Document:
    """One decision by 3,000 transitions over 1,000 keys."""
    keys = {f"k{n}": {"type": "integer"} for n in range(1000)}
    moves = [
        _to("end", {"and": [_is(f"k{n % 1000}", n), _is(f"k{n * 7 % 1000}", n)]}, priority=n)
        for n in range(3000)
    ]
    start = {"purpose": "Ask", "transitions": [_to("route")]}
    return _machine(
        {"start": start, "route": {"kind": "decide", "transitions": moves}, "end": _END}, keys
    )


def unset_keys() -> Document:
    """One machine that uses 2,998 keys which nothing on the way sets."""
    keys = {f"k{n}": {"type": "string"} for n in range(3000)}
    states: Document = {
        f"s{n}": {
            "purpose": f"Do step {n}",
            "reply": "Now: " + " ".join(f"{{{{ k{m} }}}}" for m in range(n * 3, n * 3 + 3)),
            "transitions": [_to(f"s{n + 1}")],
        }
        for n in range(999)
    }
    return _machine({**states, "s999": _END}, keys)


def unset_keys_in_one_state() -> Document:
    """One deciding state that tests 2,998 keys which nothing on the way sets."""
    keys = {f"k{n}": {"type": "string"} for n in range(3000)}
    moves = [_to("end", _is(f"k{n}", "x"), priority=n) for n in range(2998)]
    start = {"purpose": "Ask", "transitions": [_to("route")]}
    return _machine(
        {"start": start, "route": {"kind": "decide", "transitions": moves}, "end": _END}, keys
    )


def global_transitions() -> Document:
    """500 states with a transition each, and 500 global ones that every state offers."""
    states: Document = {
        f"s{n}": {"purpose": f"Do step {n}", "transitions": [_to(f"s{n + 1}")]} for n in range(499)
    }
    shared = [_to(f"s{n}", None, f"k{n}") for n in range(500)]
    keys = {f"k{n}": {"type": "string"} for n in range(500)}
    return _machine({**states, "s499": _END}, keys, global_transitions=shared)


def many_global_transitions() -> Document:
    """1,000 states with two transitions each, and 1,000 global ones with rules that every state
    offers.
    """
    states: Document = {
        f"s{n}": {"purpose": f"Do step {n}", "transitions": [_to(f"s{n + 1}"), _to("s999")]}
        for n in range(999)
    }
    shared = [_to(f"s{n}", {"and": [_is("k", n), {">": [{"var": "m"}, n]}]}) for n in range(1000)]
    return _machine(
        {**states, "s999": _END},
        {"k": {"type": "integer"}, "m": {"type": "integer"}},
        global_transitions=shared,
    )


def automatic_global_transitions() -> Document:
    """500 states, and 40 global transitions that are taken without asking."""
    states: Document = {
        f"s{n}": {"purpose": f"Do step {n}", "transitions": [_to(f"s{n + 1}")]} for n in range(499)
    }
    shared = [_to(f"s{n}", _is(f"k{n}", True), auto=True) for n in range(40)]
    keys = {f"k{n}": {"type": "boolean"} for n in range(40)}
    return _machine({**states, "s499": _END}, keys, global_transitions=shared)


def _deep(chance: Random, depth: int) -> Any:
    if depth == 0:
        return _is(f"k{chance.randrange(12)}", chance.choice("abcd"))
    inner = [_deep(chance, depth - 1) for _ in range(2)]
    return (
        {chance.choice(["and", "or"]): inner} if chance.random() < 0.85 else {"!": [{"and": inner}]}
    )


def deep_guards() -> Document:
    """A state of 40 transitions with deep conditions of and, or and not."""
    chance = Random(1)
    keys = {f"k{n}": {"type": "string", "enum": list("abcd")} for n in range(12)}
    moves = [_to(f"s{n}", _deep(chance, 6)) for n in range(40)]
    states = {
        "start": {"kind": "decide", "transitions": moves},
        **{f"s{n}": _END for n in range(40)},
    }
    return _machine(states, keys)


def deep_guards_everywhere() -> Document:
    """1,000 states of three transitions with deep conditions."""
    chance = Random(2)
    keys = {f"k{n}": {"type": "string", "enum": list("abcd")} for n in range(12)}
    states: Document = {
        f"s{n}": {
            "purpose": f"Do step {n}",
            "transitions": [_to(f"s{(n * 3 + m + 1) % 1000}", _deep(chance, 2)) for m in range(3)],
        }
        for n in range(999)
    }
    return _machine({**states, "s999": _END}, keys)


def deciding_deep_guards() -> Document:
    """75 deciding states of 40 transitions with conditions of and and or."""
    chance = Random(4)
    keys = {f"k{n}": {"type": "string", "enum": list("abcd")} for n in range(12)}
    states: Document = {"start": {"purpose": "Ask", "transitions": [_to("d0")]}}
    for n in range(75):
        moves = [_to(f"d{chance.randrange(75)}", _deep(chance, 1)) for _ in range(39)]
        states[f"d{n}"] = {"kind": "decide", "transitions": [*moves, _to("end", priority=200)]}
    return _machine({**states, "end": _END}, keys)


def misspelt() -> Document:
    """3,000 states whose transitions, keys and words all have a letter wrong."""
    keys = {f"answer_number_{n}": {"type": "string"} for n in range(1000)}
    states: Document = {
        f"state_number_{n}": {
            "purpos": "Ask",
            "required_context_key": [f"answr_number_{n}"],
            "required_context_keys": [f"answr_number_{n}"],
            "transitions": [
                _to(f"stat_number_{n + 1}", _is(f"anwser_number_{n}", 1), f"anser_number_{n}")
            ],
        }
        for n in range(3000)
    }
    return _machine(states, keys)


def misspelt_values() -> Document:
    """1,000 states whose conditions compare with values that differ by a letter from the listed
    ones.
    """
    values = [f"value number {n}" for n in range(300)]
    keys = {f"k{n}": {"type": "string", "enum": values} for n in range(10)}
    states: Document = {
        f"s{n}": {
            "purpose": f"Do step {n}",
            "transitions": [
                _to(f"s{(n + m) % 999 + 1}", _is(f"k{n % 10}", f"valu number {n % 300}"))
                for m in range(3)
            ],
        }
        for n in range(999)
    }
    return _machine({**states, "s999": _END}, keys)


def islands() -> Document:
    """3,000 states of which none leads to the next."""
    states = {
        f"s{n}": {"purpose": f"Do step {n}", "transitions": [_to(f"s{n}"), _to(f"s{n ^ 1}")]}
        for n in range(3000)
    }
    return _machine(states)


def fan() -> Document:
    """One state with 3,000 transitions, and one into which 3,000 lead."""
    states: Document = {
        "start": {
            "purpose": "Ask",
            "transitions": [_to(f"s{n}", _is("k", n), "k") for n in range(1500)],
        }
    }
    for n in range(1500):
        states[f"s{n}"] = {
            "purpose": f"Do step {n}",
            "transitions": [_to("end", {"<": [{"var": "k"}, n]})],
        }
    return _machine({**states, "end": _END}, {"k": {"type": "integer"}})


def automatic_fan() -> Document:
    """One state with 3,000 transitions that are taken without asking."""
    moves = [
        _to(f"s{n % 50}", {"<": [{"var": "k"}, n]}, "k", auto=True, priority=n) for n in range(3000)
    ]
    states: Document = {
        "start": {"purpose": "Ask", "transitions": moves},
        **{f"s{n}": _END for n in range(50)},
    }
    return _machine(states, {"k": {"type": "number"}})


def statements() -> Document:
    """The grid of 1,000 states, and 200 statements about all of its paths."""
    found = grid()
    found["properties"] = [
        *({"never": "s999", "before": f"s{n}"} for n in range(50)),
        *({"eventually": [f"s{n}", "s999"]} for n in range(50)),
        *({"always": f"s{n}", "after": f"s{n + 1}"} for n in range(50)),
        *({"never": f"s{n + 500}", "before": {"key": f"key_{n}"}} for n in range(50)),
    ]
    return found


def carried_values() -> Document:
    """1,000 states whose transitions test 30 keys that only the first one asks for, and a statement
    about all.
    """
    keys = {
        f"k{n}": {"type": "string", "enum": list("abcde"), "x-source": "tool"} for n in range(30)
    }
    states: Document = {
        f"s{n}": {
            "purpose": f"Do step {n}",
            "transitions": [
                _to(
                    f"s{(n * 2 + m + 1) % 1000}",
                    _is(f"k{(n + m) % 30}", "abcde"[(n // 30 + m) % 5]),
                )
                for m in range(3)
            ],
        }
        for n in range(999)
    }
    return _machine(
        {**states, "s999": _END}, keys, properties=[{"never": "s999"}, {"eventually": "s999"}]
    )


def schema_references() -> Document:
    """20 keys of one schema that refers to the next one eight times, and so on for 30 schemas."""
    inner: Document = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 8} for n in range(30)}
    keys = {f"k{n}": {"$ref": "#/$defs/d0"} for n in range(20)}
    start = {
        "purpose": "Ask",
        "transitions": [_to("end", _is("k0", "x")), _to("end", _is("k1", 1))],
    }
    found = _machine({"start": start, "end": _END}, keys)
    found["context_schema"]["$defs"] = {**inner, "d30": {"type": "string"}}
    return found


def words() -> Document:
    """1,000 states with long words in which keys are named."""
    keys = {f"key_{n}": {"type": "string", "description": f"What key {n} is"} for n in range(300)}
    text = " ".join(f"Ask for key_{n} and for `key_{n + 1}`, please." for n in range(40))
    states: Document = {
        f"s{n}": {
            "purpose": f"Do step {n}",
            "instructions": text,
            "reply": "Hello {{ key_1 | upper }}{% if key_2 %}, {{ key_2 }}{% endif %}" + f" {n}.",
            "required_context_keys": [f"key_{n % 300}", f"key_{(n + 1) % 300}"],
            "example_dialogue": [{"user": "Hi"}, {"system": "Hello"}],
            "transitions": [_to(f"s{n + 1}"), _to("s999"), _to(f"s{n // 2}")],
        }
        for n in range(999)
    }
    return _machine({**states, "s999": _END}, keys)


def work() -> Document:
    """500 tasks with key results and 500 states that wait, in turns, and 200 tools."""
    tools = {
        f"tool_{n}": {"registered": f"tool_{n}", "output": {f"k{n}": "$.value"}} for n in range(200)
    }
    keys = {f"k{n}": {"type": "string", "x-source": "tool"} for n in range(200)} | {
        f"a{n}": {"type": "boolean", "x-source": "answer"} for n in range(500)
    }
    states: Document = {}
    for n in range(500):
        states[f"t{n}"] = {
            "kind": "task",
            "purpose": f"Work on {n}",
            "tools": [f"tool_{n % 200}", f"tool_{(n + 1) % 200}"],
            "key_results": [
                {"name": "long", "description": "Not empty", "check": {"!!": [{"var": "output"}]}}
            ],
            "transitions": [_to(f"w{n}", None, f"k{n % 200}"), _to("end", None)],
        }
        states[f"w{n}"] = {
            "kind": "wait",
            "wait_for": "manager",
            "output": {f"a{n}": "$.ok"},
            "timeout": 60,
            "on_timeout": "end",
            "transitions": [
                _to(f"t{(n + 1) % 500}", _is(f"a{n}", True)),
                _to("end", _is(f"a{n}", False)),
            ],
        }
    return _machine({**states, "end": _END}, keys, tools=tools)


SHAPES: Mapping[str, Callable[[], Document]] = MappingProxyType(
    {
        shape.__name__.replace("_", "-"): shape
        for shape in (
            grid,
            complete,
            chain_of_decisions,
            layered_decisions,
            lists,
            long_lists,
            open_lists,
            many_keys,
            unset_keys,
            unset_keys_in_one_state,
            global_transitions,
            many_global_transitions,
            automatic_global_transitions,
            deep_guards,
            deep_guards_everywhere,
            deciding_deep_guards,
            misspelt,
            misspelt_values,
            islands,
            fan,
            automatic_fan,
            statements,
            carried_values,
            schema_references,
            words,
            work,
        )
    }
)
"""Name of a shape to what makes a definition of it."""
