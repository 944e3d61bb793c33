"""Prepare `docs/` for zensical: copy it, take the marks of generated parts away, and copy files that its pages
link to.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from website.generated import for_site

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PREPARED = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"
SHIM = Path(__file__).resolve().parent / "iframe-worker.js"
# The folder of the site for files that pages link to and that are no pages.
FILES = "files"

_LINK = re.compile(r"(\]\()(?!https?:|mailto:|#)([^)#\s]+)((?:#[^)\s]*)?\))")
_FENCED = re.compile(
    r"^(?P<ticks>`{3,})(?P<language>\w*)[^\n]*(?P<text>\n.*?^(?P=ticks))$", re.MULTILINE | re.DOTALL
)


def prepare() -> None:
    """Write `build/docs` anew from `docs/`."""
    shutil.rmtree(PREPARED, ignore_errors=True)
    shutil.copytree(DOCS, PREPARED)
    for page in sorted(PREPARED.rglob("*.md")):
        source = DOCS / page.relative_to(PREPARED)
        page.write_text(page_text(source), encoding="utf-8")
    scripts = PREPARED / "assets" / "javascripts"
    scripts.mkdir(parents=True)
    shutil.copy2(SHIM, scripts / SHIM.name)


def page_text(source: Path) -> str:
    """Return the text of a page of `docs/` as the site has it."""
    text = for_site(source.read_text(encoding="utf-8"))
    parts: list[str] = []
    end = 0
    for block in _FENCED.finditer(text):
        parts.append(_with_copies(text[end : block.start()], source))
        # Words after the language are for tests, and the site would take them for attributes.
        parts.append(f"{block['ticks']}{block['language']}{block['text']}")
        end = block.end()
    parts.append(_with_copies(text[end:], source))
    return "".join(parts)


def _with_copies(text: str, source: Path) -> str:
    """Return the text with links to files outside `docs/` led to copies in the site."""

    def led(found: re.Match[str]) -> str:
        target = (source.parent / found[2]).resolve()
        if target.is_relative_to(DOCS):
            return found[0]
        copied = _copy(target)
        here = (PREPARED / source.relative_to(DOCS)).parent
        return f"{found[1]}{os.path.relpath(copied, here)}{found[3]}"

    return _LINK.sub(led, text)


def _copy(target: Path) -> Path:
    """Copy a file of the repository into the site, and return its place there.

    Raises FileNotFoundError if there is no such file. A Markdown file becomes a text file, because
    it is no page.
    """
    if target.is_dir():
        target = target / "README.md"
    place = PREPARED / FILES / target.relative_to(ROOT)
    if place.suffix in (".md", ".py", ".json"):
        place = place.with_name(f"{place.name}.txt")
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(target, place)
    return place
