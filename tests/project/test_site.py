"""The site of the documents: it builds strictly, reaches every page, and works from a folder
without network.
"""

from __future__ import annotations

import html
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

import click
import pytest

import llm_fsm
from npm_client import run
from paths import ROOT
from website.generated import PARTS, SCHEMA, every_command, filled

BROWSER = ("playwright-core@1.65.1",)
# What a browser fetches by itself; a link that a person follows may lead outside.
FETCHED = re.compile(
    r"<(?:script|img|iframe|source|video)\b[^>]*\bsrc=\"([^\"]+)\"|<link\b[^>]*\bhref=\"([^\"]+)\""
)


def copied(folder: Path) -> Path:
    """A copy of the files that the site is made from."""
    skip = shutil.ignore_patterns(
        ".*", "__pycache__", "build", "tests", "benchmarks", "node_modules"
    )
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


def text_in(page: Path) -> str:
    """The Markdown of a page."""
    return page.read_text(encoding="utf-8")


def text_of(page: Path) -> str:
    """The words of a page."""
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


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
    assert shown == sorted(
        path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")
    )


def test_no_page_fetches_anything_from_outside(site: Path) -> None:
    for page in site.rglob("*.html"):
        fetched = [
            first or second for first, second in FETCHED.findall(page.read_text(encoding="utf-8"))
        ]
        assert [address for address in fetched if re.match(r"(?:https?:)?//", address)] == [], page


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    checkout = copied(tmp_path)
    # it takes ten seconds
    (checkout / "docs" / "reference" / "python.md").write_text("# Python\n", encoding="utf-8")
    with (checkout / "docs" / "glossary.md").open("a", encoding="utf-8") as page:
        page.write("\n[broken](no-such-page.md) and [broken](index.md#no-such-heading)\n")
    done = built(checkout)
    assert (done.returncode, (done.stdout + done.stderr).count("glossary.md:")) == (1, 2)


def test_the_site_opens_from_a_folder_searches_and_has_light_and_dark_colours(
    site: Path, chromium_path: str
) -> None:
    seen = json.loads(
        run("site_search.mjs", BROWSER, (site / "index.html").as_uri(), "digression", chromium_path)
    )
    assert (seen["outside"], seen["errors"], seen["fits"]) == ([], [], True)
    assert seen["light"] != seen["dark"]
    assert any("cancel-correct-repeat.html" in link for link in seen["links"])
    assert seen["title"]


WORDS = {
    "api key": "how-to/connect-a-model.html",
    "authentication": "internet.html",
    "azure": "how-to/connect-a-model.html",
    "call an api": "how-to/call-an-api.html",
    "debug": "how-to/why.html",
    "docker": "how-to/docker-and-health.html",
    "escalation": "how-to/hand-over.html",
    "faq": "how-to/answers-from-documents.html",
    "function calling": "tutorial/tool.html",
    "gdpr": "how-to/personal-data.html",
    "knowledge base": "how-to/answers-from-documents.html",
    "langgraph": "how-to/migrate-from-langgraph.html",
    "multi language": "how-to/another-language.html",
    "quick reply": "how-to/buttons.html",
    "rate limit": "how-to/costs.html",
    "reset": "how-to/cancel-correct-back.html",
    "slot filling": "reference/context-keys.html",
    "streaming": "how-to/stream-to-a-browser.html",
    "timeout": "models.html",
}
"""What newcomers type into the search, and a page that fits."""


def test_the_search_finds_a_fitting_page_for_the_words_of_newcomers_and_rules_last(
    site: Path, chromium_path: str
) -> None:
    address = (site / "index.html").as_uri()
    found = json.loads(run("site_words.mjs", BROWSER, address, chromium_path, *WORDS, "F103"))
    assert {
        word: found[word][:3] for word, page in WORDS.items() if page not in found[word][:3]
    } == {}
    assert [word for word in WORDS if "rules.html" in found[word][:3]] == []
    assert found["F103"] == ["rules.html"]


def test_every_page_says_what_else_its_topic_is_called() -> None:
    silent = [
        page.relative_to(ROOT / "docs").as_posix()
        for page in (ROOT / "docs").rglob("*.md")
        if "\n\nAlso called: " not in text_in(page)
    ]
    assert sorted(silent) == [
        "LLM_GUIDE.md",
        "WORKFLOW_GUIDE.md",
        "explanation/index.md",
        "how-to/index.md",
        "reference/index.md",
    ]


def test_the_command_line_is_whole(site: Path) -> None:
    page = text_of(site / "reference" / "command-line.html")
    for path, command in every_command():
        assert f">{path}<" in (site / "reference" / "command-line.html").read_text(
            encoding="utf-8"
        ), path
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.opts[0] in page, f"{path}: {option.opts}"
                assert option.help, f"{path}: {option.opts}"


def test_the_format_is_whole_and_each_key_has_a_meaning(site: Path) -> None:
    page = text_of(site / "reference" / "format.html")
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    for name, found in (("Definition", schema), *schema["$defs"].items()):
        for key, value in found.get("properties", {}).items():
            assert value.get("description"), f"{name}.{key}"
            assert key in page, f"{name}.{key}"


def test_every_exported_name_has_its_docstring_in_the_reference(site: Path) -> None:
    page = (site / "reference" / "python.html").read_text(encoding="utf-8")
    exported = [name for name in llm_fsm.__all__ if name != "__version__"]
    assert [name for name in exported if f'id="llm_fsm.{name}"' not in page] == []
    assert [name for name in exported if not getattr(llm_fsm, name).__doc__] == []


@pytest.mark.parametrize("part", PARTS)
def test_the_generated_parts_of_the_checkout_are_those_of_the_code(part: str) -> None:
    [page] = [
        page for page in (ROOT / "docs").rglob("*.md") if f"generated: {part} -->" in text_in(page)
    ]
    assert filled(text_in(page)) == text_in(page), "run `python -m website.generated`"


def test_the_reference_says_the_same_whoever_asked_a_command_for_its_help_before() -> None:
    for _, command in every_command():
        command.get_help(click.Context(command))
    page = ROOT / "docs" / "reference" / "command-line.md"
    assert filled(text_in(page)) == text_in(page)


def test_no_marker_of_a_generated_part_is_left(site: Path) -> None:
    assert [
        page.name
        for page in site.rglob("*.html")
        if "generated:" in page.read_text(encoding="utf-8")
    ] == []
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
    assert sorted(set(re.findall(r"<!-- generated: ([\w-]+) -->", text))) == sorted(PARTS)


def test_every_picture_has_a_text_and_is_there() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        shown = re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", text)
        shown += [
            (alt, src)
            for src, alt in re.findall(r"<img src=\"([^\"]+)\"[^>]*alt=\"([^\"]*)\"", text)
        ]
        assert text.count("<img ") == text.count("alt=")
        for alternative, place in shown:
            assert (page.parent / place).is_file(), f"{page.name}: {place}"
            assert len(alternative.split()) >= 2, f"{page.name}: {place}"


def test_pictures_load_nothing_from_outside() -> None:
    for picture in (ROOT / "docs" / "pictures").glob("*.svg"):
        text = picture.read_text(encoding="utf-8")
        assert not re.findall(r"(?:url\(|href=\"|@import\W+)(?:https?:)?//", text), picture.name


def test_the_list_for_models_leads_to_pages() -> None:
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "docs" / "llms.txt").read_text(encoding="utf-8"))
    assert len(links) > 10
    assert [link for link in links if not (ROOT / "docs" / link).is_file()] == []
