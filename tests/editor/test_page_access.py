"""Every view of the studio, light and dark, wide and narrow, under axe-core (tests/data/axe)."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from studio_page import NARROW, WIDE, opened

ROOT = Path(__file__).parents[2]
AXE = (ROOT / "tests" / "data" / "axe" / "axe.min.js").read_text(encoding="utf-8")
RUN = "() => axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the studio at `address`, with a shipped definition."""
    bots = tmp_path_factory.mktemp("bots")
    for path in (ROOT / "fsm_definitions").glob("appointment.*"):
        shutil.copy(path, bots)
    shutil.copy(ROOT / "fsm_definitions" / "order.json", bots)
    release = {"release": "order", "stable": "order.json", "candidate": "order.json", "share": 0.1}
    (bots / "order.release.json").write_text(json.dumps(release), encoding="utf-8")
    return bots


def faults(page: Page) -> list[Any]:
    """Return the serious findings of axe on the page as it is."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE)
    found = page.evaluate(RUN)["violations"]
    return [
        (
            one["id"],
            one["help"],
            [node["html"][:200] + " :: " + node["failureSummary"] for node in one["nodes"][:3]],
        )
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_no_view_has_a_serious_fault(
    browser: Browser, address: str, size: dict[str, int], colours: str
) -> None:
    with opened(browser, address, viewport=size, color_scheme=colours) as page:
        expect(page.get_by_role("list", name="Releases")).to_be_visible()
        assert faults(page) == []
        page.get_by_role("button", name="order.json").click()
        for name in ("Canvas", "Outline", "Text", "Changes"):
            page.get_by_role("navigation", name="Views").get_by_role("button", name=name).click()
            expect(page.get_by_role("main", name=name)).to_be_visible()
            if name == "Text":
                expect(page.get_by_label("Text of the definition")).to_be_visible()
            assert faults(page) == [], name
        page.keyboard.press("Control+k")
        expect(page.get_by_role("dialog")).to_be_visible()
        assert faults(page) == [], "Find"
        page.keyboard.type("confirm")
        page.keyboard.press("Enter")
        if size is NARROW:
            page.get_by_role("navigation", name="Panels").get_by_role(
                "button", name="Details"
            ).click()
        for name in ("Details", "Talk", "Findings", "Tests"):
            page.get_by_role("tab", name=name).click()
            assert faults(page) == [], name


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_table_of_texts_has_no_serious_fault(
    browser: Browser, address: str, size: dict[str, int], colours: str
) -> None:
    with opened(browser, address, "appointment.json", viewport=size, color_scheme=colours) as page:
        page.get_by_role("button", name="Languages", exact=True).click()
        expect(page.get_by_role("table", name="Texts")).to_be_visible()
        assert faults(page) == []
