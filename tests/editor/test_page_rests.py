"""The page comes to rest after every gesture: one second without a change of the DOM."""

import json
import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from studio_page import opened, write

ROOT = Path(__file__).parents[2]
NAMES = ("constructor", "__proto__", "toString", "valueOf", "hasOwnProperty")
MOST_CHANGES = 2_000
"""Changes of the DOM after one gesture. The loop that this test knows made 1,400 a second."""
# Resolves with [changes, frames of the quiet second] once a whole second has gone by without a change; a page that
# never rests answers null. A busy machine makes the wait longer, and counts no change more.
REST = """() => new Promise((done) => {
  let changes = 0, frames = 0, begun = performance.now();
  const first = begun;
  const seen = new MutationObserver((rows) => {
    changes += rows.length;
    frames = 0;
    begun = performance.now();
  });
  seen.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
  const frame = () => {
    frames += 1;
    const now = performance.now();
    const isOver = now - first > 12_000;
    if (now - begun < 1000 && !isOver) return requestAnimationFrame(frame);
    seen.disconnect();
    done(isOver ? null : [changes, frames]);
  };
  requestAnimationFrame(frame);
})"""


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


def listed(page: Page, name: str) -> Locator:
    rows = page.get_by_role("list", name="States").get_by_role("button")
    return rows.filter(has=page.locator("b", has_text=re.compile(f"^{re.escape(name)}$")))


def middle(one: Locator) -> tuple[float, float]:
    box = one.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2, steps=4)
    page.mouse.move(*end, steps=6)
    page.mouse.up()


def answered(page: Page, words: str) -> None:
    """Answer the question that is open."""
    page.get_by_role("dialog").get_by_role("textbox").first.fill(words)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)


def rests(page: Page, after: str) -> None:
    """Wait for a second without a change of the DOM."""
    found = page.evaluate(REST)
    assert found is not None, f"the page never rests after: {after}"
    changes, frames = found
    assert changes <= MOST_CHANGES, (after, changes)
    assert frames >= 2, (after, frames)


def test_the_page_rests_after_gestures_on_the_canvas(
    browser: Browser, address: str, greeting: Path
) -> None:
    with opened(browser, address, "greeting.json") as page:
        expect(state(page, "hello")).to_be_visible()
        rests(page, "opening")
        state(page, "hello").click()
        expect(page.get_by_role("heading", name="State hello")).to_be_visible()
        rests(page, "a click on a state")
        state(page, "occasion").click(modifiers=["Control"])
        expect(page.get_by_role("heading", name="2 selected")).to_be_visible()
        rests(page, "a second state")
        x, y = middle(state(page, "goodbye"))
        drag(page, (x, y), (x + 60, y + 40))
        rests(page, "a drag")
        page.locator(".react-flow__pane").click(position={"x": 20, "y": 600})
        expect(page.get_by_role("heading", name="Machine")).to_be_visible()
        rests(page, "a click on the ground")
        page.get_by_role("group", name="Transition from occasion to goodbye.").locator(
            "path"
        ).first.click(force=True)
        expect(page.get_by_role("heading", name="occasion → goodbye")).to_be_visible()
        rests(page, "a click on a line")
        page.locator(".everywhere").get_by_role("button").first.click()
        expect(page.get_by_role("heading", name="everywhere → goodbye")).to_be_visible()
        rests(page, "a transition from everywhere")
        state(page, "hello").click()
        expect(page.get_by_role("heading", name="State hello")).to_be_visible()
        drag(
            page,
            middle(state(page, "hello").locator(".react-flow__handle.source")),
            middle(state(page, "goodbye").locator(".react-flow__handle.target")),
        )
        expect(page.get_by_text("Connect hello to goodbye")).to_be_visible()
        rests(page, "a connection")
        page.keyboard.down("Shift")
        drag(page, (990, 120), (6, 760))
        page.keyboard.up("Shift")
        expect(page.get_by_role("heading", name="3 selected")).to_be_visible()
        rests(page, "a box")
        page.get_by_role("button", name="Tidy up selection").click()
        expect(page.get_by_role("status").filter(has_text="Tidy up")).to_be_visible()
        rests(page, "tidying up")
        page.locator(".react-flow__pane").click(position={"x": 20, "y": 600})
        state(page, "hello").click(button="right")
        expect(page.get_by_role("menu")).to_be_visible()
        rests(page, "a menu")
        page.get_by_role("menuitem", name="Fold what follows").click()
        expect(state(page, "occasion")).to_have_count(0)
        rests(page, "folding a group")
        page.get_by_role("button", name="Fit View").click()
        rests(page, "fitting the picture")


def test_the_page_rests_after_a_renaming_and_a_paste(
    browser: Browser, address: str, greeting: Path
) -> None:
    with opened(browser, address, "greeting.json") as page:
        state(page, "occasion").click()
        page.keyboard.press("F2")
        answered(page, "reason")
        expect(page.get_by_role("heading", name="State reason")).to_be_visible()
        rests(page, "a renaming")
        page.keyboard.press("Control+c")
        page.keyboard.press("Control+v")
        expect(state(page, "reason_2")).to_be_visible()
        expect(page.get_by_role("heading", name="State reason_2")).to_be_visible()
        rests(page, "a paste")
        page.get_by_role("button", name="Undo").click()
        page.get_by_role("button", name="Undo").click()
        expect(state(page, "occasion")).to_be_visible()
        rests(page, "undo of both")
        page.get_by_role("button", name="Redo").click()
        expect(state(page, "reason")).to_be_visible()
        rests(page, "redo")


