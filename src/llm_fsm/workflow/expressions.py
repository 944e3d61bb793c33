"""Turn checks that are short Python expressions into JsonLogic over {output}.

Only a fixed list of harmless syntax is read, and nothing is ever evaluated. If Python would raise
for a value of another type, the rule is false.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
from types import CodeType
from typing import Any

from llm_fsm.tools.returns import Function

Logic = Any

_ORDER: dict[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_EQUAL: dict[type[ast.cmpop], str] = {
    ast.Eq: "===",
    ast.NotEq: "!==",
    ast.Is: "===",
    ast.IsNot: "!==",
}
_SUMS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Mod: "%"}


class _CannotSay(Exception):
    """JsonLogic cannot express this."""


def lambda_to_logic(function: Function) -> Logic | None:
    """Return the rule of a lambda with one parameter; None if JsonLogic cannot express it."""
    node = _source_of(function)
    if node is None or len(node.args.args) != 1 or node.args.defaults:
        return None
    return _logic(node.body, node.args.args[0].arg)


def expression_to_logic(text: str) -> Logic | None:
    """Return the rule of an expression over `output`; None if JsonLogic cannot express it."""
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if isinstance(body, ast.Lambda):
        return _logic(body.body, body.args.args[0].arg) if len(body.args.args) == 1 else None
    return _logic(body, "output")


def _source_of(function: Function) -> ast.Lambda | None:
    """Find the lambda in its file that has the code of this function."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or code.co_freevars:
        return None
    try:
        tree = ast.parse(
            "".join(
                linecache.getlines(
                    inspect.getfile(function), getattr(function, "__globals__", None)
                )
            )
        )
    except (OSError, TypeError, SyntaxError, ValueError, RecursionError):
        return None
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno
    ]
    alike = [
        node for node in found if _code_of(node) == (code.co_code, code.co_consts, code.co_names)
    ]
    return alike[0] if alike else None


def _code_of(node: ast.Lambda) -> tuple[bytes, tuple[Any, ...], tuple[str, ...]] | None:
    made = compile(ast.Expression(body=node), "<check>", "eval")
    inner = next((one for one in made.co_consts if isinstance(one, CodeType)), None)
    return None if inner is None else (inner.co_code, inner.co_consts, inner.co_names)


def _logic(body: ast.expr, parameter: str) -> Logic | None:
    reader = _ExpressionReader(parameter)
    try:
        rule = reader.truth(body)
    except _CannotSay:
        return None
    return {"and": [*reader.guards, rule]} if reader.guards else rule


class _ExpressionReader:
    """Reads one expression. `guards` are conditions on values without which Python would raise."""

    def __init__(self, parameter: str) -> None:
        self.parameter = parameter
        self.guards: list[Logic] = []

    def truth(self, node: ast.expr) -> Logic:
        """Return an expression that is true or false."""
        match node:
            case ast.BoolOp(op, values):
                return {
                    "and" if isinstance(op, ast.And) else "or": [
                        self.truth(value) for value in values
                    ]
                }
            case ast.UnaryOp(ast.Not(), operand):
                return {"!": [self.truth(operand)]}
            case ast.Compare(left, ops, comparators):
                sides = [left, *comparators]
                parts = [
                    self.compared(sides[place], op, sides[place + 1])
                    for place, op in enumerate(ops)
                ]
                return parts[0] if len(parts) == 1 else {"and": parts}
            case ast.Call(ast.Attribute(text, "startswith"), [piece], []):
                return {"matches": [self.text(text), f"^{re.escape(_constant(piece))}"]}
            case ast.Call(ast.Attribute(text, "endswith"), [piece], []):
                return {"matches": [self.text(text), f"{re.escape(_constant(piece))}$"]}
        raise _CannotSay

    def compared(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Logic:
        if type(op) in _ORDER:
            return {_ORDER[type(op)]: [self.number(left), self.number(right)]}
        if isinstance(op, ast.In | ast.NotIn):
            inside = {"contains": [self.text(right), _constant(left)]}
            return {"!": [inside]} if isinstance(op, ast.NotIn) else inside
        return {_EQUAL[type(op)]: [self.value(left), self.value(right)]}

    def value(self, node: ast.expr) -> Logic:
        """Read any value."""
        if isinstance(node, ast.Constant) and isinstance(
            node.value, str | int | float | bool | None
        ):
            return node.value
        return self.path(node) or self.numeric(node) or self.textual(node)

    def number(self, node: ast.expr) -> Logic:
        match node:
            case ast.Constant(value) if type(value) in (int, float):
                return value
            case ast.UnaryOp(ast.USub(), operand):
                return {"-": [self.number(operand)]}
        found = self.path(node)
        if found is not None:
            return self.guarded(_is_number(found), found)
        found = self.numeric(node)
        if found is None:
            raise _CannotSay
        return found

    def numeric(self, node: ast.expr) -> Logic | None:
        """Return a length, a count, or a sum of numbers."""
        match node:
            case ast.BinOp(left, op, right) if type(op) in _SUMS:
                return {_SUMS[type(op)]: [self.number(left), self.number(right)]}
            case ast.Call(ast.Name("len"), [counted], []):
                found = self.path(counted)
                if found is None:
                    return {"len": [self.textual(counted)]}
                return {"len": [self.guarded({"!==": [found, None]}, found)]}
            case ast.Call(ast.Attribute(text, "count"), [piece], []):
                return {"count": [self.text(text), _constant(piece)]}
        return None

    def text(self, node: ast.expr) -> Logic:
        found = self.path(node)
        return self.textual(node) if found is None else self.guarded(_is_text(found), found)

    def textual(self, node: ast.expr) -> Logic:
        """Return a text that is made of a value."""
        match node:
            case ast.Call(ast.Name("str"), [written], []):
                found = self.path(written)
                if found is not None:
                    return self.guarded(
                        {"or": [_is_text(found), _is_number(found)]}, {"cat": [found]}
                    )
            case ast.Call(ast.Attribute(text, "lower"), [], []):
                return {"lower": [self.text(text)]}
        raise _CannotSay

    def path(self, node: ast.expr) -> Logic | None:
        """Return the output, or a part of it."""
        steps: list[str] = []
        while not isinstance(node, ast.Name):
            match node:
                case ast.Subscript(whole, ast.Constant(str(key))) | ast.Call(
                    ast.Attribute(whole, "get"), [ast.Constant(str(key))], []
                ) if "." not in key:
                    steps.append(key)
                    node = whole
                case _:
                    return None
        if node.id != self.parameter:
            raise _CannotSay
        return {"var": ".".join(["output", *reversed(steps)])}

    def guarded(self, guard: Logic, value: Logic) -> Logic:
        if guard not in self.guards:
            self.guards.append(guard)
        return value


def _is_number(value: Logic) -> Logic:
    return {"===": [{"+": [value]}, value]}


def _is_text(value: Logic) -> Logic:
    return {"===": [{"cat": [value]}, value]}


def _constant(node: ast.expr) -> str:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        raise _CannotSay
    return node.value
