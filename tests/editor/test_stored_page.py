"""Stored conversations in the page: they are read, forked, and say which file they miss."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from llm_fsm import Machine
from llm_fsm.editor.folder import Folder
from llm_fsm.editor.studio import Studio
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.stores.registry import resolve
from studio_page import barriers, opened, write

ROOT = Path(__file__).parents[2]
AGE = {
    "name": "age",
    "initial_state": "ask",
    "context_schema": {"type": "object", "properties": {"age": {"type": "integer"}}},
    "states": {
        "ask": {
            "purpose": "Ask for the age",
            "required_context_keys": ["age"],
            "transitions": [
                {
                    "target_state": "known",
                    "conditions": [{"requires_context_keys": ["age"]}],
                    "auto": True,
                }
            ],
        },
        "known": {"reply": "Thank you."},
    },
}
SHOP = {
    "name": "shop",
    "initial_state": "ask_age",
    "states": {
        "ask_age": {
            "kind": "subflow",
            "flow": "age.json",
            "transitions": [{"target_state": "done"}],
        },
        "done": {"reply": "Goodbye."},
    },
}
STAY = {
    "transition": {"target_state": "ask", "context_update": {}},
    "message": "And how old is that?",
}


@pytest.fixture(scope="module")
def address(
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    serving_at: Callable[..., AbstractContextManager[str]],
) -> Iterator[str]:
    """The address of a studio on a store with four conversations."""
    made = tmp_path_factory.mktemp("made")
    write(made / "age.json", json.dumps(AGE))
    write(made / "shop.json", json.dumps(SHOP))
    shutil.copy(ROOT / "fsm_definitions" / "greeting.json", folder)
    store = f"sqlite:///{made / 'bots.db'}"
    for file, name in ((folder / "greeting.json", "guest-1"), (made / "shop.json", "guest-2")):
        replies = [{"message": "Hello!"}, STAY] if name == "guest-2" else []
        model = ScriptedLLM(replies) if replies else "offline"
        with Machine.from_file(file, model=model, store=store) as machine:
            chat = machine.start(conversation_id=name)
            chat.send("Ana")
    older = json.loads((folder / "greeting.json").read_text(encoding="utf-8"))
    older["states"]["hello"]["purpose"] = "Who is there?"
    with Machine.from_dict(older, model="offline", store=store) as machine:
        machine.start(conversation_id="team/7 ü").send("Ana")
    with Machine.from_file(folder / "greeting.json", model="offline", store=store) as machine:
        chat = machine.start(conversation_id="guest-3")
        for words in ("Ana", "I bring flowers"):
            chat.send(words)
    with serving_at(Studio(folder=Folder(folder), store=lambda: resolve(store))) as found:
        yield found


def row(page: Page, name: str) -> Locator:
    """Return the button of a stored conversation."""
    rows = page.get_by_role("list", name="Stored conversations").get_by_role("button")
    return rows.filter(has_text=name)


def stored(page: Page, name: str) -> None:
    page.get_by_role("tab", name="Talk").click()
    button = page.get_by_role("button", name="Stored…")
    if button.get_attribute("aria-expanded") == "false":
        button.click()
    row(page, name).click()


def test_the_first_page_lists_conversations_and_searches_them(
    browser: Browser, address: str
) -> None:
    with opened(browser, address) as page:
        first = row(page, "guest-1")
        expect(first).to_contain_text("greeting")
        expect(first).to_contain_text("goes on in occasion")
        expect(first.locator("time")).to_have_count(2)
        expect(row(page, "guest-3")).to_contain_text("ended in goodbye")
        expect(row(page, "")).to_have_count(4)
        page.get_by_role("searchbox").fill("SHOP")
        expect(row(page, "")).to_have_count(1)
        expect(row(page, "guest-2")).to_be_visible()
        page.get_by_role("searchbox").fill("nobody")
        expect(page.get_by_text("None was found.")).to_be_visible()


def test_each_opens_its_own_definition_in_its_own_version_or_says_that_it_is_gone(
    browser: Browser, address: str
) -> None:
    with opened(browser, address) as page:
        row(page, "guest-1").click()
        expect(page.get_by_role("button", name="greeting.json")).to_be_visible()
        expect(page.get_by_text("You read the version")).to_have_count(0)
        expect(page.get_by_role("group", name="State occasion,")).to_have_count(1)
        page.get_by_title("All files").click()
        row(page, "team/7 ü").click()
        note = page.get_by_role("note").filter(has_text="You read the version")
        expect(note).to_contain_text("conversation team/7 ü")
        expect(page.get_by_role("group", name="State hello, talks. Who is there?")).to_have_count(1)
        expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()
        note.get_by_role("button", name="Compare both").click()
        expect(page.get_by_label("Compare with")).to_have_value("greeting.json")
        expect(page.get_by_text("reworded from").first).to_be_visible()
        unified = page.get_by_role("region", name="Difference as text")
        expect(unified.locator(".added")).to_have_count(2)  # with the line of its head
        expect(unified.locator(".removed")).to_have_count(2)
        page.get_by_role("button", name="Draw on the canvas").click()
        expect(page.get_by_role("group", name="State hello, talks. It is changed.")).to_have_count(
            1
        )
        page.get_by_role("button", name="Play on the edited definition").click()
        expect(page.get_by_role("list", name="Reworded")).to_contain_text('from "Who is there?"')
        note.get_by_role("button", name="Open greeting.json as it is now").click()
        expect(note).to_have_count(0)
        page.get_by_title("All files").click()
        row(page, "guest-2").click()
        expect(note).to_contain_text("Its file is gone.")
        expect(page.get_by_role("group", name="State ask_age, sub-flow")).to_have_count(1)


def test_a_stored_conversation_is_read_only_until_it_is_forked(
    browser: Browser, address: str
) -> None:
    with opened(browser, address, "greeting.json") as page:
        stored(page, "guest-1")
        expect(page.get_by_text("read only until you fork it")).to_be_visible()
        expect(page.get_by_label("Your message")).to_have_count(0)
        page.get_by_role("button", name="Why turn 1").click()
        expect(page.get_by_role("region", name="Turn 1")).to_be_visible()
        page.get_by_role("button", name="Step back to turn 1").click()
        expect(page.get_by_text("read only until you fork it")).to_have_count(0)
        page.get_by_label("Your message").fill("I bring flowers")
        page.keyboard.press("Enter")
        expect(
            page.get_by_role("region", name="Playground").get_by_text("State goodbye, ended")
        ).to_be_visible()


def test_one_with_subflows_is_read_without_its_files_and_names_them(
    browser: Browser, address: str, folder: Path
) -> None:
    with opened(browser, address, "greeting.json") as page:
        stored(page, "guest-2")
        expect(page.get_by_text("And how old is that?")).to_be_visible()
        note = page.get_by_role("region", name="Playground").get_by_role("note")
        expect(note).to_contain_text(
            "no file of this folder has the name 'shop', and it calls age.json"
        )
        expect(page.get_by_role("button", name="Step back to turn 1")).to_be_disabled()
        page.get_by_role("button", name="Why turn 1").click()
        expect(page.get_by_role("table", name="Candidates in ask")).to_be_visible()
        write(folder / "shop.json", json.dumps(SHOP))
        write(folder / "age.json", json.dumps(AGE))
        stored(page, "guest-2")
        expect(note).to_have_count(0)
        page.get_by_role("button", name="Step back to turn 0").click()
        expect(page.get_by_label("Your message")).to_be_visible()


def test_a_version_is_saved_under_another_name_and_leaves_the_draft_of_its_file(
    browser: Browser, address: str, folder: Path
) -> None:
    with opened(browser, address, "greeting.json") as page:
        page.get_by_label("name", exact=True).first.fill("greeting_two")
        page.keyboard.press("Tab")
        expect(page.get_by_label("not saved")).to_be_visible()
        stored(page, "team/7 ü")
        page.get_by_role("button", name="Leave", exact=True).click()
        expect(page.get_by_text("You read the version")).to_be_visible()
        page.keyboard.press("Control+s")
        expect(page.get_by_role("alert")).to_contain_text("This is a version to read.")
        page.get_by_label("File").select_option("Save as…")
        page.get_by_label("Name of the file").fill("older")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Saved older.json")).to_be_visible()
        expect(page.get_by_text("You read the version")).to_have_count(0)
        page.keyboard.press("Control+o")
        page.get_by_role("dialog").get_by_role("button", name="greeting.json").click()
        expect(page.get_by_text("There is a draft of this file")).to_be_visible()
    kept = json.loads((folder / "older.json").read_text(encoding="utf-8"))
    assert kept["states"]["hello"]["purpose"] == "Who is there?"
    (folder / "older.json").unlink()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_reviewers_room(
    browser: Browser, address: str, scheme: str
) -> None:
    with opened(browser, address, color_scheme=scheme, bypass_csp=True) as page:
        expect(row(page, "team/7 ü")).to_be_visible()
        assert barriers(page) == []
        row(page, "team/7 ü").click()
        page.get_by_role("button", name="Why turn 1").click()
        page.get_by_text("Begin elsewhere").click()
        page.get_by_role("button", name="Play on the edited definition").click()
        expect(page.get_by_role("list", name="Reworded")).to_be_visible()
        assert barriers(page) == []
        page.get_by_role("button", name="Compare both").click()
        expect(page.get_by_text("reworded from").nth(1)).to_be_visible()
        assert barriers(page) == []
        page.get_by_role("button", name="Draw on the canvas").click()
        expect(page.get_by_text("Since greeting.json")).to_be_visible()
        assert barriers(page) == []
