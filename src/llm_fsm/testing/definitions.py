"""One test that checks every definition of a folder, as `llm-fsm validate` does."""

from __future__ import annotations

import os
from collections.abc import Sequence

from llm_fsm.documents.check import check
from llm_fsm.documents.discovery import NoDefinitionError, definitions
from llm_fsm.errors import Finding
from llm_fsm.lint.config import Config, FailOn
from llm_fsm.lint.report.formats import text


def check_folder(
    path: str | os.PathLike[str],
    *,
    fail_on: FailOn = "error",
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    token_budget: int | None = None,
) -> list[Finding]:
    """Check every definition below a folder (or one file), and give the findings that do not count.

        def test_definitions():
            check_folder("bots", fail_on="warning")

    Raises AssertionError with all findings when one is at or above `fail_on`, or is about a file that is no
    definition, and when the folder has no definition. `select`, `ignore`: rules by name, code or the beginning
    of a code; ConfigError for one that does not exist. `token_budget`: tokens that a state's prompt may take.
    """
    config = Config().over(select=select, ignore=ignore, fail_on=fail_on)
    try:
        files = list(definitions(os.fspath(path)))
    except NoDefinitionError as error:
        raise AssertionError(str(error)) from error
    findings = [
        found for file in files for found in check(file, token_budget=token_budget) if config.keeps(found)
    ]
    if any(config.fails(found) for found in findings):
        count = f"{len(findings)} findings in {len(files)} files" if len(findings) > 1 else "1 finding"
        raise AssertionError(f"{count}:\n{text(findings, files)}")
    return findings
