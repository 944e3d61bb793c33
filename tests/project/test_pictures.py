"""The pictures of the pages: each one exists at the place that the page names, and has words for
those who see none.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MARKDOWN = re.compile(r"!\[(?P<alt>[^]]*)\]\((?P<target>[^)\s]+)\)")
TAG = re.compile(r"<(?:img|source)\b[^>]*>")
PLACE = re.compile(r'\b(?:src|srcset)="([^"]+)"')
ALT = re.compile(r'\balt="([^"]+)"')


def targets(text: str) -> list[str]:
    """Return the places of all pictures of a page."""
    tags = [place for tag in TAG.findall(text) for place in PLACE.findall(tag)]
    return [*tags, *(found["target"] for found in MARKDOWN.finditer(text))]


def silent(text: str) -> list[str]:
    """Return the pictures without an alternative text."""
    tags = [tag for tag in TAG.findall(text) if tag.startswith("<img") and not ALT.search(tag)]
    return [*tags, *(found[0] for found in MARKDOWN.finditer(text) if not found["alt"].strip())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_picture_of_a_page_exists_and_has_an_alternative_text(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [
        place
        for place in targets(text)
        if "://" not in place and not (page.parent / place).is_file()
    ] == []
    assert silent(text) == []


def test_every_picture_is_on_a_page() -> None:
    shown = {
        (page.parent / place).resolve()
        for page in PAGES
        for place in targets(page.read_text(encoding="utf-8"))
    }
    kept = {*(ROOT / "docs" / "pictures").iterdir(), *(ROOT / "docs" / "benchmarks").glob("*.png")}
    assert kept - shown == set()


def test_a_picture_without_words_or_file_is_found() -> None:
    text = '<source srcset="a.png"><img src="b.png">\n![](c.svg)\n![Words](d.svg)'
    assert targets(text) == ["a.png", "b.png", "c.svg", "d.svg"]
    assert silent(text) == ['<img src="b.png">', "![](c.svg)"]
