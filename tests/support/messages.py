"""Find the texts of messages in the source: what a call gets as text, with one word for each
inserted value.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def texts_of_calls(source: Path) -> Iterator[tuple[str, str]]:
    """Yield (place, text) of each text that a call in a folder of modules gets as argument."""
    for path in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                for given in (*node.args, *(keyword.value for keyword in node.keywords)):
                    text = text_of(given)
                    if text is not None:
                        yield f"{path.relative_to(source)}:{given.lineno}", text


def text_of(node: ast.expr) -> str | None:
    """Return a text as its reader sees it, with X for each value; None for what is no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = text_of(node.left), text_of(node.right)
        return None if left is None and right is None else f"{left or 'X'}{right or 'X'}"
    return None
