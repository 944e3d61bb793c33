"""Editing on the canvas and in the outline of the studio, in a real browser."""

import json
import shutil
from difflib import unified_diff
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from studio_page import NARROW, opened

ROOT = Path(__file__).parents[2]


@pytest.fixture
def greeting(folder: Path) -> Path:
    """A shipped definition of three states, fresh."""
    for path in folder.iterdir():
        path.unlink()
    return Path(shutil.copy(ROOT / "fsm_definitions" / "greeting.json", folder))


def state(page: Page, name: str) -> Locator:
    return page.get_by_role("group", name=f"State {name},")


def view(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Views").get_by_role("button", name=name).click()


def name_it(page: Page, name: str) -> None:
    page.get_by_role("dialog").get_by_label("Name").fill(name)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)


def save(page: Page) -> None:
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved greeting.json")).to_be_visible()


def changed(before: str, after: str) -> tuple[list[str], list[str]]:
    """Return the lines that a difference takes and brings, without their indentation."""
    lines = list(unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0))[2:]
    taken = [line[1:].strip() for line in lines if line.startswith("-")]
    return taken, [line[1:].strip() for line in lines if line.startswith("+")]


def ways(path: Path, source: str) -> list[str]:
    found = json.loads(path.read_text(encoding="utf-8"))["states"][source].get("transitions", [])
    return [one["target_state"] for one in found]


def handle(page: Page, name: str, side: str) -> tuple[float, float]:
    box = state(page, name).locator(f".react-flow__handle.{side}").bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2, steps=4)
    page.mouse.move(*end, steps=6)
    page.mouse.up()


def test_mouse_adds_a_state_and_a_transition_and_the_diff_is_those_lines(
    browser: Browser, address: str, greeting: Path
) -> None:
    before = greeting.read_text(encoding="utf-8")
    with opened(browser, address, "greeting.json") as page:
        others = {
            name: state(page, name).bounding_box() for name in ("hello", "occasion", "goodbye")
        }
        x, y = handle(page, "hello", "source")
        drag(page, (x, y), (x + 150, y + 200))
        name_it(page, "birthday")
        expect(state(page, "birthday")).to_be_visible()
        drag(page, handle(page, "birthday", "source"), handle(page, "goodbye", "target"))
        expect(page.get_by_text("Connect birthday to goodbye")).to_be_visible()
        assert {name: state(page, name).bounding_box() for name in others} == others
        save(page)
    taken, brought = changed(before, greeting.read_text(encoding="utf-8"))
    assert ways(greeting, "hello") == ["occasion", "occasion", "birthday"]
    assert ways(greeting, "birthday") == ["goodbye"]
    assert taken == []
    assert len(brought) <= 12


def test_touch_at_390_pixels_adds_a_state_and_a_transition(
    browser: Browser, address: str, greeting: Path
) -> None:
    with opened(
        browser, address, "greeting.json", viewport=NARROW, has_touch=True, is_mobile=True
    ) as page:
        page.get_by_role("list", name="States").get_by_role("button", name="hello").first.tap()
        page.get_by_role("button", name="Add next state").tap()
        page.get_by_role("dialog").get_by_label("Name").fill("birthday")
        page.get_by_role("dialog").get_by_role("button", name="Add").tap()
        expect(page.get_by_role("heading", name="State birthday")).to_be_visible()
        page.get_by_role("button", name="Connect to…").tap()
        page.get_by_role("dialog").get_by_role("button", name="goodbye").tap()
        expect(page.get_by_role("heading", name="birthday → goodbye")).to_be_visible()
        page.get_by_role("button", name="Close the panel").tap()
        save(page)
    assert ways(greeting, "hello")[-1] == "birthday"
    assert ways(greeting, "birthday") == ["goodbye"]


def test_touch_connects_on_the_canvas(browser: Browser, address: str, greeting: Path) -> None:
    with opened(
        browser, address, "greeting.json", viewport=NARROW, has_touch=True, is_mobile=True
    ) as page:
        view(page, "Canvas")
        expect(state(page, "hello")).to_be_visible()
        state(page, "hello").tap()
        page.get_by_role("toolbar", name="Canvas tools").get_by_role(
            "button", name="Add state"
        ).tap()
        page.get_by_role("dialog").get_by_label("Name").fill("birthday")
        page.get_by_role("dialog").get_by_role("button", name="Add").tap()
        expect(state(page, "birthday")).to_have_count(1)
        save(page)
    assert ways(greeting, "hello")[-1] == "birthday"


