"""The page of the studio, in a real browser: files, views, one undo stack."""

import gzip
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from studio_page import opened

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "src" / "llm_fsm" / "editor" / "static"
FIRST_LOAD = 300_000


@pytest.fixture
def order(folder: Path) -> Path:
    """A shipped definition, fresh."""
    for path in folder.iterdir():
        path.unlink()
    return Path(shutil.copy(ROOT / "fsm_definitions" / "order.json", folder))


def view(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Views").get_by_role("button", name=name).click()


def save(page: Page) -> None:
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved order.json")).to_be_visible()


def type_at_line(page: Page, line: str, text: str) -> None:
    """Type a text at the end of the line that has `line` in it."""
    page.locator(".cm-line", has_text=line).first.click()
    page.keyboard.press("End")
    page.keyboard.type(text)


def test_first_load_is_small() -> None:
    files = [path for path in STATIC.rglob("*") if path.suffix in {".js", ".css", ".html"}]
    assert sum(len(gzip.compress(path.read_bytes(), 9)) for path in files) <= FIRST_LOAD


def test_the_page_is_sent_compressed(address: str) -> None:
    base, _, _ = address.partition("#")
    for name in ("index.js", "index.css"):
        whole = (STATIC / "assets" / name).stat().st_size
        with httpx.Client(base_url=base, headers={"Accept-Encoding": "gzip"}) as client:
            answer = client.get(f"/assets/{name}")
        assert answer.headers["Content-Encoding"] == "gzip"
        assert len(answer.content) == whole
        assert answer.num_bytes_downloaded < whole / 2


def test_modules_of_the_page_stay_small() -> None:
    sources = [path for path in (ROOT / "web" / "src").rglob("*") if path.suffix in {".ts", ".tsx"}]
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in sources}
    assert {name: count for name, count in lines.items() if count > 400} == {}
    assert sum(lines.values()) <= 7_500


def test_types_of_the_page_are_those_of_the_api() -> None:
    script = ROOT / "web" / "scripts" / "api_types.py"
    made = subprocess.run(
        [sys.executable, str(script)], check=True, capture_output=True, text=True
    ).stdout
    assert (ROOT / "web" / "src" / "api" / "types.ts").read_text(encoding="utf-8") == made


def test_page_asks_no_other_server(browser: Browser, address: str, order: Path) -> None:
    asked: list[str] = []
    with opened(browser, address) as page:
        page.on("request", lambda request: asked.append(request.url))
        page.get_by_role("button", name="order.json").click()
        expect(page.get_by_role("navigation", name="Views")).to_be_visible()
        view(page, "Text")
        expect(page.get_by_label("Text of the definition")).to_be_visible()
    base = address.partition("#")[0]
    assert asked
    assert all(url.startswith((base, "data:", "blob:")) for url in asked)


def test_open_and_save_gives_the_same_bytes_but_for_the_typed_ones(
    browser: Browser, address: str, order: Path
) -> None:
    before = order.read_text(encoding="utf-8")
    with opened(browser, address, "order.json") as page:
        view(page, "Text")
        type_at_line(page, '"persona"', " ")
        save(page)
    after = order.read_text(encoding="utf-8")
    assert len(after) == len(before) + 1
    assert after.replace('pizzeria.", \n', 'pizzeria.",\n') == before


def test_undo_leads_back_to_the_saved_point(browser: Browser, address: str, order: Path) -> None:
    with opened(browser, address, "order.json") as page:
        view(page, "Text")
        type_at_line(page, '"persona"', " ")
        expect(page.get_by_label("not saved")).to_be_visible()
        view(page, "Outline")
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_label("not saved")).to_have_count(0)
        expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()


def test_file_that_changed_on_disk_shows_both_versions(
    browser: Browser, address: str, order: Path
) -> None:
    other = order.read_text(encoding="utf-8").replace("pizzeria", "trattoria")
    with opened(browser, address, "order.json") as page:
        view(page, "Text")
        type_at_line(page, '"persona"', " ")
        order.write_text(other, encoding="utf-8")
        page.get_by_role("button", name="Save", exact=True).click()
        dialog = page.get_by_role("alertdialog", name="The file changed on disk")
        expect(dialog.get_by_role("region", name="On disk")).to_contain_text("trattoria")
        expect(dialog.get_by_role("region", name="Yours")).to_contain_text("pizzeria")
        assert order.read_text(encoding="utf-8") == other
        dialog.get_by_role("button", name="Write mine").click()
        expect(page.get_by_text("Saved order.json")).to_be_visible()
    assert "pizzeria" in order.read_text(encoding="utf-8")


def test_draft_is_offered_after_the_page_crashed(
    browser: Browser, address: str, order: Path
) -> None:
    with opened(browser, address, "order.json") as page:
        view(page, "Text")
        type_at_line(page, '"persona"', " ")
        expect(page.get_by_label("not saved")).to_be_visible()
        page.on("dialog", lambda dialog: dialog.accept())
        page.reload()
        page.get_by_role("button", name="Take it up").click()
        expect(page.get_by_label("not saved")).to_be_visible()
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_label("not saved")).to_have_count(0)


def test_text_that_is_no_json_opens_at_the_fault(
    browser: Browser, address: str, order: Path
) -> None:
    order.write_text('{"name": "order",\n "states": {]}', encoding="utf-8")
    with opened(browser, address, "order.json") as page:
        expect(page.get_by_label("Text of the definition")).to_be_focused()
        expect(page.get_by_text("1 error")).to_be_visible()
        expect(page.locator(".cm-lintRange-error")).to_have_count(1)
