"""Errors of the package as problems for the author, who may read the whole message."""

from __future__ import annotations

from llm_fsm import errors
from llm_fsm.server import problems
from llm_fsm.server.problems import Problem


def problem_of(error: Exception) -> Problem:
    """Return the problem of an error, with its own words unless it is a fault of the studio."""
    match error:
        case errors.DefinitionError():
            faults = [one for one in error.findings if one.level == "error"]
            found = (faults or error.findings)[0]
            where = "" if found.line is None else f" (line {found.line})"
            return Problem("invalid", f"the definition cannot run yet: {found.message}{where}")
        case errors.ConfigurationError():
            return Problem("invalid", str(error))
    return problems.problem_of(error, in_own_words=True)