def typed(page: Page, key: str, text: str) -> None:
    """Press a key that asks for a word, and type the word at once, as fast typists do."""
    page.keyboard.press(key)
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def test_keyboard_alone_adds_a_state_and_a_transition(
    browser: Browser, address: str, greeting: Path
) -> None:
    with opened(browser, address, "greeting.json") as page:
        expect(state(page, "hello")).to_be_visible()
        typed(page, "Control+k", "hello")
        expect(page.get_by_role("heading", name="State hello")).to_be_visible()
        typed(page, "n", "birthday")
        expect(page.get_by_role("heading", name="State birthday")).to_be_visible()
        typed(page, "c", "goodbye")
        expect(page.get_by_role("heading", name="birthday → goodbye")).to_be_visible()
        page.keyboard.press("Control+s")
        expect(page.get_by_text("Saved greeting.json")).to_be_visible()
    assert ways(greeting, "hello")[-1] == "birthday"
    assert ways(greeting, "birthday") == ["goodbye"]


def test_state_is_inserted_renamed_duplicated_and_deleted(
    browser: Browser, address: str, greeting: Path
) -> None:
    before = greeting.read_text(encoding="utf-8")
    with opened(browser, address, "greeting.json") as page:
        view(page, "Outline")
        page.get_by_role("list", name="Transitions of occasion").get_by_role("button").click()
        page.get_by_role("button", name="Insert a state").click()
        name_it(page, "thanks")
        expect(page.get_by_role("heading", name="State thanks")).to_be_visible()
        page.get_by_role("button", name="Rename").click()
        page.get_by_role("dialog").get_by_label("New name").fill("thank_you")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="State thank_you")).to_be_visible()
        save(page)
        assert ways(greeting, "occasion") == ["thank_you"]
        assert ways(greeting, "thank_you") == ["goodbye"]
        page.get_by_role("button", name="Duplicate").click()
        expect(page.get_by_role("heading", name="State thank_you_2")).to_be_visible()
        page.get_by_role("complementary").get_by_role("button", name="Delete", exact=True).click()
        expect(page.get_by_role("heading", name="Machine")).to_be_visible()
        for _ in range(4):
            page.get_by_role("button", name="Undo").click()
        save(page)
    assert greeting.read_text(encoding="utf-8") == before


def test_broken_machine_shows_its_finding_and_undo_mends_it(
    browser: Browser, address: str, greeting: Path
) -> None:
    with opened(browser, address, "greeting.json") as page:
        view(page, "Outline")
        page.get_by_role("list", name="Transitions of occasion").get_by_role("button").click()
        field = page.get_by_label("target state")
        field.fill("nowhere")
        field.press("Enter")
        expect(page.get_by_role("complementary").get_by_text("nowhere").first).to_be_visible()
        expect(page.get_by_role("button", name="1 error")).to_be_visible()
        view(page, "Canvas")
        expect(state(page, "nowhere")).to_be_visible()
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_label("not saved")).to_have_count(0)
        expect(page.get_by_role("button", name="0 errors")).to_be_visible()


def test_moving_a_state_edits_its_layout_file_alone(
    browser: Browser, address: str, greeting: Path
) -> None:
    before = greeting.read_bytes()
    with opened(browser, address, "greeting.json") as page:
        box = state(page, "goodbye").bounding_box()
        assert box is not None
        start = (box["x"] + 60, box["y"] + 15)
        with page.expect_response("**/api/layout"):
            drag(page, start, (start[0] - 40, start[1] + 120))
        expect(page.get_by_text("Move goodbye")).to_be_visible()
        expect(page.get_by_label("not saved")).to_have_count(0)
        kept = json.loads(greeting.with_name("greeting.layout.json").read_text(encoding="utf-8"))
        with page.expect_response("**/api/layout"):
            page.get_by_role("button", name="Tidy up").click()
        with page.expect_response("**/api/layout"):
            page.get_by_role("button", name="Undo").click()
    again = json.loads(greeting.with_name("greeting.layout.json").read_text(encoding="utf-8"))
    assert sorted(kept["positions"]) == ["goodbye", "hello", "occasion"]
    assert again == kept
    assert greeting.read_bytes() == before
