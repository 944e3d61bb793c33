"""The site of the documents: it builds strictly, reaches every page, and works from a folder without network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npm_client import run
from paths import ROOT

BROWSER = ("playwright-core@1.65.1",)
# What a browser fetches by itself; a link that a person follows may lead outside.
FETCHED = re.compile(r"<(?:script|img|iframe|source|video)\b[^>]*\bsrc=\"([^\"]+)\"|<link\b[^>]*\bhref=\"([^\"]+)\"")


def copied(folder: Path) -> Path:
    """A copy of the files that the site is made from."""
    skip = shutil.ignore_patterns(".*", "__pycache__", "build", "tests", "benchmarks", "node_modules")
    return Path(shutil.copytree(ROOT, folder / "checkout", ignore=skip))


def built(checkout: Path) -> subprocess.CompletedProcess[str]:
    """Build the site as `make docs` does."""
    return subprocess.run(
        (sys.executable, "-m", "website"),
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout / "src")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    checkout = copied(tmp_path_factory.mktemp("site"))
    done = built(checkout)
    assert done.returncode == 0, done.stdout + done.stderr
    return checkout / "build" / "site"


def listed(entries: list[Any]) -> Iterator[str]:
    """The pages of a navigation."""
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, list):
            yield from listed(entry)
        else:
            yield from listed(list(entry.values()))


def test_every_page_of_the_documents_is_in_the_navigation_once() -> None:
    with (ROOT / "zensical.toml").open("rb") as file:
        shown = sorted(listed(tomllib.load(file)["project"]["nav"]))
    assert shown == sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))


def test_no_page_fetches_anything_from_outside(site: Path) -> None:
    for page in site.rglob("*.html"):
        fetched = [first or second for first, second in FETCHED.findall(page.read_text(encoding="utf-8"))]
        assert [address for address in fetched if re.match(r"(?:https?:)?//", address)] == [], page


@pytest.mark.parametrize("target", ["no-such-page.md", "index.md#no-such-heading"])
def test_a_broken_link_fails_the_build(target: str, tmp_path: Path) -> None:
    checkout = copied(tmp_path)
    with (checkout / "docs" / "glossary.md").open("a", encoding="utf-8") as page:
        page.write(f"\n[broken]({target})\n")
    done = built(checkout)
    assert (done.returncode, "glossary.md" in done.stdout + done.stderr) == (1, True)


def test_the_site_opens_from_a_folder_searches_and_has_light_and_dark_colours(site: Path) -> None:
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    seen = json.loads(run("site_search.mjs", BROWSER, (site / "index.html").as_uri(), "digression", browser))
    assert (seen["outside"], seen["errors"], seen["fits"]) == ([], [], True)
    assert seen["light"] != seen["dark"]
    assert any("cancel-correct-repeat.html" in link for link in seen["links"])
    assert seen["title"]
