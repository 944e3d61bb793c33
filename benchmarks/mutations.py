"""How much the checker finds: known faults planted into the shipped definitions.

    python -m benchmarks.mutations [--faults 1000] [--seed 1] [--missed]

One fault is planted at a time. It counts as found when a rule that is meant for it reports what it did not report
before; that the untouched definitions have no finding above a note is checked as well. The same seed gives the
same faults. The exit code is 1 when less than 95 % are found, or when something is said of an untouched definition.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from benchmarks import faults, slips
from benchmarks.faults import Document, Fault
from llm_fsm.documents.check import check, check_data
from llm_fsm.errors import Finding

FOLDER = Path(__file__).resolve().parent.parent / "fsm_definitions"
BAR = 0.95
KINDS = (*faults.KINDS, *slips.KINDS)
"""Every kind that is planted into documents; two more are planted into their text."""
_ATTEMPTS = 40
_TEXT_KINDS: Mapping[str, str] = {
    "text that is no JSON": "bad-json",
    "key that stands there twice": "duplicate-key",
}


@dataclass(frozen=True, slots=True)
class Planted:
    """One planted fault. `expected` are the rules that may find it; `found` those that did."""

    kind: str
    file: str
    place: str
    expected: tuple[str, ...]
    found: tuple[str, ...]

    @property
    def detected(self) -> bool:
        """True when a rule that is meant for it said something new."""
        return bool(set(self.expected) & set(self.found))


def definitions() -> dict[str, Document]:
    """File name to document of the shipped definitions that declare the keys that faults are planted into."""
    every = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}
    return {name: document for name, document in every.items() if "context_schema" in document}


def false_alarms(documents: Mapping[str, Document]) -> list[tuple[str, Finding]]:
    """What is said of the untouched definitions, notes aside."""
    return [
        (name, found)
        for name, document in documents.items()
        for found in check(document)
        if found.level != "info"
    ]


def plant(documents: Mapping[str, Document], count: int, seed: int) -> Iterator[Planted]:
    """`count` faults, each kind about as often as any other, no two of them the same while there are others."""
    chance = Random(seed)
    before = {name: {_mark(found) for found in check(document)} for name, document in documents.items()}
    seen: set[tuple[str, str, str]] = set()
    kinds: Sequence[Fault | str] = (*KINDS, *_TEXT_KINDS)
    for number in range(count):
        yield _one(kinds[number % len(kinds)], documents, before, seen, chance)


def _mark(found: Finding) -> tuple[str, str]:
    return found.name, found.message


def _one(
    kind: Fault | str,
    documents: Mapping[str, Document],
    before: Mapping[str, set[tuple[str, str]]],
    seen: set[tuple[str, str, str]],
    chance: Random,
) -> Planted:
    """A fault of a kind: a new one where one is found in a reasonable number of attempts."""
    best: Planted | None = None
    for _ in range(_ATTEMPTS):
        file = chance.choice(list(documents))
        document = copy.deepcopy(documents[file])
        name = kind if isinstance(kind, str) else kind.name
        if isinstance(kind, str):
            text, place = _TEXT_PLANTS[kind](document, chance)
        else:
            where = kind.plant(document, chance)
            if where is None or document == documents[file]:
                continue
            text, place = None, where
        if best is not None and (name, file, place) in seen:
            continue
        findings = check(document) if text is None else check_data(text.encode(), file=file)
        new = tuple(sorted({one.name for one in findings if _mark(one) not in before[file]}))
        expected = (_TEXT_KINDS[kind],) if isinstance(kind, str) else kind.rules
        best = Planted(name, file, place, expected, new)
        if (name, file, place) not in seen:
            break
    assert best is not None, f"no shipped definition has a place for: {kind}"
    seen.add((best.kind, best.file, best.place))
    return best


def _broken_text(document: Document, chance: Random) -> tuple[str, str]:
    """A bracket, quote, comma or colon taken out."""
    text = json.dumps(document, indent=2)
    structure = [at for at, char in enumerate(text) if char in '{}[],:"' and _is_structure(text, at)]
    at = chance.choice(structure)
    return text[:at] + text[at + 1 :], str(at)


def _is_structure(text: str, at: int) -> bool:
    """True outside of strings: their inner characters may be missing without harm."""
    line = text[text.rfind("\n", 0, at) + 1 : at].replace('\\"', "")
    return line.count('"') % 2 == (1 if text[at] == '"' else 0)


def _twice(document: Document, chance: Random) -> tuple[str, str]:
    """A state that is there a second time under the same key."""
    name = chance.choice(list(document["states"]))
    document["states"]["second_of_them"] = dict(document["states"][name])
    return json.dumps(document, indent=2).replace('"second_of_them"', json.dumps(name)), name


_TEXT_PLANTS: Mapping[str, Any] = {
    "text that is no JSON": _broken_text,
    "key that stands there twice": _twice,
}


def table(results: Sequence[Planted]) -> str:
    """One line a kind: how many were planted, different ones among them, and found."""
    kinds = dict.fromkeys(result.kind for result in results)
    width = max(len(kind) for kind in kinds)
    lines = [f"{'':{width}}  planted  different  found", "-" * (width + 27)]
    for kind in kinds:
        mine = [result for result in results if result.kind == kind]
        different = len({(result.file, result.place) for result in mine})
        found = sum(result.detected for result in mine)
        lines.append(f"{kind:{width}}  {len(mine):7}  {different:9}  {found / len(mine):5.0%}")
    detected = sum(result.detected for result in results)
    lines.append("-" * (width + 27))
    lines.append(f"{f'{len(kinds)} kinds':{width}}  {len(results):7}  {'':9}  {detected / len(results):5.1%}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant, print the table, and say with the exit code whether the bar was reached."""
    parser = argparse.ArgumentParser(prog="benchmarks.mutations", description=__doc__)
    parser.add_argument("--faults", type=int, default=1000, help="how many are planted")
    parser.add_argument("--seed", type=int, default=1, help="another seed gives other faults")
    parser.add_argument("--missed", action="store_true", help="show what was not found")
    given = parser.parse_args(arguments)
    documents = definitions()
    alarms = false_alarms(documents)
    results = list(plant(documents, given.faults, given.seed))
    print(table(results))
    for name, found in alarms:
        print(f"said of the untouched {name}: {found}")
    if given.missed:
        for result in results:
            if not result.detected:
                print(
                    f"missed: {result.kind} in {result.file} at {result.place}; found: {', '.join(result.found)}"
                )
    found_share = sum(result.detected for result in results) / len(results)
    return 0 if found_share >= BAR and not alarms else 1


if __name__ == "__main__":
    sys.exit(main())
