"""How much generated tests notice: shipped definitions are changed, and their generated tests are played.

    python -m benchmarks.mutants [--seed 1] [--per-file 20] [--missed] [NAME…]

Each change is one that a machine's behaviour may depend on (`benchmarks.changes`, `benchmarks.additions`): none touches
words that only a model reads. A few of them change nothing all the same, such as a guard that what stands before it
implies. `--per-file 0` makes every change. The exit code is 1 when less than 90 % are noticed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.additions import ADDITIONS
from benchmarks.changes import KINDS, Document
from llm_fsm.documents.loader import load
from llm_fsm.errors import DefinitionError
from llm_fsm.testing.generate.generator import generated
from llm_fsm.testing.scenarios.loader import suite_of
from llm_fsm.testing.scenarios.player import Player
from llm_fsm.testing.scenarios.problems import SuiteError

FOLDER = Path(__file__).resolve().parent.parent / "fsm_definitions"
BAR = 0.9
EVERY = {**KINDS, **ADDITIONS}


class Mutant(NamedTuple):
    """A changed definition. `noticed`: a generated test fails on it."""

    file: str
    kind: str
    place: str
    noticed: bool


def mutants(names: Sequence[str], per_file: int, seed: int) -> Iterator[Mutant]:
    """The changes of each definition, and whether they were noticed."""
    chance = Random(seed)
    for path in sorted(FOLDER.glob("*.json")):
        if names and path.stem not in names:
            continue
        tests = generated(load(path), name=str(path), file=str(path), place=str(path)).document
        original = json.loads(path.read_text(encoding="utf-8"))
        for kind, place, document in _chosen(original, per_file, chance):
            noticed = _noticed(tests, document, path)
            if noticed is not None:
                yield Mutant(path.stem, kind, place, noticed)


def _chosen(original: Document, count: int, chance: Random) -> list[tuple[str, str, Document]]:
    """So many changes of a definition, of as many kinds as possible; all of them where `count` is 0."""
    seen = {json.dumps(original)}
    found: list[list[tuple[str, str, Document]]] = []
    for kind, change in EVERY.items():
        mine = []
        for place, document in change(original):
            mark = json.dumps(document)
            if mark not in seen:
                seen.add(mark)
                mine.append((kind, place, document))
        chance.shuffle(mine)
        found.append(mine)
    chance.shuffle(found)
    rounds = [one for layer in zip_longest(*found) for one in layer if one is not None]
    return rounds[:count] if count else rounds


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
    for kind in EVERY:
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
