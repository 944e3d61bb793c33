"""`llm-fsm test --generate`: files of tests made from definitions."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from llm_fsm.cases.faults import SuiteError
from llm_fsm.cases.generation import Generated, generated
from llm_fsm.cli import documents, printing
from llm_fsm.cli.exits import AT_FAULT, USAGE, Failure
from llm_fsm.errors import DefinitionError
from llm_fsm.folder import NoDefinitionError, definitions
from llm_fsm.loader import load

ENDING = ".generated.test.json"
_SHOWN = 10


def generate(paths: Sequence[str], output: str | None) -> None:
    """Write the tests of each definition beside it, or those of one definition to `output`. Raises Failure."""
    try:
        files = [file for path in paths for file in definitions(path) if not file.endswith(".test.json")]
    except NoDefinitionError as error:
        raise Failure(str(error), USAGE) from error
    if output is not None and len(files) != 1:
        raise Failure(f"-o takes the tests of one definition, here are {len(files)}", USAGE)
    for file in files:
        place = output or file.removesuffix(".json") + ENDING
        try:
            definition = load(file)
            beside = os.path.relpath(file, os.path.dirname(place) or os.curdir)
            made = generated(definition, name=beside, file=place, place=file)
        except DefinitionError as error:
            raise Failure("\n".join(map(str, error.findings)), AT_FAULT) from error
        except SuiteError as error:
            raise Failure(f"{file}: no tests can be made of it: {error}", AT_FAULT) from error
        documents.write_output(place, json.dumps(made.document, ensure_ascii=False, indent=1) + "\n")
        printing.note(_told(place, made))


def _told(place: str, made: Generated) -> str:
    missing = made.coverage.missing("transitions")
    count = len(made.document["cases"])
    share = f"{made.coverage.share('transitions'):.0f} % of transitions"
    left = ", ".join(missing[:_SHOWN]) + (", …" if len(missing) > _SHOWN else "")
    return f"wrote {place}: {count} cases, {share}" + (f"; not reached: {left}" if missing else "")
