"""Trouble around the page: it is said in words, nothing typed is lost, and nothing is run."""

import json
import os
import shutil
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from llm_fsm.editor.folder import Folder
from llm_fsm.editor.studio import Studio
from studio_page import opened, write

ROOT = Path(__file__).parents[2]
MARKUP = "<img src=x onerror=window.hit=1>"
NAMES = (MARKUP, "مرحبا بك", "🚪 door", 'a"]b', "back\\slash/and~tilde")


@pytest.fixture
def greeting(folder: Path) -> Path:
    """A shipped definition, fresh."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return Path(shutil.copy(ROOT / "fsm_definitions" / "greeting.json", folder))


def view(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Views").get_by_role("button", name=name).click()


def save(page: Page) -> None:
    page.get_by_role("button", name="Save", exact=True).click()


def text(page: Page) -> Locator:
    return page.get_by_label("Text of the definition")


def typed(page: Page, words: str) -> None:
    """Type words into the text, at the end of the persona."""
    view(page, "Text")
    page.locator(".cm-line", has_text='"persona"').click()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.keyboard.type(words)
    expect(text(page)).to_contain_text(words)


def persona(path: Path) -> str:
    return str(json.loads(path.read_text(encoding="utf-8"))["persona"])


@pytest.mark.parametrize("how", ["deleted", "renamed"])
def test_a_file_that_is_gone_is_told_and_can_be_written_again(
    browser: Browser, address: str, greeting: Path, how: str
) -> None:
    other = greeting.with_name("welcome.json")
    with opened(browser, address, "greeting.json") as page:
        typed(page, " MINE")
        greeting.rename(other) if how == "renamed" else greeting.unlink()
        save(page)
        dialog = page.get_by_role("alertdialog")
        expect(dialog).to_contain_text("It was deleted, renamed or moved.")
        dialog.get_by_role("button", name="Go on editing").click()
        expect(text(page)).to_contain_text(" MINE")
        assert not greeting.exists()
        save(page)
        dialog.get_by_role("button", name="Write mine").click()
        expect(page.get_by_text("Saved greeting.json")).to_be_visible()
    assert persona(greeting).endswith("pushy. MINE")


def test_a_file_that_cannot_be_written_keeps_what_was_typed(
    browser: Browser, address: str, greeting: Path
) -> None:
    with opened(browser, address, "greeting.json") as page:
        typed(page, " MINE")
        # Nothing is read-only for root; a folder in the place of the file is, for everybody.
        reason = "no regular file" if os.geteuid() == 0 else "read-only"
        if os.geteuid() == 0:
            greeting.unlink()
            greeting.mkdir()
        else:
            greeting.chmod(0o400)
        save(page)
        expect(page.get_by_role("alert")).to_contain_text(reason)
        expect(page.get_by_label("not saved")).to_be_visible()
        expect(text(page)).to_contain_text(" MINE")
        page.on("dialog", lambda dialog: dialog.accept())
        if os.geteuid() == 0:
            greeting.rmdir()
            shutil.copy(ROOT / "fsm_definitions" / "greeting.json", greeting)
        page.reload()
        page.get_by_role("button", name="Take it up").click()
        expect(page.get_by_label("not saved")).to_be_visible()
        view(page, "Text")
        expect(text(page)).to_contain_text(" MINE")


def test_two_windows_on_one_file_keep_both_versions(
    browser: Browser, address: str, greeting: Path
) -> None:
    with opened(browser, address, "greeting.json") as first:
        second = first.context.new_page()
        second.goto(first.url + "#" + address.partition("#")[2])
        typed(second, " SECOND")
        typed(first, " FIRST")
        save(first)
        expect(first.get_by_text("Saved greeting.json")).to_be_visible()
        save(second)
        dialog = second.get_by_role("alertdialog", name="The file changed on disk")
        expect(dialog.get_by_role("region", name="On disk")).to_contain_text(" FIRST")
        expect(dialog.get_by_role("region", name="Yours")).to_contain_text(" SECOND")
        dialog.get_by_role("button", name="Take the one on disk").click()
        expect(text(second)).to_contain_text(" FIRST")
        expect(second.get_by_label("not saved")).to_have_count(0)
        second.get_by_role("button", name="Undo").click()
        expect(text(second)).to_contain_text(" SECOND")
        second.on("dialog", lambda dialog: dialog.accept())
        second.close(run_before_unload=False)
        third = first.context.new_page()
        third.goto(first.url + "#" + address.partition("#")[2])
        third.get_by_role("button", name="Take it up").click()
        view(third, "Text")
        expect(text(third)).to_contain_text(" SECOND")
    assert persona(greeting).endswith(" FIRST")


def test_a_server_that_was_stopped_and_started_again_finds_all_that_was_typed(
    browser: Browser,
    folder: Path,
    greeting: Path,
    serving_at: Callable[..., AbstractContextManager[str]],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    studio = Studio(folder=Folder(folder))
    with ExitStack() as running:
        address = running.enter_context(serving_at(studio, port))
        with opened(browser, address, "greeting.json") as page:
            page.get_by_role("tab", name="Talk").click()
            page.get_by_role("button", name="Start", exact=True).click()
            expect(page.get_by_label("Your message")).to_be_visible()
            typed(page, " MINE")
            running.close()
            page.get_by_label("Your message").fill("I am Ana")
            page.get_by_role("button", name="Send").click()
            alert = page.get_by_role("alert").filter(has_text="The server does not answer.").first
            expect(alert).to_be_visible()
            expect(page.get_by_label("Your message")).to_have_value("I am Ana")
            save(page)
            expect(page.locator("footer").get_by_role("alert")).to_contain_text(
                "your text is kept here"
            )
            page.get_by_role("tab", name="Details").click()
            field = page.get_by_label("description").first
            field.fill("A new description")
            field.press("Tab")
            expect(page.locator("footer").get_by_role("alert")).to_contain_text("does not answer")
            expect(field).to_have_value("A new description")
            running.enter_context(serving_at(studio, port))
            field.focus()
            field.press("Tab")
            expect(page.get_by_text("Change description")).to_be_visible()
            save(page)
            expect(page.get_by_text("Saved greeting.json")).to_be_visible()
            page.get_by_role("tab", name="Talk").click()
            page.get_by_label("Your message").fill("I am Ana")
            page.get_by_role("button", name="Send").click()
            expect(
                page.get_by_text("this conversation is not open any more; start a new one")
            ).to_be_visible()
            expect(page.get_by_label("Your message")).to_have_value("I am Ana")
    kept = json.loads(greeting.read_text(encoding="utf-8"))
    assert kept["persona"].endswith(" MINE")
    assert kept["description"] == "A new description"


def test_a_state_with_300_ways_out_is_drawn_and_listed(
    browser: Browser, address: str, greeting: Path
) -> None:
    states = {f"s{number}": {"reply": "Hi"} for number in range(300)}
    ways = [{"target_state": name, "description": f"The way to {name}"} for name in states]
    document = {
        "name": "wide",
        "initial_state": "hub",
        "states": {"hub": {"transitions": ways}, **states},
    }
    write(greeting.with_name("wide.json"), json.dumps(document))
    with opened(browser, address, "wide.json") as page:
        expect(page.get_by_role("group", name="State hub,")).to_be_visible(timeout=30_000)
        view(page, "Outline")
        listed = page.get_by_role("list", name="Transitions of hub").get_by_role("button")
        expect(listed).to_have_count(300)
        listed.last.click()
        expect(page.get_by_role("heading", name="hub → s299")).to_be_visible()


def test_names_with_markup_other_scripts_and_signs_are_names(
    browser: Browser, address: str, greeting: Path
) -> None:
    key = "<b onclick=window.hit=1>"
    states = {
        name: {
            "purpose": f"{name} {MARKUP}",
            "transitions": [{"target_state": "end", "description": f"{MARKUP} to the end"}],
        }
        for name in NAMES
    }
    document = {
        "name": MARKUP,
        "initial_state": MARKUP,
        "context_schema": {"type": "object", "properties": {key: {"type": "string"}}},
        "states": {**states, "end": {"reply": MARKUP}},
    }
    write(greeting.with_name("odd.json"), json.dumps(document, ensure_ascii=False, indent=1))
    with opened(browser, address, "odd.json") as page:
        for name in NAMES:
            drawn = page.get_by_role("group", name=f"State {name},")
            expect(drawn).to_have_count(1)
        view(page, "Outline")
        for name in NAMES:
            page.get_by_role("list", name="States").get_by_role("button").filter(
                has_text=name
            ).first.click()
            expect(page.get_by_role("heading", name=f"State {name}")).to_be_visible()
        page.get_by_role("button", name="Rename").click()
        page.get_by_role("dialog").get_by_label("New name").fill(f"{MARKUP} 🚀")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name=f"State {MARKUP} 🚀")).to_be_visible()
        for panel in ("Findings", "Tests", "Talk"):
            page.get_by_role("tab", name=panel).click()
        page.get_by_role("button", name="Start", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text(
            f'the definition cannot run yet: state id "{MARKUP}"'
        )
        view(page, "Changes")
        view(page, "Text")
        save(page)
        expect(page.get_by_text("Saved odd.json")).to_be_visible()
        assert page.evaluate("() => window.hit") is None
        assert page.locator("img, b[onclick]").count() == 0
    kept = json.loads(greeting.with_name("odd.json").read_text(encoding="utf-8"))
    assert list(kept["states"]) == [*NAMES[:-1], f"{MARKUP} 🚀", "end"]


def test_a_file_of_five_megabytes_is_drawn_and_edited(
    browser: Browser, address: str, greeting: Path
) -> None:
    document = json.loads(greeting.read_text(encoding="utf-8"))
    document["states"]["goodbye"]["reply"] = "x" * 5_000_000
    write(greeting, json.dumps(document, indent=1))
    with opened(browser, address, "greeting.json") as page:
        expect(page.get_by_role("group", name="State goodbye,")).to_be_visible(timeout=30_000)
        view(page, "Outline")
        page.get_by_role("list", name="States").get_by_role("button").filter(
            has_text="hello"
        ).first.click()
        page.get_by_label("purpose").fill("Who are you?")
        page.keyboard.press("Tab")
        expect(page.get_by_text("Change purpose")).to_be_visible(timeout=30_000)
        save(page)
        expect(page.get_by_text("Saved greeting.json")).to_be_visible(timeout=30_000)
    document["states"]["hello"]["purpose"] = "Who are you?"
    assert json.loads(greeting.read_text(encoding="utf-8")) == document
