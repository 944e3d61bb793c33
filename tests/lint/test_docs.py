"""Every rule has a page, the pages are the handbook, and their examples have the fault that they
show.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from llm_fsm import check
from llm_fsm.definition.codes import CODES
from llm_fsm.lint import rules
from llm_fsm.lint.docs import Page, handbook, page_of, pages
from llm_fsm.lint.registry import FAMILIES, MODULES, RULES, find_rule, matches, near_rule
from paths import ROOT

HANDBOOK = ROOT / "docs" / "rules.md"
# What only a text can show, a file that another one names, or starting the machine.
NOT_IN_A_MAPPING = {
    "duplicate-key",
    "flow-nesting",
    "flow-mapping",
    "unknown-ending",
    "fuzzy-translation",
}


def document_of(page: Page) -> Any:
    """The example, with a name and an initial state where it has none."""
    fragment = "\n".join(line.removeprefix("    ") for line in page.example.splitlines()).strip()
    shown = json.loads(fragment if fragment.startswith("{") else "{" + fragment + "}")
    states = shown.get("states", {})
    first = next(iter(states), None) if isinstance(states, dict) else None
    return {"name": "example", "initial_state": first, **shown}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.rule.name)
def test_every_page_says_all_that_an_author_asks(page: Page) -> None:
    assert all((page.summary, page.why, page.example, page.fix))
    assert page.summary.endswith(".")
    assert "\n\n" not in page.summary


@pytest.mark.parametrize(
    "page",
    [
        page
        for page in pages()
        if page.rule.code[0] != "E" and page.rule.name not in NOT_IN_A_MAPPING
    ],
    ids=lambda page: page.rule.name,
)
def test_every_example_has_its_fault(page: Page) -> None:
    assert page.rule.name in {found.name for found in check(document_of(page))}


def test_names_and_codes_are_unique_and_codes_belong_to_a_family() -> None:
    assert not [name for name, count in Counter(rule.name for rule in RULES).items() if count > 1]
    assert not [code for code, count in Counter(rule.code for rule in RULES).items() if count > 1]
    assert {rule.code[0] for rule in RULES} <= set(FAMILIES)


def test_there_are_as_many_rules_as_were_promised() -> None:
    assert len([rule for rule in RULES if rule.code[0] not in "EMR"]) >= 45


def test_what_the_reader_tells_has_pages_too() -> None:
    assert set(CODES) <= {rule.name for rule in RULES}


def test_no_rule_of_a_module_is_forgotten() -> None:
    folder = Path(rules.__file__ or "").parent
    modules = {path.stem for path in folder.rglob("*.py") if path.stem != "__init__"}
    assert {module.__name__.rpartition(".")[2] for module in MODULES} == modules
    assert set(pages()) == {page_of(rule.code) for rule in RULES}


def test_rules_and_pages_stand_in_the_order_of_codes() -> None:
    places = [(list(FAMILIES).index(rule.code[0]), rule.code) for rule in RULES]
    assert places == sorted(places)
    assert [page.rule for page in pages()] == list(RULES)


def test_the_published_handbook_is_made_from_the_pages() -> None:
    assert HANDBOOK.read_text(encoding="utf-8") == handbook(), (
        "run: python -m llm_fsm.lint.docs > docs/rules.md"
    )


@pytest.mark.parametrize("word", ["trap", "F105", "f105"])
def test_a_page_is_found_by_name_and_by_code(word: str) -> None:
    page = page_of(word)
    assert page.rule is find_rule("trap")
    assert page.text.startswith("trap (F105, warning)\n\n")


def test_an_unknown_rule_is_told_with_a_near_name() -> None:
    with pytest.raises(LookupError, match="did you mean 'unreachable-state'"):
        page_of("unreachable_sate")
    with pytest.raises(LookupError, match=r"docs/rules\.md"):
        page_of("F1")
    assert near_rule("zzzzzzz") is None


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("trap", True),
        ("F", True),
        ("F1", True),
        ("f105", True),
        ("F106", False),
        ("tra", False),
        ("", False),
    ],
)
def test_a_rule_is_called_by_name_code_or_beginning_of_a_code(word: str, expected: bool) -> None:
    assert matches(word, "trap", "F105") is expected
