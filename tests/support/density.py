"""Measure how densely code is written: by its syntax tree, not by its lines."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

LONGEST_LINE = 100
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_NO_CODE = frozenset(
    {
        *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
        *(tokenize.ENCODING, tokenize.ENDMARKER),
    }
)


@dataclass(frozen=True)
class Density:
    """Figures of one module or one room.

    `nodes`: statements and expressions, without constants and docstrings. `code_lines`: lines that
    hold code, so no docstring, comment or blank. `nested`: conditional expressions inside another
    one. `double`: comprehensions with two loops or two tests. `long`: lines of more than 100
    characters, published texts aside.
    """

    nodes: int = 0
    code_lines: int = 0
    comprehensions: int = 0
    conditionals: int = 0
    nested: int = 0
    double: int = 0
    long: int = 0

    def __add__(self, other: Density) -> Density:
        return Density(
            nodes=self.nodes + other.nodes,
            code_lines=self.code_lines + other.code_lines,
            comprehensions=self.comprehensions + other.comprehensions,
            conditionals=self.conditionals + other.conditionals,
            nested=self.nested + other.nested,
            double=self.double + other.double,
            long=self.long + other.long,
        )

    @property
    def nodes_a_line(self) -> float:
        """Nodes a code line."""
        return self.nodes / max(self.code_lines, 1)

    def per_thousand(self, count: int) -> float:
        """Return a count per 1,000 code lines."""
        return 1000 * count / max(self.code_lines, 1)


def density(source: str) -> Density:
    """Measure the source of one module."""
    tree = ast.parse(source)
    docstrings = set(_docstrings(tree))
    within_docstrings = _lines_of(docstrings)
    long = {number for number, line in enumerate(source.split("\n"), 1) if len(line) > LONGEST_LINE}
    counts = Counter(_features(tree, docstrings))
    return Density(
        nodes=counts["node"],
        code_lines=len(_code_lines(source) - within_docstrings),
        comprehensions=counts["comprehension"],
        conditionals=counts["conditional"],
        nested=counts["nested"],
        double=counts["double"],
        long=len(long - _lines_of(_published(tree, docstrings))),
    )


def density_of(folder: Path) -> Density:
    """Measure every module in a folder, or one file."""
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]
    total = Density()
    for file in files:
        total += density(file.read_text())
    return total


def _features(tree: ast.AST, docstrings: set[ast.AST]) -> Iterator[str]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.stmt | ast.expr)
            and not isinstance(node, ast.Constant)
            and node not in docstrings
        ):
            yield "node"
        if isinstance(node, _COMPREHENSIONS):
            yield "comprehension"
            if _is_double(node.generators):
                yield "double"
        if isinstance(node, ast.IfExp):
            yield "conditional"
            if _holds_conditional(node):
                yield "nested"


def _holds_conditional(node: ast.AST) -> bool:
    return any(isinstance(inner, ast.IfExp) for inner in ast.walk(node) if inner is not node)


def _is_double(loops: list[ast.comprehension]) -> bool:
    tests = sum(len(loop.ifs) for loop in loops)
    return len(loops) > 1 or tests > 1


def _docstrings(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield texts that are statements: docstrings, also those of attributes."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node


def _published(tree: ast.AST, docstrings: set[ast.AST]) -> Iterator[ast.AST]:
    """Yield the texts that readers get line by line: pages of rules, prompts, and other texts of
    several lines.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and _is_rule(node):
            yield node.body[0]
    inner = {child for docstring in docstrings for child in ast.walk(docstring)}
    for node in ast.walk(tree):
        is_text = (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inner
        )
        if is_text and "\n" in node.value and node.end_lineno != node.lineno:
            yield node


def _is_rule(function: ast.FunctionDef) -> bool:
    return any("lint_rule" in ast.unparse(decorator) for decorator in function.decorator_list)


def _lines_of(nodes: Iterable[ast.AST]) -> set[int]:
    lines: set[int] = set()
    for node in nodes:
        lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def _code_lines(source: str) -> set[int]:
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines
