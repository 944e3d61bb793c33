"""The playground in a real browser: talk, see why, step back, fork, save a test, and run the tests."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from studio_page import opened

ROOT = Path(__file__).parents[2]
GREETING = "Good evening! For how many guests may I reserve?"
PARTY = {
    "transition": {
        "target_state": "moment",
        "context_update": {"guests": 4, "name": "Ana Silva", "_quotes": {"name": "Ana Silva"}},
    },
    "message": "Four, gladly. On which day?",
}
GROUP = {"transition": {"target_state": "moment", "context_update": {}}, "message": "And the day?"}
REPLIES = [PARTY, GROUP, GROUP]


@pytest.fixture
def reservation(folder: Path) -> Path:
    """A shipped definition, fresh."""
    for path in folder.iterdir():
        path.unlink()
    return Path(shutil.copy(ROOT / "fsm_definitions" / "reservation.json", folder))


def panel(page: Page, name: str) -> None:
    page.get_by_role("tablist", name="Panels").get_by_role("tab", name=name).click()


def begin(page: Page, model: str) -> None:
    panel(page, "Talk")
    page.get_by_label("Model").select_option(model)
    if model == "scripted":
        page.get_by_label("Replies").fill(json.dumps(REPLIES))
    page.get_by_role("button", name="Start", exact=True).click()


def say(page: Page, words: str) -> None:
    page.get_by_label("Your message").fill(words)
    page.keyboard.press("Enter")


def said(page: Page) -> Locator:
    return page.get_by_role("list", name="Conversation").get_by_role("listitem")


def talked(page: Page) -> None:
    """Hold a conversation of two turns with scripted replies."""
    begin(page, "scripted")
    expect(said(page).get_by_text(GREETING)).to_be_visible()
    say(page, "A table for four, I am Ana Silva")
    expect(page.get_by_text("Four, gladly.")).to_be_visible()
    say(page, "Tomorrow perhaps")
    expect(page.get_by_text("And the day?")).to_be_visible()


def command_on(folder: Path) -> str:
    """Run `llm-fsm test` on the folder, and return what it says."""
    command = [sys.executable, "-m", "llm_fsm", "test", str(folder), "-p", "no:cacheprovider"]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_a_turn_says_why(browser: Browser, address: str, reservation: Path) -> None:
    with opened(browser, address, "reservation.json") as page:
        talked(page)
        page.get_by_role("button", name="Why turn 1").click()
        why = page.get_by_role("region", name="Turn 1")
        candidates = why.get_by_role("table", name="Candidates in party")
        taken = candidates.get_by_role("row", name=re.compile("One to eight guests"))
        expect(taken).to_contain_text("taken")
        expect(taken).to_contain_text("guests is at most 8")
        expect(taken).to_contain_text("guests = 4")
        other = candidates.get_by_role("row", name=re.compile("Nine guests or more"))
        expect(other).to_contain_text("does not hold")
        changed = why.get_by_role("row", name=re.compile("^name"))
        expect(changed).to_contain_text("“Ana Silva”")
        why.get_by_text("Prompt and reply").click()
        expect(why.get_by_role("region", name="Reply")).to_contain_text("context_update")


def test_words_entered_while_an_answer_arrives_are_sent_after_it(
    browser: Browser, address: str, reservation: Path
) -> None:
    with opened(browser, address, "reservation.json") as page:
        begin(page, "scripted")
        expect(said(page).get_by_text(GREETING)).to_be_visible()
        held: list[Route] = []

        def hold_the_first(route: Route) -> None:
            if held:
                route.continue_()
            else:
                held.append(route)

        page.route("**/messages", hold_the_first)
        say(page, "A table for four, I am Ana Silva")
        expect(said(page).get_by_text("A table for four, I am Ana Silva")).to_be_visible()
        say(page, "Tomorrow perhaps")
        expect(page.get_by_text("Your message is sent after this answer.")).to_be_visible()
        held[0].continue_()
        expect(page.get_by_text("And the day?")).to_be_visible()
        expect(said(page).filter(has_text="Tomorrow perhaps")).to_have_count(1)
        expect(page.get_by_label("Your message")).to_have_value("")


def test_a_step_back_is_a_fork_and_an_edited_message_goes_on(
    browser: Browser, address: str, reservation: Path
) -> None:
    with opened(browser, address, "reservation.json") as page:
        talked(page)
        page.get_by_role("button", name="Step back to turn 1").click()
        expect(page.get_by_text("And the day?")).to_have_count(0)
        say(page, "On Monday")
        expect(page.get_by_text("And the day?")).to_be_visible()
        expect(said(page).filter(has_text="On Monday")).to_have_count(1)
        page.get_by_role("button", name="Edit the message of turn 2").click()
        page.get_by_role("dialog").get_by_label("Message").fill("On Tuesday")
        page.get_by_role("button", name="Go on from here").click()
        expect(said(page).filter(has_text="On Tuesday")).to_have_count(1)
        expect(page.get_by_text("On Monday")).to_have_count(0)
        expect(page.get_by_text("And the day?")).to_be_visible()


def test_a_fork_goes_on_with_the_definition_as_it_is_edited(
    browser: Browser, address: str, reservation: Path
) -> None:
    with opened(browser, address, "reservation.json") as page:
        talked(page)
        panel(page, "Details")
        page.get_by_role("navigation", name="Views").get_by_role("button", name="Outline").click()
        page.get_by_role("list", name="States").get_by_role(
            "button", name=re.compile("^party")
        ).click()
        ways = page.get_by_role("list", name="Transitions of party").get_by_role("button")
        ways.filter(has_text="One to eight guests").click()
        page.get_by_label("description").first.fill("A small party")
        page.keyboard.press("Tab")
        expect(page.get_by_label("not saved")).to_be_visible()
        panel(page, "Talk")
        page.get_by_role("button", name="Edit the message of turn 1").click()
        page.get_by_role("dialog").get_by_label("Message").fill("Four, Ana Silva")
        page.get_by_role("button", name="Go on from here").click()
        expect(said(page).filter(has_text="Four, Ana Silva")).to_have_count(1)
        page.get_by_role("button", name="Why turn 1").click()
        expect(page.get_by_role("row", name=re.compile("A small party"))).to_contain_text("taken")


def test_a_saved_conversation_passes_in_the_command_and_is_seen_on_the_canvas(
    browser: Browser, address: str, reservation: Path
) -> None:
    with opened(browser, address, "reservation.json") as page:
        talked(page)
        page.get_by_role("button", name="Save as test").click()
        page.get_by_role("dialog").get_by_label("Name of the test").fill("a small party")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Saved a small party in reservation.test.json.")).to_contain_text(
            "It passes."
        )
        panel(page, "Tests")
        page.get_by_role("button", name="Run the tests").click()
        shown = page.get_by_role("region", name="Tests")
        expect(shown.get_by_text("1 passed, 0 failed")).to_be_visible()
        share = re.search(r"(\d+) % covered", shown.inner_text())
        assert share is not None
        assert 0 < int(share[1]) < 100
        expect(shown.get_by_role("listitem").filter(has_text="a small party")).to_contain_text("✔")
        expect(
            page.get_by_role("group", name="State party, talks. The tests reach it.")
        ).to_have_count(1)
        expect(
            page.get_by_role("group", name="State reserved, ends. The tests miss it.")
        ).to_have_count(1)
    assert "1 passed" in command_on(reservation.parent)


def test_the_model_without_a_network_talks(
    browser: Browser, address: str, reservation: Path
) -> None:
    with opened(browser, address, "reservation.json") as page:
        begin(page, "offline")
        expect(said(page)).to_have_count(1)
        say(page, "4")
        expect(said(page)).to_have_count(3)
        expect(
            page.get_by_role("region", name="Playground").get_by_text("State moment")
        ).to_be_visible()
        expect(
            page.get_by_role("group", name="State moment, talks. The conversation is here.")
        ).to_have_count(1)
