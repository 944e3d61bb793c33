"""The parts of their definitions that tests touched: a table, and JSON for `llm-fsm show
--coverage`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from llm_fsm._json import JsonDict
from llm_fsm._text import visible
from llm_fsm.cli.documents import COVERAGE
from llm_fsm.definition import json_source as source
from llm_fsm.definition.json_source import Scan
from llm_fsm.documents.files import read
from llm_fsm.documents.loader import load
from llm_fsm.errors import DefinitionError
from llm_fsm.testing.coverage import KINDS, Kind
from llm_fsm.testing.generate.generator import Generated, generated
from llm_fsm.testing.scenarios.loader import ENDING, read_suite
from llm_fsm.testing.scenarios.problems import SuiteError
from llm_fsm.testing.scenarios.session import Covered

_NAMES: Mapping[Kind, str] = {
    "states": "states",
    "transitions": "transitions",
    "conditions": "condition outcomes",
    "keys": "required keys",
    "key_results": "key results",
    "patterns": "patterns",
}
_LISTED = 40


def joined(found: Iterable[Covered]) -> list[Covered]:
    """Join what several files and processes touched, for each definition."""
    whole: dict[tuple[str, str], Covered] = {}
    for one in found:
        place = (one.file, one.sha256)
        whole[place] = whole[place].plus(one) if place in whole else one
    return list(whole.values())


def share(found: Sequence[Covered]) -> float:
    """The least share of a definition, in percent."""
    return min((one.coverage.share() for one in found), default=100.0)


def table(found: Sequence[Covered]) -> str:
    """Numbers by kind, then what is missing, each with the shortest way there, and conversations
    that go it.
    """
    return "\n\n".join(
        "\n".join((*_numbers(one), *_missing(one), *_conversations(one))) for one in found
    )


def _numbers(one: Covered) -> Iterator[str]:
    yield f"coverage of {visible(one.name)} ({visible(one.file)})"
    for kind in KINDS:
        counts = one.coverage.counts[kind].values()
        if counts:
            touched = sum(bool(count) for count in counts)
            yield f"  {_NAMES[kind]:18} {touched:>4} of {len(counts):<4} {one.coverage.share(kind):5.1f} %"
    yield f"  {'together':18} {'':12} {one.coverage.share():5.1f} %"


def completed_of(one: Covered) -> Generated | None:
    """Conversations for what was missed; None where the definition cannot be read any more."""
    try:
        definition = (
            read_suite(one.file).definition if one.file.endswith(ENDING) else load(one.file)
        )
        return generated(
            definition, name=one.file, place=one.file, missing=one.coverage.untouched()
        )
    except (DefinitionError, SuiteError):
        return None


def _conversations(one: Covered) -> Iterator[str]:
    """Conversations that would reach what is missing, each with what it would touch."""
    made = completed_of(one) if one.coverage.share() < 100 else None
    if made is None or not made.conversations:
        return
    yield "  reached by (llm-fsm test --generate FILE.test.json writes them):"
    for found in made.conversations[:_LISTED]:
        yield f"    {visible(found.summary())}"
        yield f"      {visible(', '.join(found.reaches))}"
    if made.left:
        yield f"  not reached: {visible(', '.join(made.left))}"


def _missing(one: Covered) -> Iterator[str]:
    scan = _scan(one.file)
    names = list(chain.from_iterable(map(one.coverage.missing, KINDS)))
    if names:
        yield "  missing:"
    for name in names[:_LISTED]:
        way = one.ways.get(name, ())
        shown = f"  by {' → '.join(way)}" if way else ""
        yield f"    {_place(one, name, scan)}{visible(name)}{visible(shown)}"
    if len(names) > _LISTED:
        yield f"    … and {len(names) - _LISTED} more"


def _scan(file: str) -> Scan | None:
    try:
        return source.scan(read(file))
    except (DefinitionError, source.SourceError):
        return None


def _place(one: Covered, name: str, scan: Scan | None) -> str:
    line = line_of(name, scan)
    return f"{visible(one.file)}:{line}: " if line is not None else ""


def line_of(name: str, scan: Scan | None) -> int | None:
    """The line of what is named, in the definition's own file; None where it stands elsewhere."""
    if (
        scan is None
        or "#" in name
        or not isinstance(scan.value, dict)
        or "states" not in scan.value
    ):
        return None
    return scan.position(name.split(" ", 1)[0].rpartition("=")[0] or name.split(" ", 1)[0]).line


def document(found: Sequence[Covered]) -> JsonDict:
    """The JSON form."""
    return {
        "coverage": COVERAGE,
        "percent": round(share(found), 1),
        "definitions": [_definition(one) for one in found],
    }


def _definition(one: Covered) -> JsonDict:
    scan = _scan(one.file)
    missing = []
    for kind in KINDS:
        for name in one.coverage.missing(kind):
            way = list(one.ways.get(name, ()))
            missing.append({"kind": kind, "name": name, "line": line_of(name, scan), "way": way})
    head = {"name": one.name, "file": one.file, "sha256": one.sha256}
    made = completed_of(one) if missing else None
    told = (
        [{"reaches": list(item.reaches), "case": item.case} for item in made.conversations]
        if made
        else []
    )
    return {**head, **one.coverage.to_dict(), "missing": missing, "conversations": told}
