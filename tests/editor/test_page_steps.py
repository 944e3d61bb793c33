"""A bot from nothing: a blank start, whole steps, groups in conditions, and the list of keys."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from llm_fsm.documents.check import check_edited
from studio_page import opened, write

MOST_ACTIONS = 30


class Hands:
    """Does what a person does, and counts it: a click, a text, a key."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.actions = 0

    def click(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).first.click()
        self.actions += 1

    def fill(self, label: str, text: str) -> None:
        self.page.get_by_label(label, exact=True).fill(text)
        self.actions += 1

    def choose(self, label: str, value: str) -> None:
        self.page.get_by_label(label, exact=True).select_option(value)
        self.actions += 1

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)
        self.actions += 1


@pytest.fixture
def empty(folder: Path) -> Path:
    """The folder of the studio, empty."""
    for path in folder.iterdir():
        path.unlink()
    return folder


def written(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def test_a_library_desk_from_nothing(browser: Browser, address: str, empty: Path) -> None:
    with opened(browser, address) as page:
        hands = Hands(page)
        page.get_by_role("radio", name="Blank").check()
        hands.actions += 1
        hands.fill("Name", "library")
        hands.press("Enter")
        expect(page.get_by_text("This machine has no states yet.")).to_be_visible()
        hands.click("Ask the first question")
        hands.fill("What for", "Book title")
        hands.fill("Question", "Which book do you look for?")
        hands.press("Enter")
        expect(page.get_by_role("heading", name="State book_title")).to_be_visible()
        hands.click("Ask for…")
        hands.fill("What for", "Branch")
        hands.fill("Question", "In which branch do you want to fetch it?")
        hands.choose("Answer", "one of some values")
        hands.fill("Values", "Centre, North, South")
        hands.press("Enter")
        expect(page.get_by_role("heading", name="State branch")).to_be_visible()
        hands.click("Confirm…")
        hands.fill("After a yes, say", "It waits for you.")
        hands.press("Enter")
        expect(page.get_by_role("heading", name="State confirm")).to_be_visible()
        hands.press("Control+s")
        expect(page.get_by_text("Saved library.json")).to_be_visible()
        expect(page.get_by_role("button", name="0 errors")).to_be_visible()
    assert hands.actions <= MOST_ACTIONS
    print(f"a library desk: {hands.actions} actions")
    desk = written(empty, "library.json")
    assert desk["initial_state"] == "book_title"
    assert list(desk["states"]) == ["book_title", "branch", "confirm", "done"]
    assert desk["context_schema"]["properties"] == {
        "book_title": {"type": "string", "title": "Book title"},
        "branch": {"type": "string", "title": "Branch", "enum": ["Centre", "North", "South"]},
    }
    assert desk["states"]["confirm"]["confirms"] == ["book_title", "branch"]
    yes, no = desk["states"]["confirm"]["transitions"]
    assert (yes["target_state"], yes["agrees"], no["target_state"]) == ("done", True, "book_title")
    found = check_edited(
        (empty / "library.json").read_text(encoding="utf-8"), file=str(empty / "library.json")
    )
    assert [one.message for one in found if one.level == "error"] == []


def test_a_question_with_a_check_is_one_step(browser: Browser, address: str, empty: Path) -> None:
    write(empty / "desk.json", '{"name": "desk", "initial_state": "", "states": {}}\n')
    before = (empty / "desk.json").read_bytes()
    with opened(browser, address, "desk.json") as page:
        hands = Hands(page)
        expect(page.get_by_text("This machine has no states yet.")).to_be_visible()
        page.keyboard.press("a")
        hands.fill("What for", "Âge du chien")
        hands.fill("Question", "How old is the dog?")
        hands.choose("Answer", "whole number")
        hands.fill("Check", "age_du_chien <= 30")
        hands.fill("What to say if the check fails", "No dog is that old.")
        hands.press("Enter")
        expect(page.get_by_role("heading", name="State age_du_chien")).to_be_visible()
        page.keyboard.press("Control+s")
        expect(page.get_by_text("Saved desk.json")).to_be_visible()
        [key] = written(empty, "desk.json")["context_schema"]["properties"].items()
        assert key == (
            "age_du_chien",
            {
                "type": "integer",
                "title": "Âge du chien",
                "x-valid": [
                    {
                        "description": "No dog is that old.",
                        "logic": {"<=": [{"var": "age_du_chien"}, 30]},
                    }
                ],
            },
        )
        page.keyboard.press("Control+z")
        expect(page.get_by_text("This machine has no states yet.")).to_be_visible()
        page.keyboard.press("Control+s")
        expect(page.get_by_label("not saved")).to_have_count(0)
        assert (empty / "desk.json").read_bytes() == before
        page.keyboard.press("a")
        hands.fill("What for", "Day")
        hands.fill("Question", "Which day?")
        hands.fill("Check", "day >=")
        hands.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("The check:")


def test_a_blank_start_overwrites_nothing(browser: Browser, address: str, empty: Path) -> None:
    write(empty / "desk.json", "{}")
    with opened(browser, address) as page:
        page.get_by_role("radio", name="Blank").check()
        page.get_by_label("Name", exact=True).fill("desk")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("desk.json")
    assert (empty / "desk.json").read_text(encoding="utf-8") == "{}"


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Ask the title", "ask_the_title"),
        ("Straße & Haus", "stra_e_haus"),
        ("2nd try", "nd_try"),
        ("Already_an-id", "Already_an-id"),
        ("日本", "state"),
    ],
)
def test_titles_become_ids_and_stay_as_descriptions(
    browser: Browser, address: str, empty: Path, title: str, name: str
) -> None:
    write(empty / "desk.json", '{"name": "desk", "initial_state": "x", "states": {"x": {}}}\n')
    with opened(browser, address, "desk.json") as page:
        expect(page.get_by_role("group", name="State x,")).to_be_visible()
        page.keyboard.press("n")
        page.get_by_role("dialog").get_by_label("Name").fill(title)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name=f"State {name}")).to_be_visible()
        page.keyboard.press("Control+s")
        expect(page.get_by_text("Saved desk.json")).to_be_visible()
    made = written(empty, "desk.json")["states"][name]
    assert made.get("description", name) == title


