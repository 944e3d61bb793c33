"""Read the sentences and table cells of a Markdown page, as a reader sees them.

Code blocks, headings, comments, HTML and the targets of links are no prose. A code span is one
word. A list item, a paragraph and a table cell each end a sentence; a colon does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

MOST_WORDS = 20
MOST_WORDS_IN_A_CELL = 40

_FENCED = re.compile(r"^( *)```.*?^\1```[ ]*$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FRONT_MATTER = re.compile(r"\A---\n.*?^---\n", re.MULTILINE | re.DOTALL)
_LIST_ITEM = re.compile(r"^ *(?:[-*+]|\d+\.)[ ]+")
_INDENTED_CODE = re.compile(r"^(?: {4}|\t)")
_CODE_IN_A_LIST = re.compile(r"^ {6}")
_CODE_SPAN = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_IMAGE = re.compile(r"!\[(?P<text>[^]]*)\]\([^)]*\)")
_LINK = re.compile(r"\[(?P<text>[^]]*)\](?:\([^)]*\)|\[[^]]*\])")
_TAG = re.compile(r"</?[A-Za-z][^>]*>|<https?:[^>]*>")
_CELL = re.compile(r"(?<!\\)\|")
_SHORT_FORM = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|ca|No|St|Mr|Ms|Dr)\.(?=\s)")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"”’»*_)\]]*\s+")
_WORD = re.compile(r"\w")


def sentences(page: str) -> list[str]:
    """Return the sentences of the running text and of the list items."""
    return [sentence for block in _blocks(page) for sentence in _split(block)]


def long_sentences(page: str) -> list[str]:
    """Return the sentences with more words than a reader holds."""
    return [sentence for sentence in sentences(page) if words(sentence) > MOST_WORDS]


def cells(page: str) -> list[str]:
    """Return the cells of all tables; a code span is one word there, too."""
    lines = _without_code(page).splitlines()
    rows = (line.strip().strip("|") for line in lines if line.lstrip().startswith("|"))
    return [cell.strip() for row in rows for cell in _CELL.split(row)]


def long_cells(page: str) -> list[str]:
    """Return the table cells with more words than a reader takes in beside other cells."""
    return [cell for cell in cells(page) if words(cell) > MOST_WORDS_IN_A_CELL]


def words(text: str) -> int:
    """Count words: a code span is one, a dash alone is none."""
    return sum(1 for word in text.split() if _WORD.search(word))


def _without_code(page: str) -> str:
    page = _FRONT_MATTER.sub("", page)
    page = _COMMENT.sub("", _FENCED.sub("\n", page))
    page = _CODE_SPAN.sub("CODE", page)
    page = _IMAGE.sub("", page)
    page = _LINK.sub(lambda found: found["text"], page)
    return _TAG.sub("", page)


def _blocks(page: str) -> Iterator[str]:
    """Yield paragraphs and list items, each as one line."""
    block: list[str] = []
    in_list = False
    for line in [*_without_code(page).splitlines(), ""]:
        kind = _kind(line, in_list, bool(block))
        if kind != "text" and block:
            yield " ".join(block)
            block = []
        if line.startswith("#"):
            in_list = False
        if kind == "item":
            in_list = True
            block.append(_LIST_ITEM.sub("", line))
        elif kind == "text":
            in_list = in_list and (bool(block) or line.startswith(" "))
            block.append(line.strip().lstrip("> "))


def _kind(
    line: str, in_list: bool, in_block: bool
) -> Literal["blank", "table", "code", "item", "text"]:
    """Name what a line is. Indented lines are code unless they continue a paragraph or an item."""
    if not line.strip():
        return "blank"
    if line.lstrip().startswith(("|", "#")):
        return "table"
    code = _CODE_IN_A_LIST if in_list else _INDENTED_CODE
    if code.match(line) and not in_block:
        return "code"
    if _LIST_ITEM.match(line):
        return "item"
    return "text"


def _split(block: str) -> Iterator[str]:
    joined = _SHORT_FORM.sub(lambda found: found[1], block)
    for sentence in _SENTENCE_END.split(joined):
        if sentence.strip():
            yield sentence.strip()
