"""Check every definition of a folder in one test, as `llm-fsm validate` does."""

from __future__ import annotations

import os
from collections.abc import Sequence

from llm_fsm.documents.check import check
from llm_fsm.documents.discovery import NoDefinitionError, definitions
from llm_fsm.documents.files import FilePath
from llm_fsm.errors import Finding
from llm_fsm.lint.config import FailOn, LintConfig
from llm_fsm.lint.report.formats import text


def check_folder(
    path: FilePath,
    *,
    fail_on: FailOn = "error",
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    token_budget: int | None = None,
) -> list[Finding]:
    """Check every definition below a folder, or one file.

    Args:
        path: The folder or file.
        fail_on: The lowest level that fails: "error", "warning" or "info".
        select: Only these rules: names, codes, or beginnings of codes.
        ignore: All but these rules.
        token_budget: Tokens that a state's prompt may take; None: no limit.

    Returns:
        The findings below that level.

    Raises:
        AssertionError: A finding is at or above `fail_on`, a file is no definition, or the folder
            has none.
        ConfigError: There is no such rule.

    Example:
        >>> def test_definitions():
        ...     check_folder("bots", fail_on="warning")
    """
    config = LintConfig().over(select=select, ignore=ignore, fail_on=fail_on)
    try:
        files = list(definitions(os.fspath(path)))
    except NoDefinitionError as error:
        raise AssertionError(str(error)) from error
    findings: list[Finding] = []
    for file in files:
        findings += filter(config.keeps, check(file, token_budget=token_budget))
    if any(config.fails(found) for found in findings):
        count = "1 finding"
        if len(findings) > 1:
            count = f"{len(findings)} findings in {len(files)} files"
        raise AssertionError(f"{count}:\n{text(findings, files)}")
    return findings