def test_conditions_have_groups_and_values_of_the_enum(
    browser: Browser, address: str, empty: Path
) -> None:
    document = {
        "name": "desk",
        "initial_state": "x",
        "context_schema": {
            "type": "object",
            "properties": {
                "branch": {"type": "string", "enum": ["North", "South"]},
                "member": {"type": "boolean"},
            },
        },
        "states": {
            "x": {
                "purpose": "?",
                "transitions": [
                    {
                        "target_state": "y",
                        "conditions": [
                            {"description": "d", "logic": {"==": [{"var": "branch"}, "North"]}}
                        ],
                    }
                ],
            },
            "y": {"reply": "Bye."},
        },
    }
    write(empty / "desk.json", json.dumps(document, indent=1))
    with opened(browser, address, "desk.json") as page:
        page.get_by_role("navigation", name="Views").get_by_role("button", name="Outline").click()
        page.get_by_role("list", name="Transitions of x").get_by_role("button").click()
        page.get_by_label("Value 1", exact=True).select_option("South")
        page.get_by_role("button", name="Add a group").click()
        page.get_by_label("Key 2.1").fill("member")
        page.get_by_label("Comparison 2.1", exact=True).select_option("is")
        page.get_by_label("Value 2.1", exact=True).select_option("true")
        page.get_by_label("All or one").select_option("One of these")
        page.keyboard.press("Control+s")
        expect(page.get_by_text("Saved desk.json")).to_be_visible()
    states = written(empty, "desk.json")["states"]
    assert states["x"]["transitions"][0]["conditions"][0]["logic"] == {
        "or": [
            {"==": [{"var": "branch"}, "South"]},
            {"or": [{"==": [{"var": "member"}, True]}, {"has_context": "branch"}]},
        ]
    }


def test_the_list_of_keys_is_shown_by_a_question_mark(
    browser: Browser, address: str, empty: Path
) -> None:
    write(empty / "desk.json", '{"name": "desk", "initial_state": "x", "states": {"x": {}}}\n')
    with opened(browser, address, "desk.json") as page:
        expect(page.get_by_role("group", name="State x,")).to_be_visible()
        page.keyboard.press("?")
        dialog = page.get_by_role("dialog", name="Keys")
        for keys in ("Ctrl+S", "Ctrl+Z", "F2", "Ctrl+Y or Ctrl+Shift+Z", "Delete or Backspace"):
            expect(dialog.get_by_text(keys, exact=True)).to_be_visible()
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        page.get_by_role("button", name="Keys").click()
        expect(dialog).to_be_visible()