def test_the_selection_follows_a_renaming_and_its_undo(
    browser: Browser, address: str, greeting: Path
) -> None:
    with opened(browser, address, "greeting.json") as page:
        page.locator(".way-label", has_text="rather not say").click()
        expect(page.get_by_role("heading", name="hello → occasion")).to_be_visible()
        page.get_by_role("button", name="Its state").click()
        page.get_by_role("complementary").get_by_role("button", name="Rename").click()
        answered(page, "welcome")
        expect(page.get_by_role("heading", name="State welcome")).to_be_visible()
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_role("heading", name="State hello")).to_be_visible()
        page.get_by_role("button", name="Redo").click()
        expect(page.get_by_role("heading", name="State welcome")).to_be_visible()


def test_the_page_rests_after_gestures_by_keys(
    browser: Browser, address: str, greeting: Path
) -> None:
    with opened(browser, address, "greeting.json") as page:
        expect(state(page, "hello")).to_be_visible()
        for key, name in (("Enter", "hello"), (" ", "occasion")):
            state(page, name).focus()
            page.keyboard.press(key)
            expect(page.get_by_role("heading", name=f"State {name}")).to_be_visible()
            rests(page, f"{key!r} on a state")
        page.keyboard.press("ArrowDown")
        expect(page.get_by_text("Move occasion")).to_be_visible()
        rests(page, "an arrow key")
        page.keyboard.press("n")
        answered(page, "birthday")
        expect(page.get_by_role("heading", name="State birthday")).to_be_visible()
        rests(page, "a new state")
        page.keyboard.press("c")
        answered(page, "goodbye")
        expect(page.get_by_role("heading", name="birthday → goodbye")).to_be_visible()
        rests(page, "a new transition")
        page.keyboard.press("Control+a")
        expect(page.get_by_role("heading", name="4 selected")).to_be_visible()
        rests(page, "all states")
        page.keyboard.press("Control+d")
        expect(state(page, "birthday_2")).to_be_visible()
        rests(page, "copies of all")
        page.keyboard.press("Delete")
        expect(state(page, "birthday_2")).to_have_count(0)
        rests(page, "deleting")
        page.keyboard.press("Control+z")
        expect(state(page, "birthday_2")).to_have_count(1)
        rests(page, "undo")
        page.keyboard.press("Control+k")
        answered(page, "birthday_2")
        rests(page, "find")


def test_the_page_rests_after_choosing_in_the_outline_and_changing_views(
    browser: Browser, address: str, greeting: Path
) -> None:
    with opened(browser, address, "greeting.json") as page:
        for name in ("hello", "goodbye"):
            view(page, "Outline")
            listed(page, name).click()
            expect(page.get_by_role("heading", name=f"State {name}")).to_be_visible()
            rests(page, "a state of the outline")
            view(page, "Canvas")
            expect(state(page, name)).to_be_visible()
            rests(page, "the canvas with that state")
            expect(page.get_by_role("heading", name=f"State {name}")).to_be_visible()
        view(page, "Outline")
        page.get_by_role("list", name="Transitions of occasion").get_by_role("button").click()
        target = page.get_by_label("target state")
        target.fill("nowhere")
        target.press("Enter")
        expect(page.get_by_role("button", name="1 error")).to_be_visible()
        rests(page, "an unknown target")
        view(page, "Canvas")
        expect(state(page, "nowhere")).to_be_visible()
        rests(page, "the canvas with an unknown target")
        state(page, "nowhere").click()
        page.get_by_role("button", name="Add this state").click()
        expect(page.get_by_role("heading", name="State nowhere")).to_be_visible()
        rests(page, "adding it")
        for name in ("Text", "Changes", "Canvas", "Outline", "Text", "Canvas"):
            view(page, name)
            rests(page, f"the view {name}")


@pytest.mark.parametrize("rename", [False, True], ids=["written", "renamed"])
def test_names_that_every_object_has_are_names(
    browser: Browser, address: str, greeting: Path, *, rename: bool
) -> None:
    before = [f"s{number}" for number in range(len(NAMES))] if rename else list(NAMES)
    ways = zip(before, [*before[1:], "end"], strict=True)
    states = {
        name: {"purpose": "?", "transitions": [{"target_state": target}]} for name, target in ways
    }
    document = {
        "name": "odd",
        "initial_state": before[0],
        "states": {**states, "end": {"reply": "Bye"}},
    }
    path = write(greeting.with_name("odd.json"), json.dumps(document, indent=1))
    with opened(browser, address, "odd.json") as page:
        expect(state(page, before[0])).to_be_visible()
        for old, name in zip(before, NAMES, strict=True):
            state(page, old).click()
            if rename:
                page.keyboard.press("F2")
                answered(page, name)
            expect(page.get_by_role("heading", name=f"State {name}", exact=True)).to_be_visible()
        rests(page, "odd names")
        page.keyboard.press("ArrowDown")
        with page.expect_response("**/api/layout"):
            page.get_by_role("button", name="Tidy up").click()
        page.get_by_role("button", name="Save", exact=True).click() if rename else None
        rests(page, "tidying up")
        expect(page.locator(".react-flow__node-state")).to_have_count(len(NAMES) + 1)
        expect(page.locator(".react-flow__edge")).to_have_count(len(NAMES))
    kept = json.loads(path.with_name("odd.layout.json").read_text(encoding="utf-8"))
    assert sorted(kept["positions"]) == sorted([*NAMES, "end"])
    written = json.loads(path.read_text(encoding="utf-8"))
    assert list(written["states"]) == [*NAMES, "end"]
