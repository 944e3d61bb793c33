"""`llm-fsm test --generate`: files of tests made from definitions, or for what other tests leave
out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import chain

from llm_fsm._json import JsonMap
from llm_fsm.cli import documents
from llm_fsm.cli.commands.test import coverage as coverage_report
from llm_fsm.cli.exit_codes import AT_FAULT, USAGE, Failure, failing
from llm_fsm.cli.output import write_output
from llm_fsm.cli.terminal import console
from llm_fsm.documents.discovery import NoDefinitionError, definitions
from llm_fsm.documents.loader import load
from llm_fsm.engine.host_files import HostTools
from llm_fsm.errors import DefinitionError
from llm_fsm.testing.generate.generator import Generated, generated
from llm_fsm.testing.scenarios.loader import ENDING, read_suite
from llm_fsm.testing.scenarios.problems import SuiteError, plural
from llm_fsm.testing.scenarios.session import Covered, PlayOptions, play_loaded

GENERATED = ".generated.test.json"
MISSING = ".missing.test.json"
_SHOWN = 10


def generate(paths: Sequence[str], output: str | None, host: HostTools) -> None:
    """Write the tests of each definition beside it, or those of one definition to `output`. Raises
    Failure.

    For a file of tests they are those of what it does not touch. Functions and handlers of `host`
    run.
    """
    suites = [path for path in paths if path.endswith(ENDING) and os.path.isfile(path)]
    with failing(NoDefinitionError):
        given = [path for path in paths if path not in suites]
        every = chain.from_iterable(map(definitions, given))
        files = [file for file in every if not file.endswith(ENDING)]
    if output is not None and len(files) + len(suites) != 1:
        raise Failure(
            f"-o takes the tests of one definition, here are {len(files) + len(suites)}", USAGE
        )
    if suites:
        complete(suites, output, host)
    faulty: list[str] = []
    for file in files:
        place = output or file.removesuffix(".json") + GENERATED
        try:
            definition = load(file)
            beside = os.path.relpath(file, os.path.dirname(place) or os.curdir)
            made = generated(definition, name=beside, place=file, host=host)
        except DefinitionError as error:
            faulty += map(str, error.findings)
        except SuiteError as error:
            faulty.append(f"{file}: no tests can be made of it: {error}")
        else:
            _write(place, made.document)
            console.note(_told(place, made))
    _tell_faults(faulty)


def _tell_faults(faults: Sequence[str]) -> None:
    """Raise Failure where there are any, when each was told in a line."""
    for fault in faults[:-1]:
        console.error(fault)
    if faults:
        raise Failure(faults[-1], AT_FAULT)


def complete(suites: Sequence[str], output: str | None, host: HostTools) -> None:
    """Write tests of what files of tests leave out, for each definition that they test. Raises
    Failure.
    """
    faulty: list[str] = []
    played: dict[str, Covered] = {}
    for file in suites:
        try:
            covered = play_loaded(read_suite(file), PlayOptions(cover=True), host=host).covered
        except SuiteError as error:
            faulty += map(str, error.faults)
        else:
            played |= {file: covered} if covered is not None else {}
    _tell_faults(faulty)
    found = coverage_report.joined(played.values())
    if output is not None and len(found) > 1:
        raise Failure(f"-o takes the tests of one definition, here are {len(found)}", USAGE)
    for one in found:
        first = next(file for file, covered in played.items() if covered.file == one.file)
        place = output or first.removesuffix(ENDING) + MISSING
        definition = read_suite(first).definition
        inline = one.file.endswith(ENDING)
        name = os.path.relpath(one.file, os.path.dirname(place) or os.curdir)
        missing = one.coverage.untouched()
        made = generated(definition, name=name, place=one.file, missing=missing, host=host)
        left = _left(made)
        if not made.conversations:
            console.note(f"nothing to add for {one.file}{left}")
            continue
        document = {**made.document, **({"definition": definition.document} if inline else {})}
        _write(place, document)
        console.note(f"wrote {place}: {plural(len(made.conversations), 'case')}{left}")


def _write(place: str, document: JsonMap) -> None:
    """Write generated tests, also over older ones. Raises Failure where something else stands
    there.
    """
    kept = None if place.endswith((GENERATED, MISSING)) else documents.precious(place)
    if kept is not None:
        raise Failure(
            f"{place} is {kept} that --generate did not make, and is not overwritten", USAGE
        )
    marked = {documents.GENERATED: True, **document}
    write_output(place, json.dumps(marked, ensure_ascii=False, indent=1) + "\n")


def _told(place: str, made: Generated) -> str:
    share = f"{made.coverage.share('transitions'):.0f} % of transitions"
    return f"wrote {place}: {plural(len(made.conversations), 'case')}, {share}{_left(made)}"


def _left(made: Generated) -> str:
    """Say what the cases do not reach."""
    shown = ", ".join(made.left[:_SHOWN]) + (", …" if len(made.left) > _SHOWN else "")
    return f"; not reached: {shown}" if made.left else ""
