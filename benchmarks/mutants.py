"""How much generated tests notice: shipped definitions are changed, and their generated tests are played.

    python -m benchmarks.mutants [--seed 1] [--per-file 20] [--missed] [NAME…]

Each change is one that a machine's behaviour may depend on. A change that the checker's meaning of a definition calls
none (`llm-fsm diff`) cannot occur here: every kind changes a transition, a condition, a fixed text, a schema or a time.
The exit code is 1 when less than 90 % are noticed.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, NamedTuple

from llm_fsm.cases.faults import SuiteError
from llm_fsm.cases.generation import generated
from llm_fsm.cases.player import Player
from llm_fsm.cases.reading import suite_of
from llm_fsm.errors import DefinitionError
from llm_fsm.loader import load

FOLDER = Path(__file__).resolve().parent.parent / "fsm_definitions"
BAR = 0.9
Document = dict[str, Any]
_OTHER = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "and": "or", "or": "and"}


class Mutant(NamedTuple):
    """A changed definition. `noticed`: a generated test fails on it."""

    file: str
    kind: str
    place: str
    noticed: bool


def _transitions(document: Document) -> list[tuple[str, list[Any], int]]:
    found = [
        (name, state["transitions"], number)
        for name, state in document["states"].items()
        for number in range(len(state.get("transitions", ())))
    ]
    shared = document.get("global_transitions", [])
    return found + [("global", shared, number) for number in range(len(shared))]


def _gone(document: Document, chance: Random) -> str | None:
    name, listed, number = chance.choice(_transitions(document))
    listed.pop(number)
    return f"{name}/{number}"


def _elsewhere(document: Document, chance: Random) -> str | None:
    name, listed, number = chance.choice(_transitions(document))
    others = [state for state in document["states"] if state not in (listed[number]["target_state"], name)]
    listed[number]["target_state"] = chance.choice(others)
    return f"{name}/{number}"


def _unconditional(document: Document, chance: Random) -> str | None:
    closed = [one for one in _transitions(document) if one[1][one[2]].get("conditions")]
    if not closed:
        return None
    name, listed, number = chance.choice(closed)
    conditions = listed[number]["conditions"]
    conditions.pop(chance.randrange(len(conditions)))
    return f"{name}/{number}"


def _operations(rule: Any) -> Iterator[Document]:
    if isinstance(rule, dict) and len(rule) == 1:
        yield rule
        for part in rule.values():
            yield from _operations(part)
    elif isinstance(rule, list):
        for part in rule:
            yield from _operations(part)


def _rules(document: Document) -> list[Document]:
    conditions = [
        one for _, listed, number in _transitions(document) for one in listed[number].get("conditions", ())
    ]
    return [rule for one in conditions for rule in _operations(one.get("logic"))]


def _turned(document: Document, chance: Random) -> str | None:
    fitting = [rule for rule in _rules(document) if next(iter(rule)) in _OTHER]
    if not fitting:
        return None
    rule = chance.choice(fitting)
    [(operator, arguments)] = rule.items()
    del rule[operator]
    rule[_OTHER[operator]] = arguments
    return f"{operator} {json.dumps(arguments)[:60]}"


def _shifted(document: Document, chance: Random) -> str | None:
    fitting = [
        (part, number)
        for rule in _rules(document)
        for part in rule.values()
        if isinstance(part, list) and next(iter(rule)) in ("==", "!=", "<", "<=", ">", ">=", "in")
        for number, value in enumerate(part)
        if isinstance(value, int | float | str) and not isinstance(value, bool)
    ]
    if not fitting:
        return None
    part, number = chance.choice(fitting)
    value = part[number]
    part[number] = value + "x" if isinstance(value, str) else value + 1
    return json.dumps(part)[:60]


def _said(document: Document, chance: Random) -> str | None:
    fixed = [name for name, state in document["states"].items() if state.get("reply")]
    if not fixed:
        return None
    name = chance.choice(fixed)
    document["states"][name]["reply"] = "Something else."
    return name


def _silent(document: Document, chance: Random) -> str | None:
    fixed = [name for name, state in document["states"].items() if state.get("reply")]
    if not fixed:
        return None
    name = chance.choice(fixed)
    del document["states"][name]["reply"]
    return name


def _manual(document: Document, chance: Random) -> str | None:
    autos = [one for one in _transitions(document) if one[1][one[2]].get("auto")]
    if not autos:
        return None
    name, listed, number = chance.choice(autos)
    del listed[number]["auto"]
    return f"{name}/{number}"


def _schema(document: Document, chance: Random) -> str | None:
    keys = document.get("context_schema", {}).get("properties", {})
    fitting = [
        (key, word)
        for key, schema in keys.items()
        for word in ("enum", "minimum", "maximum", "minLength", "maxLength", "type", "x-source")
        if word in schema
    ]
    if not fitting:
        return None
    key, word = chance.choice(fitting)
    schema = keys[key]
    if word == "enum":
        schema["enum"] = schema["enum"][1:] or ["x"]
    elif word in ("type", "x-source"):
        schema[word] = {"string": "integer", "model": "host", "host": "model"}.get(schema[word], "string")
        if word == "x-source" and schema[word] == "string":
            return None
    else:
        schema[word] += 1
    return f"{key}/{word}"


def _target(document: Document, chance: Random) -> str | None:
    document["initial_state"] = chance.choice([one for one in document["states"] if one != document["initial_state"]])
    return str(document["initial_state"])


KINDS: Mapping[str, Callable[[Document, Random], str | None]] = MappingProxyType(
    {
        "a transition is gone": _gone,
        "a transition leads elsewhere": _elsewhere,
        "a condition is gone": _unconditional,
        "an operator is another one": _turned,
        "a value is another one": _shifted,
        "fixed words are others": _said,
        "fixed words are gone": _silent,
        "auto is gone": _manual,
        "a key's schema is another one": _schema,
        "it begins elsewhere": _target,
    }
)


def mutants(names: Sequence[str], per_file: int, seed: int) -> Iterator[Mutant]:
    """The changes of each definition, and whether they were noticed."""
    chance = Random(seed)
    for path in sorted(FOLDER.glob("*.json")):
        if names and path.stem not in names:
            continue
        tests = generated(load(path), name=str(path), file=str(path), place=str(path)).document
        original = json.loads(path.read_text(encoding="utf-8"))
        seen = {json.dumps(original)}
        for number in range(per_file):
            kind = list(KINDS)[number % len(KINDS)]
            document = copy.deepcopy(original)
            place = KINDS[kind](document, chance)
            if place is None or json.dumps(document) in seen:
                continue
            seen.add(json.dumps(document))
            noticed = _noticed(tests, document, path)
            if noticed is not None:
                yield Mutant(path.stem, kind, place, noticed)


def _noticed(tests: Document, document: Document, path: Path) -> bool | None:
    """Whether a test fails; None for what does not load."""
    with TemporaryDirectory() as folder:
        for other in FOLDER.glob("*.json"):
            Path(folder, other.name).write_bytes(other.read_bytes())
        file = Path(folder, path.name)
        file.write_text(json.dumps(document), encoding="utf-8")
        try:
            load(file)
        except DefinitionError:
            return None
        try:
            text = json.dumps({**tests, "definition": path.name})
            loaded = suite_of(text, file=str(Path(folder, "x.test.json")))
        except SuiteError:
            return True
        return asyncio.run(_fails(Player(loaded)))


async def _fails(player: Player) -> bool:
    try:
        for play in player.loaded.plays:
            if not (await player.play(play)).passed:
                return True
        return False
    finally:
        await player.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Change, play, print the table, and say with the exit code whether the bar was reached."""
    parser = argparse.ArgumentParser(prog="benchmarks.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="shipped definitions; without them all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--per-file", type=int, default=20, metavar="N")
    parser.add_argument("--missed", action="store_true", help="show what was not noticed")
    given = parser.parse_args(arguments)
    found = list(mutants(given.names, given.per_file, given.seed))
    for kind in KINDS:
        mine = [one.noticed for one in found if one.kind == kind]
        if mine:
            print(f"{kind:32} {len(mine):4}  {sum(mine) / len(mine):5.0%}")
    share = sum(one.noticed for one in found) / max(1, len(found))
    print(f"{'together':32} {len(found):4}  {share:5.1%}")
    for one in found if given.missed else ():
        if not one.noticed:
            print(f"missed: {one.file}: {one.kind}: {one.place}")
    return 0 if share >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
