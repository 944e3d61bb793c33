"""What is typed into a field belongs to the document from its first letter: one save, one undo, one draft."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Dialog, Locator, Page, expect

from studio_page import opened, write

DESK = {
    "name": "desk",
    "description": "A desk",
    "initial_state": "ask",
    "context_schema": {
        "type": "object",
        "properties": {"age": {"type": "integer"}, "plan": {"type": "string"}},
    },
    "states": {
        "ask": {
            "purpose": "How old are you?",
            "instructions": ["Be kind.", "Be brief."],
            "required_context_keys": ["age"],
            "transitions": [
                {
                    "target_state": "end",
                    "priority": 5,
                    "conditions": [
                        {
                            "description": "An adult",
                            "logic": {
                                "and": [{">=": [{"var": "age"}, 18]}, {"has_context": "plan"}]
                            },
                        }
                    ],
                }
            ],
        },
        "end": {"reply": "Bye."},
    },
}
LOGIC = "/states/ask/transitions/0/conditions/0/logic"


class Kind(NamedTuple):
    """A kind of field: how to come to it, its label, what is typed, and what the file then has."""

    open: Callable[[Page], None]
    label: str
    text: str
    pointer: str
    value: Any


def machine(page: Page) -> None:
    page.get_by_role("button", name="Machine", exact=True).click()


def state(page: Page, name: str) -> None:
    rows = page.get_by_role("list", name="States").get_by_role("button")
    rows.filter(has=page.locator("b", has_text=name)).click()


def ask(page: Page) -> None:
    state(page, "ask")


def end(page: Page) -> None:
    state(page, "end")


def way(page: Page) -> None:
    page.get_by_role("list", name="Transitions of ask").get_by_role("button").click()


def logic(page: Page) -> None:
    way(page)
    if not page.get_by_label("JsonLogic").is_visible():
        page.get_by_text("As text", exact=True).click()


def both(number: int) -> dict[str, Any]:
    return {"and": [{">=": [{"var": "age"}, number]}, {"has_context": "plan"}]}


KINDS = {
    "one line": Kind(machine, "name", "counter", "/name", "counter"),
    "words": Kind(machine, "description", "Ein Tisch", "/description", "Ein Tisch"),
    "lines": Kind(
        ask, "instructions", "Ask.\nWait.", "/states/ask/instructions", ["Ask.", "Wait."]
    ),
    "a reply": Kind(end, "reply", "Até logo!", "/states/end/reply", "Até logo!"),
    "a number": Kind(way, "priority", "70", "/states/ask/transitions/0/priority", 70),
    "a list": Kind(
        ask, "required context keys", "plan", "/states/ask/required_context_keys", ["age", "plan"]
    ),
    "a condition": Kind(way, "Value 1", "21", LOGIC, both(21)),
    "an expression": Kind(logic, "Expression", "age < 7", LOGIC, {"<": [{"var": "age"}, 7]}),
    "JSON": Kind(logic, "JsonLogic", '{"has_context": "age"}', LOGIC, {"has_context": "age"}),
}


@pytest.fixture
def desk(folder: Path) -> Path:
    """A small definition, fresh."""
    for path in folder.iterdir():
        path.unlink()
    return write(folder / "desk.json", json.dumps(DESK, indent=2, ensure_ascii=False) + "\n")


def at(path: Path, pointer: str) -> Any:
    value = json.loads(path.read_text(encoding="utf-8"))
    for name in pointer.split("/")[1:]:
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value


def field(page: Page, kind: Kind) -> Locator:
    """Open the form of a field, and return the field."""
    page.get_by_role("navigation", name="Views").get_by_role("button", name="Outline").click()
    kind.open(page)
    return page.get_by_role("complementary").get_by_label(kind.label, exact=True).first


def begin(one: Locator, kind: Kind) -> None:
    """Type as a person does, letter by letter, over what is there."""
    one.select_text()
    one.press_sequentially(kind.text[:1])
    expect(one.page.get_by_label("not saved")).to_be_visible()
    one.press_sequentially(kind.text[1:])


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_field_is_saved_and_undone_while_it_has_the_focus(
    browser: Browser, address: str, desk: Path, kind: Kind
) -> None:
    before = desk.read_bytes()
    with opened(browser, address, "desk.json") as page:
        one = field(page, kind)
        begin(one, kind)
        page.keyboard.press("Control+s")
        expect(page.get_by_text("Saved desk.json")).to_be_visible()
        expect(page.get_by_label("not saved")).to_have_count(0)
        assert at(desk, kind.pointer) == kind.value
        expect(one).to_be_focused()
        page.keyboard.press("Control+z")
        expect(page.get_by_label("not saved")).to_be_visible()
        page.keyboard.press("Control+s")
        expect(page.get_by_label("not saved")).to_have_count(0)
        assert desk.read_bytes() == before


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_first_click_on_save_saves_the_field(
    browser: Browser, address: str, desk: Path, kind: Kind
) -> None:
    before = desk.read_bytes()
    with opened(browser, address, "desk.json") as page:
        begin(field(page, kind), kind)
        page.keyboard.press("Control+z")
        expect(page.get_by_label("not saved")).to_have_count(0)
        assert desk.read_bytes() == before
        begin(field(page, kind), kind)
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_text("Saved desk.json")).to_be_visible()
        assert at(desk, kind.pointer) == kind.value


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_page_that_is_left_asks_and_keeps_a_draft_of_the_field(
    browser: Browser, address: str, desk: Path, kind: Kind
) -> None:
    asked: list[str] = []

    def leave(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.accept()

    with opened(browser, address, "desk.json") as page:
        begin(field(page, kind), kind)
        page.on("dialog", leave)
        page.reload()
        assert asked == ["beforeunload"]
        page.get_by_role("button", name="Take it up").click()
        expect(page.get_by_label("not saved")).to_be_visible()
        page.keyboard.press("Control+s")
        expect(page.get_by_text("Saved desk.json")).to_be_visible()
    assert at(desk, kind.pointer) == kind.value


def test_closing_the_window_asks_for_a_field_that_is_being_filled_in(
    browser: Browser, address: str, desk: Path
) -> None:
    kind = KINDS["words"]
    with opened(browser, address, "desk.json") as page:
        one = field(page, kind)
        begin(one, kind)
        with page.expect_event("dialog") as waiting:
            page.close(run_before_unload=True)
        assert waiting.value.type == "beforeunload"
        waiting.value.dismiss()
        expect(one).to_have_value(kind.text)


def test_text_that_means_nothing_is_not_said_to_be_saved(
    browser: Browser, address: str, desk: Path
) -> None:
    before = desk.read_bytes()
    with opened(browser, address, "desk.json") as page:
        for label, text in (("JsonLogic", '{"has_context":'), ("Expression", "age >=")):
            one = field(page, KINDS["words"]._replace(open=logic, label=label))
            one.fill(text)
            page.keyboard.press("Control+s")
            expect(page.get_by_role("alert").filter(has_text="Change logic")).to_be_visible()
            expect(page.get_by_role("alert").filter(has_text="Not taken")).to_be_visible()
            expect(one).to_have_value(text)
            expect(page.get_by_label("not saved")).to_be_visible()
            page.keyboard.press("Control+z")
            expect(page.get_by_label("not saved")).to_have_count(0)
    assert desk.read_bytes() == before


@pytest.mark.parametrize("text", ["01067", "1.50", "true", "1e3", " 7"])
def test_a_text_stays_a_text_in_a_condition(
    browser: Browser, address: str, desk: Path, text: str
) -> None:
    with opened(browser, address, "desk.json") as page:
        field(page, KINDS["a condition"])
        page.get_by_label("Comparison 2", exact=True).select_option("is")
        one = page.get_by_label("Value 2", exact=True)
        one.fill(text)
        page.keyboard.press("Control+s")
        expect(page.get_by_text("Saved desk.json")).to_be_visible()
    assert at(desk, LOGIC)["and"][1] == {"==": [{"var": "plan"}, text]}


def test_fields_and_other_gestures_are_one_row_of_steps(
    browser: Browser, address: str, desk: Path
) -> None:
    before = desk.read_bytes()
    with opened(browser, address, "desk.json") as page:
        field(page, KINDS["words"]).fill("First")
        field(page, KINDS["a reply"]).fill("Second")
        page.get_by_role("navigation", name="Views").get_by_role("button", name="Text").click()
        page.locator(".cm-line", has_text='"name"').click()
        page.keyboard.press("End")
        page.keyboard.type(" ")
        page.keyboard.press("Control+s")
        expect(page.get_by_text("Saved desk.json")).to_be_visible()
        assert at(desk, "/description") == "First"
        assert at(desk, "/states/end/reply") == "Second"
        for _ in range(3):
            page.keyboard.press("Control+z")
        page.keyboard.press("Control+s")
        expect(page.get_by_label("not saved")).to_have_count(0)
    assert desk.read_bytes() == before
