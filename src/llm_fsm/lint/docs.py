"""The published page of each rule, made from its docstring.

`docs/rules.md` is `handbook()`; `llm-fsm validate --explain RULE` prints `page_of(rule).text`.
"""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import NamedTuple

from llm_fsm.lint.registry import FAMILIES, RULES, find_rule, near_rule
from llm_fsm.lint.rule import LintRule

_PARTS = ("Why it is bad:", "Example:", "Fix:")
_HEADING = re.compile(r"^(?:Why it is bad|Example|Fix):\n", re.MULTILINE)


class Page(NamedTuple):
    """One rule's page: the fault, why it is bad, a fragment with the fault, and the fix."""

    rule: LintRule
    summary: str
    why: str
    example: str
    fix: str

    @property
    def text(self) -> str:
        """The page for a terminal."""
        head = f"{self.rule.name} ({self.rule.code}, {self.rule.level})\n\n{self.summary}"
        return (
            f"{head}\n\nWhy it is bad:\n{self.why}\n\nExample:\n{self.example}\n\nFix:\n{self.fix}"
        )

    @property
    def markdown(self) -> str:
        """The page as a section of the handbook."""
        return (
            f"### {self.rule.name}\n\n`{self.rule.code}` · {self.rule.level}\n\n{self.summary}\n\n"
            f"**Why it is bad.** {self.why}\n\n{self.example}\n\n**Fix.** {self.fix}\n"
        )


def pages() -> tuple[Page, ...]:
    """Return every page, in the order of the list of rules. Raises ValueError for a docstring that
    lacks a part.
    """
    return tuple(map(_page, RULES))


def page_of(word: str) -> Page:
    """Return the page of a rule, given by name or code. Raises LookupError with a near name for an
    unknown one.
    """
    rule = find_rule(word)
    if rule is None:
        meant = near_rule(word)
        hint = "docs/rules.md lists them" if meant is None else f"did you mean {meant!r}?"
        raise LookupError(f"there is no rule {word[:60]!r}; {hint}")
    return next(page for page in pages() if page.rule is rule)


def handbook() -> str:
    """`docs/rules.md`: a table of all rules, then their pages."""
    every = pages()
    table = "\n".join(
        f"| [{page.rule.name}](#{page.rule.name}) | {page.rule.code} | {page.rule.level} |"
        f" {_line(page)} |"
        for page in every
    )
    sections = [
        f"## {name}\n\n" + "\n".join(page.markdown for page in every if page.rule.code[0] == letter)
        for letter, name in FAMILIES.items()
        if any(page.rule.code[0] == letter for page in every)
    ]
    return (
        "# Rules\n\n"
        "Also called: lint rules, warnings, error codes.\n\n"
        "These are the rules of `llm-fsm validate`. The level of a rule is the most serious level of its findings:\n\n"
        "- *error*: the definition cannot load, or a path of it cannot work.\n"
        "- *warning*: the author almost surely meant something else.\n"
        "- *info*: worth knowing.\n\n"
        "This page is made from the rules' docstrings: `python -m llm_fsm.lint.docs > docs/rules.md`.\n\n"
        f"| rule | code | level | finds |\n|---|---|---|---|\n{table}\n\n" + "\n".join(sections)
    )


def _line(page: Page) -> str:
    return page.summary.replace("\n", " ").replace("|", "\\|")


def _page(rule: LintRule) -> Page:
    text = cleandoc(rule.page)
    if tuple(match[0].strip() for match in _HEADING.finditer(text)) != _PARTS:
        raise ValueError(
            f"the page of {rule.name} needs the parts {', '.join(_PARTS)}, in this order"
        )
    summary, why, example, fix = (part.strip("\n") for part in _HEADING.split(text))
    return Page(rule, summary.strip(), why.strip(), example, fix.strip())


if __name__ == "__main__":
    print(handbook(), end="")
