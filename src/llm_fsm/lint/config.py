"""Settings of the checker: `[tool.llm-fsm.lint]` of pyproject.toml, overridden by options of the
command line.

    [tool.llm-fsm.lint]
    select = ["E", "S", "F"]          # only these; names, codes or beginnings of codes
    ignore = ["no-final-state"]
    fail-on = "warning"               # error (default), warning, info, never
    token-budget = 6000
    per-file-ignores = { "examples/*" = ["W4"] }

Findings of the family E are always reported, because without a definition there is nothing to
check.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any, Literal, get_args

from llm_fsm._json import JsonDict, JsonMap, is_list_of, value_at
from llm_fsm._text import suggestion
from llm_fsm.conditions.coercion import is_whole
from llm_fsm.errors import Finding, Level
from llm_fsm.lint.registry import matches, names_a_rule, near_rule

FailOn = Literal["error", "warning", "info", "never"]
LEVELS: tuple[Level, ...] = get_args(Level)
FAIL_ON: tuple[FailOn, ...] = get_args(FailOn)
_PLACE = "[tool.llm-fsm.lint]"


class ConfigError(ValueError):
    """A setting cannot be used. The message names it and says what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LintConfig:
    """The findings to report, and the level that fails. Rules are given by name, code or the
    beginning of a code.

    `per_file_ignores`: shell pattern of a path, relative to the file of the settings, to the rules
    ignored there. `token_budget`: tokens that a state's prompt may take.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: FailOn = "error"
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    token_budget: int | None = None

    def keeps(self, found: Finding, path: str | None = None) -> bool:
        """Return true if a finding is reported. `path`: its file, relative to the file of the
        settings.
        """
        if found.code.startswith("E"):
            return True
        if self.select and not _named(self.select, found):
            return False
        if _named(self.ignore, found):
            return False
        return path is None or not any(
            _named(rules, found)
            for pattern, rules in self.per_file_ignores.items()
            if fnmatchcase(path, pattern) or fnmatchcase(path, f"*/{pattern}")
        )

    def fails(self, found: Finding) -> bool:
        """Return true if a finding makes a check fail."""
        if found.code.startswith("E"):
            return True
        return self.fail_on != "never" and LEVELS.index(found.level) <= LEVELS.index(self.fail_on)

    def over(
        self,
        *,
        select: Iterable[str] = (),
        ignore: Iterable[str] = (),
        fail_on: FailOn | None = None,
    ) -> LintConfig:
        """Return these settings with options over them: `select` and `fail_on` replace, `ignore`
        adds.
        """
        chosen = tuple(select)
        left_out = tuple(ignore)
        for word in (*chosen, *left_out):
            _known(word)
        return replace(
            self,
            select=chosen or self.select,
            ignore=(*self.ignore, *left_out),
            fail_on=fail_on or self.fail_on,
        )


def parse(text: str) -> LintConfig | None:
    """Return the settings in a pyproject.toml; None if it has none. Raises ConfigError."""
    tomllib: Any = import_module("tomllib")  # loaded only where there is such a file
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"it is not TOML: {error}") from error
    table = value_at(document, "/tool/llm-fsm/lint")
    if table is None:
        return None
    if not isinstance(table, dict):
        raise ConfigError(f"{_PLACE} is a table")
    known = {one.name.replace("_", "-"): one.name for one in fields(LintConfig)}
    for name in table:
        if name not in known:
            hint = suggestion(name, known, "the settings are")
            raise ConfigError(f"{_PLACE} has no setting {name!r}; {hint}")
    values: JsonDict = {known[name]: _READERS[name](name, value) for name, value in table.items()}
    return LintConfig(**values)


def _named(words: Sequence[str], found: Finding) -> bool:
    return any(matches(word, found.name, found.code) for word in words)


def _known(word: str) -> str:
    if not names_a_rule(word):
        meant = near_rule(word)
        hint = (
            "`llm-fsm validate --rules` lists them" if meant is None else f"did you mean {meant!r}?"
        )
        raise ConfigError(f"there is no rule {word[:60]!r}; {hint}")
    return word


def _rules(name: str, value: object) -> tuple[str, ...]:
    if is_list_of(value, str):
        return tuple(_known(word) for word in value)
    raise ConfigError(f'"{name}" in {_PLACE} is a list of rules, such as ["F", "missing-purpose"]')


def _level(name: str, value: object) -> FailOn:
    for level in FAIL_ON:
        if value == level:
            return level
    raise ConfigError(f'"{name}" in {_PLACE} is one of {", ".join(FAIL_ON)}')


def _budget(name: str, value: object) -> int:
    if is_whole(value) and value > 0:
        return value
    raise ConfigError(f'"{name}" in {_PLACE} is a whole number of tokens, at least 1')


def _patterns(name: str, value: object) -> Mapping[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise ConfigError(f'"{name}" in {_PLACE} is a table of patterns and rules')
    return {pattern: _rules(name, rules) for pattern, rules in value.items()}


_READERS: JsonMap = {
    "select": _rules,
    "ignore": _rules,
    "fail-on": _level,
    "token-budget": _budget,
    "per-file-ignores": _patterns,
}
