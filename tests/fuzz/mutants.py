"""Count the changes of definitions that their generated tests notice.

A mutant is a definition with one change of its behaviour: a guard, a target, `auto`, `set`, a bound
or a kind. It is noticed if one of the tests that were generated for the original fails on it, or if
it no longer loads.

Run it on files: `PYTHONPATH=src:tests/fuzz python tests/fuzz/mutants.py fsm_definitions/*.json`.
With `--sample N` it plays N mutants of each kind of each file, chosen by the seed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Any

from changes import KINDS, Document
from llm_fsm.documents.loader import load
from llm_fsm.errors import LLMFSMError
from llm_fsm.testing.generate.generator import generated
from llm_fsm.testing.scenarios.loader import suite_of
from llm_fsm.testing.scenarios.player import Player
from llm_fsm.testing.scenarios.problems import SuiteError

GROUPS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "guards": (
            "a condition is gone",
            "a condition asks for a key less",
            "a condition is negated",
            "an operator is another one",
            "a bound is in instead of out",
            "a value is another one",
            "a part of a rule is gone",
        ),
        "targets": ("a transition leads elsewhere", "targets are swapped", "a transition is gone"),
        "auto": ("auto is another",),
        "set": ("a value that is set is another", "a key is no longer cleared"),
        "bounds": (
            "a key's schema is another one",
            "an expression is wider",
            "a rule for values is gone",
        ),
        "kinds": ("a state ends it", "a state is of another kind"),
    }
)
"""Group of a report to the kinds of changes in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One changed definition, and True if the generated tests noticed the change."""

    file: str
    group: str
    kind: str
    place: str
    noticed: bool


def mutants(
    document: Document, sample: int | None, chance: Random
) -> Iterator[tuple[str, str, str, Document]]:
    """Yield (group, kind, place, changed document), at most `sample` of each kind."""
    for group, kinds in GROUPS.items():
        for kind in kinds:
            found = list(KINDS[kind](document))
            if sample is not None and len(found) > sample:
                found = chance.sample(found, sample)
            for place, changed in found:
                yield group, kind, place, changed


def measured(file: str, *, sample: int | None = None, seed: int = 0) -> Iterator[Mutant]:
    """Yield the mutants of a definition file, each played with the tests that are generated for the
    file.
    """
    definition = load(file)
    tests = dict(generated(definition, name=file, place=file).document)
    document = json.loads(json.dumps(definition.document))
    for group, kind, place, changed in mutants(document, sample, Random(seed)):
        if changed != document:
            noticed = fails(tests, changed, file)
            yield Mutant(file=file, group=group, kind=kind, place=place, noticed=noticed)


def fails(tests: Mapping[str, Any], document: Document, file: str) -> bool:
    """Return True if a test fails on a definition, or the definition does not load."""
    try:
        loaded = suite_of(json.dumps({**tests, "definition": document}), file=file)
    except (SuiteError, LLMFSMError):
        return True

    async def one_fails() -> bool:
        player = Player(loaded)
        try:
            for play in loaded.plays:
                if not (await player.play(play)).passed:
                    return True
        finally:
            await player.close()
        return False

    return asyncio.run(one_fails())


def report(found: Iterable[Mutant]) -> Iterator[str]:
    """Yield a line for each mutant that nothing noticed, then one for each group, then the sum."""
    every: Counter[str] = Counter()
    noticed: Counter[str] = Counter()
    for mutant in found:
        every[mutant.group] += 1
        noticed[mutant.group] += mutant.noticed
        if not mutant.noticed:
            yield f"not noticed: {mutant.file}: {mutant.kind}: {mutant.place}"
    for group in every:
        yield f"{group}: {noticed[group]} of {every[group]}"
    yield f"all: {noticed.total()} of {every.total()}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    found: list[Mutant] = []
    for file in options.files:
        found += measured(file, sample=options.sample, seed=options.seed)
    for line in report(found):
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
