"""Measure how much code there is and how dense it is: by its syntax tree, not by its lines."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Density:
    """Figures of one module or one room.

    `nodes`: statements and expressions, without constants and docstrings. `statements`: those of
    them that are statements. `nested`: conditional expressions inside another one. `double`:
    comprehensions with two loops or two tests.
    """

    nodes: int = 0
    statements: int = 0
    nested: int = 0
    double: int = 0

    def __add__(self, other: Density) -> Density:
        return Density(
            nodes=self.nodes + other.nodes,
            statements=self.statements + other.statements,
            nested=self.nested + other.nested,
            double=self.double + other.double,
        )

    @property
    def nodes_a_statement(self) -> float:
        """Nodes a statement."""
        return self.nodes / max(self.statements, 1)


def density(source: str) -> Density:
    """Measure the source of one module."""
    counts = Counter(_features(ast.parse(source)))
    return Density(
        nodes=counts["node"],
        statements=counts["statement"],
        nested=counts["nested"],
        double=counts["double"],
    )


def density_of(folder: Path) -> Density:
    """Measure every module in a folder, or one file."""
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]
    total = Density()
    for file in files:
        total += density(file.read_text())
    return total


def _features(tree: ast.AST) -> Iterator[str]:
    docstrings = set(_docstrings(tree))
    for node in ast.walk(tree):
        if node in docstrings or isinstance(node, ast.Constant):
            continue
        if isinstance(node, ast.stmt):
            yield "statement"
        if isinstance(node, ast.stmt | ast.expr):
            yield "node"
        if isinstance(node, _COMPREHENSIONS) and _is_double(node.generators):
            yield "double"
        if isinstance(node, ast.IfExp) and _holds_conditional(node):
            yield "nested"


def _holds_conditional(node: ast.AST) -> bool:
    return any(isinstance(inner, ast.IfExp) for inner in ast.walk(node) if inner is not node)


def _is_double(loops: list[ast.comprehension]) -> bool:
    tests = sum(len(loop.ifs) for loop in loops)
    return len(loops) > 1 or tests > 1


def _docstrings(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield texts that are statements: docstrings, also those of attributes."""
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text and isinstance(node.value.value, str):
            yield node
