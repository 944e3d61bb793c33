"""Gestures on the canvas with the mouse: ends, copies, several states, sub-flows, a state in an
edge.
"""

import json
import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from studio_page import opened, write

ROOT = Path(__file__).parents[2]
RATHER_NOT = "The visitor would rather not say a name"
PLACES = {"hello": [0, 0], "occasion": [420, 0], "goodbye": [840, 0], "later": [840, 240]}


@pytest.fixture
def greeting(folder: Path) -> Path:
    """A shipped definition with one more state, at known places."""
    for path in folder.iterdir():
        path.unlink()
    path = Path(shutil.copy(ROOT / "fsm_definitions" / "greeting.json", folder))
    before = '    "goodbye": {\n'
    text = path.read_text(encoding="utf-8").replace(
        before, '    "later": {"reply": "Later."},\n' + before
    )
    write(path.with_name("greeting.layout.json"), json.dumps({"positions": PLACES}))
    return write(path, text)


def state(page: Page, name: str) -> Locator:
    return page.get_by_role("group", name=f"State {name},")


def written(path: Path) -> dict[str, dict[str, object]]:
    """Return the states of a file."""
    found: dict[str, dict[str, object]] = json.loads(path.read_text(encoding="utf-8"))["states"]
    return found


def save(page: Page) -> None:
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved greeting.json")).to_be_visible()


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


def test_the_end_of_a_transition_is_led_to_another_state(
    browser: Browser, address: str, greeting: Path
) -> None:
    with opened(browser, address, "greeting.json") as page:
        expect(state(page, "later")).to_be_visible()
        edge = page.get_by_role("group", name="Transition from occasion to goodbye.")
        end = edge.locator(".react-flow__edgeupdater-target")
        expect(end).to_be_visible()
        x, y = middle(end)
        drag(page, (x - 5, y), middle(state(page, "later").locator(".react-flow__handle.target")))
        expect(page.get_by_role("group", name="Transition from occasion to later.")).to_have_count(
            1
        )
        save(page)
    [way] = written(greeting)["occasion"]["transitions"]  # type: ignore[misc]
    assert (way["target_state"], way["auto"], len(way["conditions"])) == ("later", True, 1)


def test_states_are_copied_pasted_and_duplicated(
    browser: Browser, address: str, greeting: Path
) -> None:
    before = written(greeting)["occasion"]
    with opened(browser, address, "greeting.json") as page:
        state(page, "occasion").click()
        page.keyboard.press("Control+c")
        expect(page.get_by_text("1 state copied")).to_be_visible()
        page.keyboard.press("Control+v")
        expect(state(page, "occasion_2")).to_have_count(1)
        page.keyboard.press("Control+d")
        expect(state(page, "occasion_3")).to_have_count(1)
        save(page)
    after = written(greeting)
    assert after["occasion_2"] == after["occasion_3"] == after["occasion"] == before


def test_several_states_are_moved_and_deleted_as_one_step(
    browser: Browser, address: str, greeting: Path
) -> None:
    before = greeting.read_bytes()
    layout = greeting.with_name("greeting.layout.json")
    with opened(browser, address, "greeting.json") as page:
        state(page, "goodbye").click()
        state(page, "later").click(modifiers=["Control"])
        expect(page.get_by_role("heading", name="2 selected")).to_be_visible()
        start = middle(state(page, "later"))
        with page.expect_response("**/api/layout"):
            drag(page, start, (start[0] - 60, start[1] + 90))
        expect(page.get_by_text("Move 2 states")).to_be_visible()
        kept = json.loads(layout.read_text(encoding="utf-8"))["positions"]
        steps = {
            name: [kept[name][0] - at[0], kept[name][1] - at[1]] for name, at in PLACES.items()
        }
        assert steps["hello"] == steps["occasion"] == [0, 0]
        assert steps["goodbye"] == steps["later"] != [0, 0]
        page.keyboard.press("Delete")
        expect(state(page, "goodbye")).to_have_count(0)
        expect(state(page, "later")).to_have_count(0)
        save(page)
        assert list(written(greeting)) == ["hello", "occasion"]
        page.get_by_role("button", name="Undo").click()
        expect(state(page, "later")).to_have_count(1)
        save(page)
    assert greeting.read_bytes() == before


def test_a_state_in_an_edge_leaves_the_condition_on_the_first_half(
    browser: Browser, address: str, greeting: Path
) -> None:
    with opened(browser, address, "greeting.json") as page:
        page.locator(".way-label", has_text=RATHER_NOT).click()
        page.get_by_role("button", name="Insert a state here").click()
        page.get_by_role("dialog").get_by_label("Name").fill("nameless")
        page.keyboard.press("Enter")
        expect(state(page, "nameless")).to_be_visible()
        save(page)
    states = written(greeting)
    _, first = states["hello"]["transitions"]  # type: ignore[misc]
    assert first == {
        "target_state": "nameless",
        "description": RATHER_NOT,
        "conditions": [{"description": "The visitor has declined to give a name"}],
        "priority": 200,
    }
    assert states["nameless"]["transitions"] == [{"target_state": "occasion"}]


def test_a_sub_flow_opens_and_folds(browser: Browser, address: str, greeting: Path) -> None:
    flow = {"kind": "subflow", "flow": "greeting.json", "transitions": [{"target_state": "done"}]}
    document = {
        "name": "all",
        "initial_state": "greet",
        "states": {"greet": flow, "done": {"reply": "Done."}},
    }
    path = write(greeting.with_name("all.json"), json.dumps(document))
    with opened(browser, address, "all.json") as page:
        state(page, "greet").click()
        page.get_by_role("button", name="Fold or open").click()
        picture = page.get_by_role("img", name="States of greeting.json")
        expect(picture).to_be_visible()
        expect(picture).to_contain_text("occasion")
        page.get_by_role("button", name="Undo").click()
        expect(picture).to_have_count(0)
        page.get_by_role("button", name="Redo").click()
        expect(picture).to_be_visible()
        page.get_by_role("button", name="Fold or open").click()
        expect(picture).to_have_count(0)
        page.get_by_role("button", name="Fold or open").click()
        page.get_by_role("button", name="Open greeting.json").click()
        expect(state(page, "hello")).to_be_visible()
        expect(page.get_by_role("button", name=re.compile("greeting.json")).first).to_be_visible()
    assert json.loads(path.read_text(encoding="utf-8")) == document
