"""Which findings are reported and which count: options over pyproject.toml, and what files say
themselves.
"""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm import check
from llm_fsm.errors import Finding, Level
from llm_fsm.lint.config import ConfigError, FailOn, LintConfig, parse


def found(name: str, code: str, level: Level = "warning") -> Finding:
    return Finding(code=code, name=name, level=level, message="m")


TRAP = found("trap", "F105")
EMPTY = found("empty-file", "E003", "error")
PURPOSE = found("missing-purpose", "W401")


@pytest.mark.parametrize(
    ("config", "path", "kept"),
    [
        (LintConfig(), None, [TRAP, PURPOSE, EMPTY]),
        (LintConfig(select=("F",)), None, [TRAP, EMPTY]),
        (LintConfig(select=("F1", "missing-purpose")), None, [TRAP, PURPOSE, EMPTY]),
        (LintConfig(ignore=("trap", "E")), None, [PURPOSE, EMPTY]),
        (LintConfig(select=("F",), ignore=("F105",)), None, [EMPTY]),
        (LintConfig(per_file_ignores={"old/*": ("W",)}), "old/a.json", [TRAP, EMPTY]),
        (LintConfig(per_file_ignores={"old/*": ("W",)}), "new/a.json", [TRAP, PURPOSE, EMPTY]),
        (LintConfig(per_file_ignores={"a.json": ("W",)}), "deep/down/a.json", [TRAP, EMPTY]),
    ],
)
def test_findings_are_kept_or_left_out(
    config: LintConfig, path: str | None, kept: list[Finding]
) -> None:
    assert [one for one in (TRAP, PURPOSE, EMPTY) if config.keeps(one, path)] == kept


@pytest.mark.parametrize(
    ("fail_on", "failing"),
    [
        ("error", ["error"]),
        ("warning", ["error", "warning"]),
        ("info", ["error", "warning", "info"]),
        ("never", []),
    ],
)
def test_levels_fail_from_one_on(fail_on: FailOn, failing: list[str]) -> None:
    levels: tuple[Level, ...] = ("error", "warning", "info")
    config = LintConfig(fail_on=fail_on)
    assert [level for level in levels if config.fails(found("trap", "F105", level))] == failing
    assert config.fails(EMPTY)


def test_options_come_over_the_settings() -> None:
    config = LintConfig(select=("F",), ignore=("trap",), fail_on="warning")
    over = config.over(select=["W"], ignore=["M7"], fail_on="info")
    assert (over.select, over.ignore, over.fail_on) == (("W",), ("trap", "M7"), "info")
    assert config.over() == config


def test_the_settings_of_a_project_are_read() -> None:
    text = """
    [tool.llm-fsm.lint]
    select = ["E", "F1"]
    ignore = ["no-final-state"]
    fail-on = "warning"
    token-budget = 6000
    per-file-ignores = { "examples/*" = ["W4"] }
    """
    assert parse(text) == LintConfig(
        select=("E", "F1"),
        ignore=("no-final-state",),
        fail_on="warning",
        token_budget=6000,
        per_file_ignores={"examples/*": ("W4",)},
    )


@pytest.mark.parametrize("text", ["", "[tool.ruff]", "[tool.llm-fsm]\nx = 1", "tool = 3"])
def test_a_project_without_settings_has_none(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("= 3", "not TOML"),
        ("[tool.llm-fsm]\nlint = 3", "is a table"),
        ("[tool.llm-fsm.lint]\nselct = []", "did you mean 'select'"),
        ("[tool.llm-fsm.lint]\ncolour = 1", "the settings are select, ignore"),
        ('[tool.llm-fsm.lint]\nignore = ["trp"]', "did you mean 'trap'"),
        ('[tool.llm-fsm.lint]\nignore = "trap"', "is a list of rules"),
        ('[tool.llm-fsm.lint]\nfail-on = "fatal"', "one of error, warning, info, never"),
        ("[tool.llm-fsm.lint]\ntoken-budget = 0", "at least 1"),
        ("[tool.llm-fsm.lint]\nper-file-ignores = 3", "a table of patterns"),
    ],
)
def test_settings_that_cannot_be_used_are_told(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse(text)


def test_an_unknown_rule_in_an_option_is_told() -> None:
    with pytest.raises(ConfigError, match="there is no rule 'zzz'"):
        LintConfig().over(select=["zzz"])


def ignoring(*entries: Any, **keys: Any) -> dict[str, Any]:
    return {
        "name": "n",
        "initial_state": "a",
        "states": {
            "a": {"purpose": "x", "porpose": "x"},
            "b": {"purpose": "x", "porpose": "x"},
            **keys,
        },
        "x-lint": {"ignore": list(entries)},
    }


def names(document: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one.name, one.pointer) for one in check(document)]


REASON = {"reason": "our editor's"}


def test_a_file_leaves_findings_out_with_a_reason() -> None:
    both = ignoring({"rule": "unknown-key", **REASON}, {"rule": "unreachable-state", **REASON})
    assert names(both) == []


def test_an_entry_holds_below_its_pointer_only() -> None:
    document = ignoring({"rule": "S101", "at": "/states/a", **REASON}, {"rule": "F103", **REASON})
    assert names(document) == [("unknown-key", "/states/b/porpose")]


def test_a_pointer_does_not_cover_its_namesakes() -> None:
    document = ignoring(
        {"rule": "S101", "at": "/states/a", **REASON},
        {"rule": "unreachable-state", **REASON},
        ab={"porpose": "x"},
    )
    assert ("unknown-key", "/states/ab/porpose") in names(document)


def test_errors_cannot_be_left_out() -> None:
    document = ignoring(
        {"rule": "unknown-target", **REASON}, {"rule": "S101", **REASON}, {"rule": "F103", **REASON}
    )
    document["states"]["a"]["transitions"] = [{"target_state": "zzz"}]
    assert names(document) == [
        ("unknown-target", "/states/a/transitions/0/target_state"),
        ("unused-ignore", "/x-lint/ignore/0"),
    ]


@pytest.mark.parametrize(
    ("settings", "pointer"),
    [
        ({"ignore": "trap"}, "/x-lint/ignore"),
        ({"ignore": [3]}, "/x-lint/ignore/0"),
        ({"ignore": [{"reason": "x"}]}, "/x-lint/ignore/0"),
        ({"ignore": ["zzzzz"]}, "/x-lint/ignore/0"),
        ({"token_budget": "many"}, "/x-lint/token_budget"),
        ({"level": 3}, "/x-lint/level"),
    ],
)
def test_settings_of_a_file_that_cannot_be_used_are_told(
    settings: dict[str, Any], pointer: str
) -> None:
    document = {
        "name": "n",
        "initial_state": "a",
        "states": {"a": {"purpose": "x"}},
        "x-lint": settings,
    }
    assert names(document) == [("unknown-rule", pointer)]
