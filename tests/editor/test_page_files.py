"""Files as in an editor: what others write on disk, names, copies, and files that are no machines."""

import json
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from studio_page import opened, write

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "fsm_definitions" / "greeting.json"


@pytest.fixture
def greeting(folder: Path) -> Path:
    """A shipped definition, fresh."""
    for path in folder.iterdir():
        path.unlink()
    return Path(shutil.copy(SHIPPED, folder))


def view(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Views").get_by_role("button", name=name).click()


def turned_to(page: Page) -> None:
    """Let the window get the focus, as when somebody comes back from another program."""
    page.evaluate("() => window.dispatchEvent(new Event('focus'))")


def changed(path: Path, before: str, after: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1
    write(path, text.replace(before, after))


def description(page: Page) -> Locator:
    """Return the field for the description of the machine."""
    view(page, "Outline")
    page.get_by_role("button", name="Machine", exact=True).click()
    return page.get_by_role("region", name="Machine").get_by_label("description").first


def file_menu(page: Page, name: str) -> None:
    page.get_by_label("File", exact=True).select_option(name)


def answered(page: Page, words: str) -> None:
    page.get_by_role("dialog").get_by_role("textbox").fill(words)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.parametrize("how", ["focus", "a few seconds"])
def test_a_change_on_disk_is_read_when_nothing_is_unsaved(
    browser: Browser, address: str, greeting: Path, how: str
) -> None:
    with opened(browser, address, "greeting.json") as page:
        one = description(page)
        changed(greeting, "A first conversation", "Our first conversation")
        if how == "focus":
            turned_to(page)
        expect(one).to_have_value(
            "Our first conversation: welcome a visitor, learn the name and what brings them here, "
            "say goodbye.",
            timeout=20_000,
        )
        expect(page.get_by_text("greeting.json changed on disk")).to_be_visible()
        expect(page.get_by_label("not saved")).to_have_count(0)
        page.get_by_role("button", name="Undo").click()
        expect(one).to_have_value(
            "A first conversation: welcome a visitor, learn the name and what brings them here, "
            "say goodbye."
        )


def test_changes_of_two_people_at_two_places_are_merged(
    browser: Browser, address: str, greeting: Path
) -> None:
    with opened(browser, address, "greeting.json") as page:
        description(page).fill("Mine")
        changed(greeting, "What brings you here today?", "What is it today?")
        changed(greeting, '"kind": "final",', '"kind": "final", "outcome": "done",')
        turned_to(page)
        page.get_by_role("button", name="Merge both").click()
        expect(page.get_by_text("Merge with the version on disk")).to_be_visible()
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_text("Saved greeting.json")).to_be_visible()
    after = json.loads(greeting.read_text(encoding="utf-8"))
    wanted = json.loads(SHIPPED.read_text(encoding="utf-8"))
    wanted["description"] = "Mine"
    wanted["states"]["occasion"]["purpose"] = "What is it today?"
    wanted["states"]["goodbye"]["outcome"] = "done"
    assert after == wanted


def test_changes_of_one_place_are_compared_and_not_merged(
    browser: Browser, address: str, greeting: Path
) -> None:
    with opened(browser, address, "greeting.json") as page:
        one = description(page)
        one.fill("Mine")
        changed(greeting, "A first conversation", "Theirs")
        turned_to(page)
        expect(page.get_by_text("This file changed on disk.")).to_be_visible()
        expect(page.get_by_role("button", name="Merge both")).to_have_count(0)
        page.get_by_role("button", name="Compare both").click()
        dialog = page.get_by_role("alertdialog")
        expect(dialog.get_by_role("region", name="On disk")).to_contain_text("Theirs")
        expect(dialog.get_by_role("button", name="Merge both")).to_have_count(0)
        dialog.get_by_role("button", name="Go on editing").click()
        expect(one).to_have_value("Mine")


def test_a_file_is_saved_under_another_name_and_the_old_one_stays(
    browser: Browser, address: str, greeting: Path
) -> None:
    before = greeting.read_bytes()
    with opened(browser, address, "greeting.json") as page:
        description(page).fill("Another one")
        file_menu(page, "Save as…")
        answered(page, "welcome")
        expect(page.get_by_text("Saved welcome.json")).to_be_visible()
        expect(page.get_by_label("not saved")).to_have_count(0)
        assert greeting.read_bytes() == before
        welcome = greeting.with_name("welcome.json")
        assert json.loads(welcome.read_text(encoding="utf-8"))["description"] == "Another one"
        file_menu(page, "Save as…")
        answered(page, "greeting.json")
        expect(page.get_by_role("alert")).to_contain_text("There is a file greeting.json already.")
        assert page.url.endswith("file=welcome.json")
        page.get_by_role("button", name="Undo").click()
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_text("Saved welcome.json")).to_be_visible()
        assert welcome.read_bytes() == before


def test_a_file_is_renamed_duplicated_and_deleted_with_its_places(
    browser: Browser, address: str, greeting: Path
) -> None:
    before = greeting.read_bytes()
    with opened(browser, address, "greeting.json") as page:
        expect(page.get_by_role("group", name="State hello,")).to_be_visible()
        with page.expect_response("**/api/layout"):
            page.get_by_role("button", name="Tidy up").click()
        with page.expect_response("**/api/layout"):
            file_menu(page, "Rename…")
            answered(page, "hi.json")
        expect(page.get_by_text("Renamed greeting.json to hi.json")).to_be_visible()
        assert sorted(path.name for path in greeting.parent.iterdir()) == [
            "hi.json",
            "hi.layout.json",
        ]
        file_menu(page, "Duplicate…")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Saved hi_2.json")).to_be_visible()
        assert greeting.with_name("hi_2.json").read_bytes() == before
        file_menu(page, "Delete…")
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.get_by_role("heading", name="Open a machine")).to_be_visible()
        expect(page.get_by_role("button", name="hi.json")).to_be_visible()
        expect(page.get_by_role("button", name="hi_2.json")).to_have_count(0)
    assert not greeting.with_name("hi_2.json").exists()
    assert greeting.with_name("hi.json").read_bytes() == before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1, 2]", "This is JSON, but no machine"),
        ('"order"', "This is JSON, but no machine"),
        ('{"lights": {"on": true}}', "This is JSON, but no machine"),
        ("null", "This is JSON, but no machine"),
        ('{"definition": "greeting.json", "cases": []}', "These are conversation tests."),
    ],
)
def test_json_that_is_no_machine_says_so(
    browser: Browser, address: str, greeting: Path, text: str, words: str
) -> None:
    write(greeting.with_name("odd.json"), text)
    with opened(browser, address, "odd.json") as page:
        expect(page.get_by_role("note").filter(has_text=words)).to_be_visible()
        expect(page.get_by_label("Text of the definition")).to_be_visible()


def test_a_file_that_changed_meanwhile_is_not_deleted(page) -> None:
    saved = page.put("/file", {"path": "a.json", "text": "{}", "base": None})
    (page.folder / "a.layout.json").write_text("{}", encoding="utf-8")
    (page.folder / "a.json").write_text('{"by": "others"}', encoding="utf-8")
    answer = page.client.delete("/api/file", params={"path": "a.json", "base": saved["sha256"]})
    assert answer.status_code == 409
    now = answer.json()["conflict"]
    assert now["text"] == '{"by": "others"}'
    for path, status in (("../a.json", 403), ("b.json", 409), ("a.json", 204), ("a.json", 409)):
        answer = page.client.delete("/api/file", params={"path": path, "base": now["sha256"]})
        assert answer.status_code == status, path
    assert list(page.folder.iterdir()) == []
