"""A rule of the checker: its name and code, its check, and its published page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from llm_fsm.errors import Finding, Level
from llm_fsm.lint.document import Document


class Fault(NamedTuple):
    """A fault that a check yields. Its rule makes a finding of it.

    Args:
        message: The fault, in one line.
        pointer: JSON pointer of the place.
        hint: A way to fix it.
        level: Overrides the level of the rule.
        path: Ids of the states on a path that shows the fault.
    """

    message: str
    pointer: str
    hint: str | None = None
    level: Level | None = None
    path: tuple[str, ...] = ()


Faults = Iterator[Fault]
Check = Callable[[Document], Iterable[Fault]]


class LintRule(NamedTuple):
    """One rule.

    Args:
        name: Readable name, as in `"x-lint": {"ignore": ["trap"]}`.
        code: Letter of the family and three digits.
        level: The highest level of its findings.
        check: A function that yields the faults of a document.
        page: The published page, see `lint_rule`.
        at_key: Its findings point to the key at their pointer, not to the value.
        needs_form: It runs only on documents without errors of form.
        blocks: An error of this rule keeps the machine from running. Loading runs only these rules.
    """

    name: str
    code: str
    level: Level
    check: Check
    page: str
    at_key: bool = False
    needs_form: bool = False
    blocks: bool = True

    def findings(self, document: Document) -> tuple[Finding, ...]:
        """Return all findings of this rule in a document, computed once."""
        return document.once(self._found)

    def _found(self, document: Document) -> tuple[Finding, ...]:
        return tuple(map(self.finding, self.check(document)))

    def finding(self, fault: Fault) -> Finding:
        """Make a finding of this rule, with the pointer of the fault and without line and
        column.
        """
        return Finding(
            code=self.code,
            name=self.name,
            level=fault.level or self.level,
            message=fault.message,
            hint=fault.hint,
            pointer=fault.pointer,
            path=fault.path,
        )


def lint_rule(
    code: str, level: Level, *, at_key: bool = False, needs_form: bool = False, blocks: bool = True
) -> Callable[[Check], LintRule]:
    """Make a rule of its check function.

    The name of the function is the name of the rule, and its docstring is the published page. A
    page has four parts. The first is one sentence about the fault. Then come `Why it is bad:`,
    `Example:` and `Fix:`, each on its own line. The example is a fragment of a definition that has
    the fault.

    Args:
        code: Letter of the family and three digits.
        level: The highest level of its findings.
        at_key: Its findings point to the key at their pointer.
        needs_form: It runs only on documents without errors of form.
        blocks: An error of this rule keeps the machine from running.

    Returns:
        A decorator that replaces the function by the rule.

    Example:
        @lint_rule("F105", "warning")
        def trap(document: Document) -> Faults: ...
    """

    def made(check: Check) -> LintRule:
        name = check.__name__.replace("_", "-")
        return LintRule(name, code, level, check, check.__doc__ or "", at_key, needs_form, blocks)

    return made
