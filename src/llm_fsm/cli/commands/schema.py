"""`llm-fsm schema`."""

from __future__ import annotations

import click

from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli.options import command
from llm_fsm.cli.terminal import console
from llm_fsm.definition.schema import definition_schema
from llm_fsm.releases.schema import release_schema
from llm_fsm.testing.scenarios.schema import suite_schema


@command("llm-fsm schema > definition.schema.json")
@click.option(
    "--tests", is_flag=True, help="The schema of conversation tests (*.test.json) instead."
)
@click.option("--release", is_flag=True, help="The schema of releases (*.release.json) instead.")
def schema(*, tests: bool, release: bool) -> None:
    """Print the JSON Schema of definition files.

    It is JSON Schema 2020-12, for editors and other tools: llm-fsm schema > llm-fsm.schema.json
    """
    exits.need_docstrings()
    if release:
        console.json(release_schema())
    else:
        console.json(suite_schema() if tests else definition_schema())
