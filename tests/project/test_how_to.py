"""The how-to pages: each has a title that one would search, and what a test cannot run has the
right options.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from llm_fsm.cli.group import group
from paths import ROOT

PAGES = sorted((ROOT / "docs" / "how-to").glob("*.md"))
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
MOST_LINES = 110


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the arguments of each `llm-fsm …` in an indented block: it needs a key, a server, or
    somebody's site.
    """
    text = FENCED.sub("", page.read_text(encoding="utf-8")).replace("\\\n", " ")
    for line in re.findall(r"^ {4,}(.*\bllm-fsm .*)$", text, re.MULTILINE):
        for part in re.split(r"\s(?:\||&&|>)\s", line):
            words = shlex.split(part, comments=True)
            if "llm-fsm" in words and "docker" not in words:
                yield words[words.index("llm-fsm") + 1 :]


def check(words: list[str]) -> None:
    """Read the arguments as the command would. Raises click.UsageError."""
    command: click.Command = group
    context = click.Context(command)
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        assert found is not None, words
        command, words = found, words[1:]
        context = click.Context(command)
    command.make_parser(context).parse_args(list(words))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_a_page_cannot_run_has_options_that_exist(page: Path) -> None:
    for words in commands(page):
        check(words)


def test_an_option_that_does_not_exist_is_found() -> None:
    check(["evaluate", "bots", "--model", "offline"])
    with pytest.raises(click.UsageError):
        check(["evaluate", "bots", "--modle", "offline"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_short_and_is_in_the_menu(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert len(text.splitlines()) <= MOST_LINES
    menu = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    tomllib.loads(menu)
    assert f'"how-to/{page.name}"' in menu


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_are_short(page: Path) -> None:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    prose = re.sub(r"^(?: {4}|\||#|<!--).*$", "", text, flags=re.MULTILINE)
    prose = re.sub(r"\]\([^)]*\)", "]", prose)
    prose = re.sub(r"`[^`]*`", "code", prose)
    sentences = re.split(r"(?<=[.!?:])\s+|\n\n|\n- |\n\d\. ", prose)
    assert [one for one in sentences if len(one.split()) > 22] == []
