"""What a reviewer does in the page: compare commits, replay, begin anywhere, and read why."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from llm_fsm.editor.folder import Folder
from llm_fsm.editor.studio import Studio
from studio_page import opened, write

ROOT = Path(__file__).parents[2]


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def address(folder: Path, serving_at: Callable[..., AbstractContextManager[str]]) -> Iterator[str]:
    """The address of a studio on a repository with three commits of one definition."""
    path = Path(shutil.copy(ROOT / "fsm_definitions" / "greeting.json", folder))
    document = json.loads(path.read_text(encoding="utf-8"))
    git(folder, "init", "-q")
    for words in ("One", "Two", "Three"):
        if words == "Two":
            document["states"]["hello"]["purpose"] = "Who is there?"
        if words == "Three":
            document["states"]["birthday"] = {"reply": "Happy birthday!"}
            way = {"target_state": "birthday", "description": "It is a birthday"}
            document["states"]["occasion"]["transitions"] = [way]
        write(path, json.dumps(document, indent=2))
        git(folder, "add", ".")
        git(folder, "commit", "-qm", words)
    with serving_at(Studio(folder=Folder(folder))) as found:
        yield found


def view(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Views").get_by_role("button", name=name).click()


def panel(page: Page, name: str) -> None:
    page.get_by_role("tablist", name="Panels").get_by_role("tab", name=name).click()


def against(page: Page, words: str) -> None:
    """Choose the commit with these words."""
    options = page.get_by_label("Compare with").locator("option")
    option = options.filter(has_text=f"{words} (")
    expect(option).to_have_count(1)
    value = option.get_attribute("value")
    assert value is not None
    page.get_by_label("Compare with").select_option(value)


def test_any_commit_is_drawn_beside_the_file_and_beside_another_commit(
    browser: Browser, address: str
) -> None:
    with opened(browser, address, "greeting.json") as page:
        view(page, "Changes")
        against(page, "One")
        expect(page.get_by_text("reworded from").first).to_be_visible()
        page.get_by_role("button", name="Draw on the canvas").click()
        marks = {
            "hello": "talks. It is changed.",
            "birthday": "ends. It is new.",
            "goodbye": "ends. ",
        }
        for name, words in marks.items():
            expect(page.get_by_role("group", name=f"State {name}, {words}")).to_have_count(1)
        removed = page.locator(".react-flow__edge-path.way.removed")
        expect(removed).to_have_count(1)
        page.get_by_text("Since").get_by_role("button", name="Close").click()
        expect(removed).to_have_count(0)
        view(page, "Changes")
        against(page, "Two")
        page.get_by_role("button", name="Open this version").click()
        expect(page.get_by_text("You read the version of")).to_contain_text("Two")
        expect(page.get_by_role("group", name="State birthday,")).to_have_count(0)
        view(page, "Changes")
        against(page, "Three")
        page.get_by_role("button", name="Draw on the canvas").click()
        expect(
            page.get_by_role("group", name="State birthday, ends. It was removed.")
        ).to_have_count(1)
        page.get_by_role("button", name="Open greeting.json as it is now").click()
        expect(page.get_by_text("You read the version of")).to_have_count(0)


def said(page: Page, words: str) -> None:
    page.get_by_label("Your message").fill(words)
    page.keyboard.press("Enter")


def test_replay_says_that_no_model_is_asked_names_new_words_and_asks_anew(
    browser: Browser, address: str
) -> None:
    with opened(browser, address, "greeting.json") as page:
        panel(page, "Talk")
        page.get_by_role("button", name="Start", exact=True).click()
        said(page, "Ana")
        shown = page.get_by_role("region", name="Playground")
        expect(shown.get_by_text("State occasion")).to_be_visible()
        view(page, "Outline")
        page.get_by_role("list", name="States").get_by_role("button", name="hello").first.click()
        page.get_by_label("purpose").fill("Tell me who you are.")
        panel(page, "Talk")
        page.get_by_role("button", name="Play on the edited definition").click()
        expect(shown.get_by_text("Replayed with its recorded replies")).to_be_visible()
        expect(page.get_by_role("list", name="Reworded")).to_contain_text("Tell me who you are.")
        page.get_by_role("button", name="Ask offline anew").click()
        expect(shown.get_by_text("Replayed with offline")).to_be_visible()


def test_a_talk_begins_at_any_state_with_any_context(browser: Browser, address: str) -> None:
    with opened(browser, address, "greeting.json") as page:
        panel(page, "Talk")
        page.get_by_text("Begin elsewhere").click()
        page.get_by_role("combobox", name="State").select_option("occasion")
        page.get_by_label("Context as JSON").fill("[1]")
        page.get_by_role("button", name="Start", exact=True).click()
        shown = page.get_by_role("region", name="Playground")
        expect(shown.get_by_role("alert")).to_contain_text("Write the context as an object")
        page.get_by_label("Context as JSON").fill('{"name": "Ana"}')
        page.get_by_role("button", name="Start", exact=True).click()
        expect(shown.get_by_text("State occasion")).to_be_visible()
        page.get_by_role("button", name="Why turn 0").click()
        page.get_by_text("Context before and after").click()
        expect(page.get_by_role("region", name="Turn 0")).to_contain_text('"name": "Ana"')


BROKEN = r"""() => [...document.querySelectorAll('.inspection :is(th, td)')].flatMap((cell) => {
    const found = [];
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        for (const word of walker.currentNode.data.matchAll(/[\p{L}\p{N}_]+/gu)) {
            const range = document.createRange();
            range.setStart(walker.currentNode, word.index);
            range.setEnd(walker.currentNode, word.index + word[0].length);
            const lines = new Set([...range.getClientRects()].map((one) => Math.round(one.top)));
            if (lines.size > 1) found.push(word[0]);
        }
    }
    return found;
})"""


@pytest.mark.parametrize("width", [390, 1280])
def test_the_tables_of_why_break_no_words(browser: Browser, address: str, width: int) -> None:
    with opened(
        browser, address, "greeting.json", viewport={"width": width, "height": 800}
    ) as page:
        if width < 600:
            page.get_by_role("navigation", name="Panels").get_by_role("button", name="Talk").click()
        else:
            panel(page, "Talk")
        page.get_by_role("button", name="Start", exact=True).click()
        said(page, "Ana")
        page.get_by_role("button", name="Why turn 1").click()
        expect(page.get_by_role("table").first).to_be_visible()
        assert page.locator(".inspection td").count() > 3
        assert page.evaluate(BROKEN) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
