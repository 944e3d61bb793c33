"""What helps on the canvas: its menu, groups that fold, and what is brought into view."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from studio_page import barriers, opened, write

ROOT = Path(__file__).parents[2]
MANY = 200


@pytest.fixture
def greeting(folder: Path) -> Path:
    """A shipped definition of three states, fresh."""
    for path in folder.iterdir():
        path.unlink()
    return Path(shutil.copy(ROOT / "fsm_definitions" / "greeting.json", folder))


@pytest.fixture
def many(folder: Path) -> Path:
    """A definition of 200 states, of which one names a state that is not there."""
    states: dict[str, Any] = {}
    for number in range(MANY - 1):
        after = {number + 1, min(MANY - 1, number * 2 + 2)}
        ways = [
            {"target_state": f"s{one}", "description": f"The way to number {one}"}
            for one in sorted(after)
        ]
        states[f"s{number}"] = {"purpose": f"Ask for number {number}", "transitions": ways}
    states[f"s{MANY - 1}"] = {"reply": "Goodbye."}
    states["s150"]["transitions"][0]["target_state"] = "S151"
    document = {"name": "many", "initial_state": "s0", "states": states}
    return write(folder / "many.json", json.dumps(document, indent=1))


def state(page: Page, name: str) -> Locator:
    return page.get_by_role("group", name=f"State {name},")


def panel(page: Page, name: str) -> None:
    page.get_by_role("tablist", name="Panels").get_by_role("tab", name=name).click()


def is_inside(page: Page, name: str) -> bool:
    """Return true if a state is seen whole."""
    box, frame = state(page, name).bounding_box(), page.locator(".canvas").bounding_box()
    assert box is not None
    assert frame is not None
    return (
        frame["x"] <= box["x"]
        and box["x"] + box["width"] <= frame["x"] + frame["width"]
        and frame["y"] <= box["y"]
        and box["y"] + box["height"] <= frame["y"] + frame["height"]
    )


def comes_into_view(page: Page, name: str) -> None:
    expect(state(page, name)).to_have_count(1)
    page.wait_for_timeout(400)  # the canvas glides
    assert is_inside(page, name)


def test_a_right_click_opens_the_menu_of_a_state_of_a_transition_and_of_the_place(
    browser: Browser, address: str, greeting: Path
) -> None:
    with opened(browser, address, "greeting.json") as page:
        state(page, "occasion").click(button="right")
        menu = page.get_by_role("menu", name="State occasion")
        expect(menu.get_by_role("menuitem").first).to_be_focused()
        page.keyboard.press("Escape")
        expect(menu).to_have_count(0)
        state(page, "occasion").click(button="right")
        menu.get_by_role("menuitem", name="Duplicate").click()
        expect(page.get_by_role("heading", name="State occasion_2")).to_be_visible()
        page.get_by_text("The visitor has said what").first.click(button="right")
        page.get_by_role("menu", name="Transition").get_by_role(
            "menuitem", name="Insert a state"
        ).click()
        expect(page.get_by_role("dialog", name="Insert a state")).to_be_visible()
        page.keyboard.press("Escape")
        page.mouse.click(200, 700, button="right")
        page.get_by_role("menu", name="Canvas").get_by_role("menuitem", name="Add state").click()
        page.keyboard.type("here")
        page.keyboard.press("Enter")
        box = state(page, "here").bounding_box()
        assert box is not None
        assert abs(box["x"] - 200) < 20
        assert abs(box["y"] - 700) < 20


def test_keys_alone_select_states_and_transitions_and_open_their_menu(
    browser: Browser, address: str, greeting: Path
) -> None:
    with opened(browser, address, "greeting.json") as page:
        expect(state(page, "hello")).to_be_visible()
        page.get_by_role("button", name="Tidy up").focus()
        way = page.get_by_role("group", name=re.compile("^Transition from occasion"))
        for key, target, heading in (
            ("Enter", state(page, "hello"), "State hello"),
            ("Space", state(page, "occasion"), "State occasion"),
            ("Enter", way, "occasion → goodbye"),
        ):
            for _ in range(30):
                page.keyboard.press("Tab")
                if target.evaluate("(one) => one === document.activeElement"):
                    break
            expect(target).to_be_focused()
            page.keyboard.press(key)
            expect(page.get_by_role("heading", name=heading, exact=True)).to_be_visible()
            page.get_by_role("button", name="Tidy up").focus()
        state(page, "hello").focus()
        page.keyboard.press("Shift+F10")
        page.get_by_role("menu", name="State hello").wait_for()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        expect(page.get_by_role("menuitem", name="Rename")).to_be_focused()
        page.keyboard.press("Enter")
        page.keyboard.type("welcome")
        page.keyboard.press("Enter")
        expect(state(page, "welcome")).to_be_visible()


def test_a_hint_is_followed_by_its_button_or_leads_to_its_field(
    browser: Browser, address: str, greeting: Path
) -> None:
    document = json.loads(greeting.read_text(encoding="utf-8"))
    document["states"]["occasion"]["transitions"][0]["target_state"] = "goodby"
    for name in ("purpose", "instructions"):
        del document["states"]["hello"][name]
    write(greeting, json.dumps(document, indent=2))
    with opened(browser, address, "greeting.json") as page:
        panel(page, "Findings")
        found = page.get_by_role("region", name="Findings")
        found.get_by_role("button", name="Write “goodbye”").click()
        expect(page.get_by_role("button", name="0 errors")).to_be_visible()
        found.get_by_role("button", name="Go to “purpose”").first.click()
        expect(page.get_by_label("purpose")).to_be_focused()
        expect(page.get_by_role("heading", name="State hello")).to_be_visible()


def test_what_follows_a_state_folds_into_it_and_stays_folded(
    browser: Browser, address: str, greeting: Path
) -> None:
    with opened(browser, address, "greeting.json") as page:
        state(page, "hello").click()
        with page.expect_response("**/api/layout"):
            page.get_by_role("button", name="Fold what follows").click()
        expect(state(page, "occasion")).to_have_count(0)
        folded = page.get_by_role("group", name="1 more states are folded into it.")
        expect(folded).to_have_count(1)
        expect(page.get_by_role("group", name="Transition from hello to goodbye")).to_have_count(1)
        page.reload()
        expect(folded).to_have_count(1)
        page.keyboard.press("Control+k")
        page.keyboard.type("occasion")
        page.keyboard.press("Enter")
        expect(state(page, "occasion")).to_be_visible()
        expect(folded).to_have_count(0)
        page.get_by_role("button", name="Undo").click()
        expect(folded).to_have_count(1)


def test_fit_shows_all_of_200_states(browser: Browser, address: str, many: Path) -> None:
    with opened(browser, address, "many.json") as page:
        expect(state(page, "s0")).to_be_visible()
        expect(page.get_by_text("Placing states…")).to_have_count(0)
        page.get_by_role("button", name="Fit View").click()
        expect(page.locator(".react-flow__node-state")).to_have_count(MANY + 1)
        page.wait_for_timeout(400)
        assert (
            page.evaluate("""() => {
            const frame = document.querySelector('.canvas').getBoundingClientRect();
            return [...document.querySelectorAll('.react-flow__node-state')].filter((one) => {
                const { left, top, right, bottom } = one.getBoundingClientRect();
                return left < frame.left || top < frame.top
                    || right > frame.right || bottom > frame.bottom;
            }).length;
        }""")
            == 0
        )


def test_a_click_on_a_finding_and_the_talk_move_the_canvas(
    browser: Browser, address: str, many: Path
) -> None:
    with opened(browser, address, "many.json") as page:
        expect(state(page, "s0")).to_be_visible()
        expect(page.get_by_text("Placing states…")).to_have_count(0)
        panel(page, "Findings")
        page.get_by_role("region", name="Findings").get_by_role("button", name="S151").first.click()
        comes_into_view(page, "s150")
        panel(page, "Findings")
        page.get_by_role("button", name="Write “s151”").click()
        expect(page.get_by_role("button", name="0 errors")).to_be_visible()
        panel(page, "Talk")
        page.get_by_text("Begin elsewhere").click()
        page.get_by_role("combobox", name="State").select_option("s20")
        page.get_by_role("button", name="Start", exact=True).click()
        expect(
            page.get_by_role("region", name="Playground").get_by_text("State s20")
        ).to_be_visible()
        comes_into_view(page, "s20")


STEPS = {
    "first page": [],
    "canvas": [],
    "menu": ["hello"],
    "empty machine": [],
    "ask for": ["Ask for…"],
    "confirm": ["Confirm…"],
    "find": ["Find"],
    "keys": ["Keys"],
    "findings": ["Findings"],
    "details": ["hello"],
    "outline": ["Outline"],
    "text": ["Text"],
    "changes": ["Changes"],
    "talk": ["Talk", "Start", "Why turn 0"],
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", list(STEPS))
def test_axe_finds_nothing(
    browser: Browser, address: str, greeting: Path, name: str, scheme: str
) -> None:
    document = json.loads(greeting.read_text(encoding="utf-8"))
    if name == "findings":
        document["states"]["occasion"]["transitions"][0]["target_state"] = "goodby"
    write(greeting, json.dumps(document, indent=2))
    write(greeting.parent / "empty.json", '{"name": "empty", "initial_state": "", "states": {}}')
    files = {"first page": None, "empty machine": "empty.json"}
    with opened(
        browser, address, files.get(name, "greeting.json"), color_scheme=scheme, bypass_csp=True
    ) as page:
        page.get_by_role("button", name="Tidy up").or_(
            page.get_by_role("heading", name="Open a machine")
        ).wait_for()
        for step in STEPS[name]:
            if step == "hello":
                state(page, step).click(button="right" if name == "menu" else "left")
                continue
            page.get_by_role("button", name=step, exact=True).or_(
                page.get_by_role("tab", name=re.compile(f"^{step}"))
            ).first.click()
        assert barriers(page) == []
