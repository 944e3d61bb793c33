"""Faults that authors make are planted into shipped definitions, and the checker finds them.

One fault is planted at a time. It counts as found when a rule that is meant for it reports
something new. The same seed gives the same faults.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from faults import KINDS, Document, Fault
from llm_fsm.documents.check import check, check_data
from llm_fsm.documents.loader import load
from llm_fsm.errors import Finding
from llm_fsm.lint.registry import BY_NAME
from paths import ROOT

FOLDER = ROOT / "fsm_definitions"
BAR = 0.95
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
    """File name to document of the shipped definitions that declare the keys that faults are
    planted into.
    """
    every = {
        path.name: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(FOLDER.glob("*.json"))
    }
    # A document that is in no file brings its translations.
    for name, document in every.items():
        if "languages" in document:
            document["texts"] = load(FOLDER / name).texts
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
    """`count` faults, each kind about as often as any other, no two of them the same while there
    are others.
    """
    chance = Random(seed)
    before = {
        name: {_mark(found) for found in check(document)} for name, document in documents.items()
    }
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
    structure = [
        at for at, char in enumerate(text) if char in '{}[],:"' and _is_structure(text, at)
    ]
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


def test_the_untouched_definitions_have_no_findings() -> None:
    assert false_alarms(definitions()) == []


def test_planted_faults_are_found() -> None:
    results = list(plant(definitions(), 120, seed=7))
    assert sum(result.detected for result in results) >= BAR * len(results)
    assert len({result.kind for result in results}) >= 20


def test_the_same_seed_plants_the_same_faults() -> None:
    documents = definitions()
    assert list(plant(documents, 40, seed=3)) == list(plant(documents, 40, seed=3))
    assert list(plant(documents, 40, seed=3)) != list(plant(documents, 40, seed=4))


@pytest.mark.parametrize("fault", KINDS, ids=lambda fault: fault.name)
def test_the_rules_that_are_meant_exist(fault) -> None:
    assert set(fault.rules) <= set(BY_NAME)
