"""What a rule is. Its module's docstring is its published page.

A page has four parts, each begun by its heading on a line of its own: the first paragraph says in one
sentence what is found; then `Why it is bad:`, `Example:` (a definition fragment that has the fault) and
`Fix:`. The module ends with `RULE = Rule(…)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from llm_fsm.definition.codes import CODES
from llm_fsm.errors import Finding, Level
from llm_fsm.lint.document import Subject


class Rule(NamedTuple):
    """One rule. `at_key`: its findings stand at the key of their pointer, not at the value.

    `level` is the gravest that its findings have. `needs_form`: it is run only on documents without errors of
    form. `blocks`: a machine with such an error cannot be run at all; of the rules of level error only these are
    run when a machine is loaded, the others are errors of some path through it.
    """

    name: str
    code: str
    level: Level
    check: Callable[[Subject], Iterable[Finding]]
    at_key: bool = False
    needs_form: bool = False
    blocks: bool = True

    def finding(
        self,
        message: str,
        *,
        pointer: str,
        hint: str | None = None,
        level: Level | None = None,
        path: tuple[str, ...] = (),
    ) -> Finding:
        """A finding of this rule, not yet placed in a file; `level` overrides the rule's own."""
        return Finding(
            code=self.code,
            name=self.name,
            level=level or self.level,
            message=message,
            hint=hint,
            pointer=pointer,
            path=path,
        )


def told(name: str) -> Rule:
    """The rule of a finding that is made while a document is read; its module holds the page alone."""
    entry = CODES[name]
    return Rule(name=name, code=entry.code, level=entry.level, check=_nothing, at_key=entry.at_key)


def _nothing(subject: Subject) -> Iterable[Finding]:  # noqa: ARG001
    return ()
