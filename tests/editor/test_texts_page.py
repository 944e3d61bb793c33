"""Texts in further languages: a table of all, a picker beside the fields, and one save for all files."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from studio_page import NARROW, opened, write

PARCEL = {
    "name": "parcel",
    "language": "en",
    "languages": ["de", "tr"],
    "initial_state": "day",
    "context_schema": {
        "properties": {
            "day": {"type": "string", "format": "date", "title": "day", "x-ask": "Which day?"}
        }
    },
    "states": {
        "day": {
            "purpose": "Hello! Which day suits you?",
            "required_context_keys": ["day"],
            "transitions": [
                {
                    "target_state": "done",
                    "description": "The day is known",
                    "conditions": [{"requires_context_keys": ["day"]}],
                }
            ],
        },
        "done": {"purpose": "Say goodbye", "reply": "Your parcel comes on {{ day }}."},
    },
}
GERMAN = """msgid ""
msgstr "Content-Type: text/plain; charset=utf-8\\n"

msgctxt "/states/day/purpose"
msgid "Hello! Which day suits you?"
msgstr "Hallo! Welcher Tag passt Ihnen?"

#, fuzzy
msgctxt "/states/done/purpose"
msgid "Say goodbye"
msgstr "Verabschieden"
"""
REPLY = "/states/done/reply in de"


@pytest.fixture
def parcel(folder: Path) -> Path:
    """A definition in three languages, of which German is begun."""
    for path in folder.iterdir():
        path.unlink()
    write(folder / "parcel.de.po", GERMAN)
    return write(folder / "parcel.json", json.dumps(PARCEL, indent=2) + "\n")


def table(page: Page) -> Locator:
    """Open the table of texts."""
    views = page.get_by_role("navigation", name="Views")
    views.get_by_role("button", name="Languages", exact=True).click()
    return page.get_by_role("table", name="Texts")


def save(page: Page, notice: str) -> None:
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("status").filter(has_text=notice)).to_be_visible()


def entry(parcel: Path, tag: str, pointer: str) -> str:
    """Return the entry of a text in its file."""
    written = parcel.with_name(f"parcel.{tag}.po").read_text(encoding="utf-8")
    [found] = [one for one in written.split("\n\n") if f'msgctxt "{pointer}"' in one]
    return found


def row(shown: Locator, words: str) -> Locator:
    return shown.get_by_role("row").filter(has=shown.page.get_by_text(words, exact=True))


def test_the_table_has_every_text_and_marks_what_is_missing_or_fuzzy(
    browser: Browser, address: str, parcel: Path
) -> None:
    with opened(browser, address, "parcel.json") as page:
        shown = table(page)
        expect(shown.get_by_role("columnheader")).to_have_text(["Place", "en", "de", "tr"])
        expect(shown.get_by_role("rowheader")).to_have_count(5)
        expect(page.get_by_text("5 of 5 texts are missing or fuzzy.")).to_be_visible()
        page.get_by_label("Language of texts").first.select_option("de")
        expect(page.get_by_text("4 of 5 texts are missing or fuzzy.")).to_be_visible()
        hello = row(shown, "Hello! Which day suits you?")
        expect(hello.get_by_role("textbox")).to_have_value("Hallo! Welcher Tag passt Ihnen?")
        expect(hello.locator(".fault")).to_have_count(0)
        expect(row(shown, "Say goodbye").locator(".fault")).to_have_text("fuzzy")
        expect(row(shown, "Which day?").locator(".fault")).to_have_text("missing")
        page.get_by_label("Only missing and fuzzy ones").check()
        expect(shown.get_by_role("rowheader")).to_have_count(4)


def test_a_translation_is_saved_in_its_file_and_in_no_other(
    browser: Browser, address: str, parcel: Path
) -> None:
    before = parcel.read_bytes()
    with opened(browser, address, "parcel.json") as page:
        table(page).get_by_role("textbox", name=REPLY).fill('Ihr "Paket" kommt am {{ day }}.\n')
        expect(page.get_by_label("not saved")).to_be_visible()
        save(page, "Saved parcel.json, and parcel.de.po")
        expect(page.get_by_label("not saved")).to_have_count(0)
    assert 'msgstr "Ihr \\"Paket\\" kommt am {{ day }}.\\n"' in entry(
        parcel, "de", "/states/done/reply"
    )
    assert "Hallo! Welcher Tag" in entry(parcel, "de", "/states/day/purpose")
    assert parcel.read_bytes() == before
    assert not parcel.with_name("parcel.tr.po").exists()


def test_a_new_file_has_every_text_as_texts_update_writes_it(
    browser: Browser, address: str, parcel: Path
) -> None:
    with opened(browser, address, "parcel.json") as page:
        table(page).get_by_role("textbox", name="/states/day/purpose in tr").fill("Hangi gün?")
        save(page, "Saved parcel.json, and parcel.tr.po")
    written = parcel.with_name("parcel.tr.po").read_text(encoding="utf-8")
    assert written.count("msgctxt") == 5
    assert 'msgstr "Hangi gün?"' in entry(parcel, "tr", "/states/day/purpose")


def test_a_fuzzy_text_that_is_right_is_marked_so_and_undo_takes_it_back(
    browser: Browser, address: str, parcel: Path
) -> None:
    with opened(browser, address, "parcel.json") as page:
        shown = table(page)
        goodbye = row(shown, "Say goodbye")
        right = goodbye.get_by_role("button", name="It is right: /states/done/purpose in de")
        right.click()
        expect(right).to_have_count(0)
        save(page, "Saved parcel.json, and parcel.de.po")
        assert "fuzzy" not in entry(parcel, "de", "/states/done/purpose")
        page.get_by_role("button", name="Undo").click()
        expect(right).to_be_visible()
        save(page, "Saved parcel.json, and parcel.de.po")
    assert "#, fuzzy" in entry(parcel, "de", "/states/done/purpose")


def test_undo_and_redo_go_through_translations_and_other_fields_in_order(
    browser: Browser, address: str, parcel: Path
) -> None:
    with opened(browser, address, "parcel.json") as page:
        field = table(page).get_by_role("textbox", name=REPLY)
        field.fill("Paket am {{ day }}.")
        field.blur()
        page.get_by_role("button", name="Machine", exact=True).or_(
            page.get_by_label("name", exact=True)
        ).first.click()
        page.get_by_label("name", exact=True).fill("box")
        page.get_by_label("name", exact=True).blur()
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_label("name", exact=True)).to_have_value("parcel")
        expect(field).to_have_value("Paket am {{ day }}.")
        page.get_by_role("button", name="Undo").click()
        expect(field).to_have_value("")
        expect(page.get_by_label("not saved")).to_have_count(0)
        page.get_by_role("button", name="Redo").click()
        expect(field).to_have_value("Paket am {{ day }}.")


def test_a_crash_loses_no_translation(browser: Browser, address: str, parcel: Path) -> None:
    with opened(browser, address, "parcel.json") as page:
        shown = table(page)
        shown.get_by_role("textbox", name="/states/done/purpose in tr").fill("Hoşça kalın")
        shown.get_by_role("textbox", name="/states/done/purpose in tr").blur()
        shown.get_by_role("textbox", name=REPLY).fill("Paket am {{ day }}.")
        page.on("dialog", lambda dialog: dialog.accept())
        page.reload()
        page.get_by_role("button", name="Take it up").click()
        shown = table(page)
        expect(shown.get_by_role("textbox", name=REPLY)).to_have_value("Paket am {{ day }}.")
        save(page, "Saved parcel.json, and parcel.de.po, parcel.tr.po")
    assert "Paket am" in entry(parcel, "de", "/states/done/reply")
    assert "Hoşça kalın" in entry(parcel, "tr", "/states/done/purpose")


def test_a_translation_follows_a_renamed_state_and_is_fuzzy(
    browser: Browser, address: str, parcel: Path
) -> None:
    with opened(browser, address, "parcel.json") as page:
        shown = table(page)
        shown.get_by_role("textbox", name=REPLY).fill("Paket am {{ day }}.")
        row(shown, "Your parcel comes on {{ day }}.").get_by_role("button").first.click()
        page.get_by_role("button", name="Rename").click()
        page.get_by_role("dialog").get_by_label("New name").fill("end")
        page.get_by_role("dialog").get_by_role("button", name="Rename").click()
        field = shown.get_by_role("textbox", name="/states/end/reply in de")
        expect(field).to_have_value("Paket am {{ day }}.")
        save(page, "Saved parcel.json, and parcel.de.po")
    written = entry(parcel, "de", "/states/end/reply")
    assert "#, fuzzy" in written
    assert "Paket am {{ day }}." in written


def test_a_picked_language_shows_the_text_fields_of_a_state_in_it(
    browser: Browser, address: str, parcel: Path
) -> None:
    with opened(browser, address, "parcel.json") as page:
        page.get_by_role("navigation", name="Views").get_by_role("button", name="Outline").click()
        rows = page.get_by_role("list", name="States").get_by_role("button")
        rows.filter(has=page.locator("b", has_text="day")).click()
        panel = page.get_by_role("complementary", name="Side panel")
        expect(panel.get_by_label("Language of texts").locator("option")).to_have_text(
            ["en, its own", "de", "tr"]
        )
        panel.get_by_label("Language of texts").select_option("de")
        field = panel.get_by_label("purpose de")
        expect(field).to_have_value("Hallo! Welcher Tag passt Ihnen?")
        expect(panel.get_by_text("Hello! Which day suits you?")).to_be_visible()
        field.fill("Wann?")
        save(page, "Saved parcel.json, and parcel.de.po")
        panel.get_by_label("Language of texts").select_option("")
        expect(panel.get_by_label("purpose", exact=True)).to_have_value(
            "Hello! Which day suits you?"
        )
    assert 'msgstr "Wann?"' in entry(parcel, "de", "/states/day/purpose")


def test_a_finding_leads_to_its_row_and_follows_what_is_typed(
    browser: Browser, address: str, parcel: Path
) -> None:
    with opened(browser, address, "parcel.json") as page:
        findings = page.get_by_role("region", name="Findings")
        page.get_by_role("tab", name="Findings").click()
        findings.get_by_role("button", name='a text is missing in "de": "Your parcel').click()
        field = page.get_by_role("table", name="Texts").get_by_role("textbox", name=REPLY)
        expect(field).to_be_focused()
        page.keyboard.type("Ihr Paket kommt.")
        page.keyboard.press("Tab")
        lost = findings.get_by_role("button", name='the text in "de" does not show "day"')
        expect(lost).to_be_visible()
        expect(findings.get_by_text('missing in "de": "Your parcel')).to_have_count(0)
        lost.click()
        expect(field).to_be_focused()
        findings.get_by_role("button", name="this text is fuzzy: /states/done/purpose").click()
        expect(page.get_by_role("textbox", name="/states/done/purpose in de")).to_be_focused()


def test_a_file_that_cannot_be_read_is_named_and_nothing_is_written(
    browser: Browser, address: str, parcel: Path
) -> None:
    with opened(browser, address, "parcel.json") as page:
        table(page).get_by_role("textbox", name=REPLY).fill("Paket am {{ day }}.")
        write(parcel.with_name("parcel.de.po"), "Guten Tag\n")
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text("this is no gettext file")
        expect(page.get_by_label("not saved")).to_be_visible()
    assert parcel.with_name("parcel.de.po").read_text(encoding="utf-8") == "Guten Tag\n"


def test_a_definition_in_one_language_asks_for_no_texts(
    browser: Browser, address: str, parcel: Path
) -> None:
    write(parcel, json.dumps({**PARCEL, "languages": []}))
    asked: list[str] = []
    with opened(browser, address, "parcel.json") as page:
        page.on("request", lambda request: asked.append(request.url))
        page.get_by_role("tab", name="Findings").click()
        expect(page.get_by_text("Nothing is wrong with this machine.")).to_be_visible()
        views = page.get_by_role("navigation", name="Views")
        expect(views.get_by_role("button", name="Languages", exact=True)).to_have_count(0)
    assert [url for url in asked if url.endswith("/texts")] == []


def test_on_a_phone_each_text_stands_above_its_translations(
    browser: Browser, address: str, parcel: Path
) -> None:
    with opened(browser, address, "parcel.json", viewport=NARROW) as page:
        shown = table(page)
        hello = row(shown, "Hello! Which day suits you?")
        own = hello.get_by_text("Hello! Which day suits you?").bounding_box()
        german = hello.get_by_role("textbox", name="/states/day/purpose in de").bounding_box()
        assert own is not None
        assert german is not None
        assert german["y"] >= own["y"] + own["height"]
        assert german["x"] + german["width"] <= NARROW["width"]
