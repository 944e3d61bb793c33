"""Turn checks that are short Python expressions into JsonLogic over {output}.

Only a fixed list of harmless syntax is read, and nothing is ever evaluated. If Python would raise for a value of
another type, the rule is false.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
from collections.abc import Callable
from types import CodeType
from typing import Any

Logic = Any

_ORDER: dict[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_EQUAL: dict[type[ast.cmpop], str] = {ast.Eq: "===", ast.NotEq: "!==", ast.Is: "===", ast.IsNot: "!=="}
_SUMS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Mod: "%"}


class _CannotSay(Exception):
    """JsonLogic cannot express this."""


def lambda_to_logic(function: Callable[..., Any]) -> Logic | None:
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


def _source_of(function: Callable[..., Any]) -> ast.Lambda | None:
    """Find the lambda in its file that has the code of this function."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or code.co_freevars:
        return None
    try:
        tree = ast.parse("".join(linecache.getlines(inspect.getfile(function), getattr(function, "__globals__", None))))
    except (OSError, TypeError, SyntaxError, ValueError, RecursionError):
        return None
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno]
    alike = [node for node in found if _code_of(node) == (code.co_code, code.co_consts, code.co_names)]
    return alike[0] if alike else None


def _code_of(node: ast.Lambda) -> tuple[bytes, tuple[Any, ...], tuple[str, ...]] | None:
    made = compile(ast.Expression(body=node), "<check>", "eval")
    inner = next((one for one in made.co_consts if isinstance(one, CodeType)), None)
    return None if inner is None else (inner.co_code, inner.co_consts, inner.co_names)


def _logic(body: ast.expr, parameter: str) -> Logic | None:
    reader = _Reader(parameter)
    try:
        rule = reader.truth(body)
    except _CannotSay:
        return None
    return {"and": [*reader.guards, rule]} if reader.guards else rule


class _Reader:
    """Reads one expression. `guards` are conditions on values without which Python would raise."""

    def __init__(self, parameter: str) -> None:
        self.parameter = parameter
        self.guards: list[Logic] = []

    def truth(self, node: ast.expr) -> Logic:
        """Return an expression that is true or false."""
        if isinstance(node, ast.BoolOp):
            name = "and" if isinstance(node.op, ast.And) else "or"
            return {name: [self.truth(value) for value in node.values]}
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return {"!": [self.truth(node.operand)]}
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            parts = [self.compared(sides[place], op, sides[place + 1]) for place, op in enumerate(node.ops)]
            return parts[0] if len(parts) == 1 else {"and": parts}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return self.begins_or_ends(node.func, node)
        raise _CannotSay

    def compared(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Logic:
        if type(op) in _ORDER:
            return {_ORDER[type(op)]: [self.number(left), self.number(right)]}
        if isinstance(op, ast.In | ast.NotIn):
            inside = {"contains": [self.text(right), self.constant(left, str)]}
            return {"!": [inside]} if isinstance(op, ast.NotIn) else inside
        return {_EQUAL[type(op)]: [self.value(left), self.value(right)]}

    def begins_or_ends(self, method: ast.Attribute, call: ast.Call) -> Logic:
        if method.attr not in ("startswith", "endswith") or len(call.args) != 1 or call.keywords:
            raise _CannotSay
        piece = re.escape(self.constant(call.args[0], str))
        pattern = f"^{piece}" if method.attr == "startswith" else f"{piece}$"
        return {"matches": [self.text(method.value), pattern]}

    def value(self, node: ast.expr) -> Logic:
        """Read any value."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | bool | None):
            return node.value
        return self.path(node) or self.numeric(node) or self.textual(node)

    def number(self, node: ast.expr) -> Logic:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return {"-": [self.number(node.operand)]}
        found = self.path(node)
        if found is not None:
            return self.guarded({"===": [{"+": [found]}, found]}, found)
        found = self.numeric(node)
        if found is None:
            raise _CannotSay
        return found

    def numeric(self, node: ast.expr) -> Logic | None:
        """Return a length, a count, or a sum of numbers."""
        if isinstance(node, ast.BinOp) and type(node.op) in _SUMS:
            return {_SUMS[type(node.op)]: [self.number(node.left), self.number(node.right)]}
        if not isinstance(node, ast.Call) or node.keywords or len(node.args) != 1:
            return None
        if isinstance(node.func, ast.Name) and node.func.id == "len":
            found = self.path(node.args[0])
            if found is None:
                return {"len": [self.textual(node.args[0])]}
            return {"len": [self.guarded({"!==": [found, None]}, found)]}
        if isinstance(node.func, ast.Attribute) and node.func.attr == "count":
            return {"count": [self.text(node.func.value), self.constant(node.args[0], str)]}
        return None

    def text(self, node: ast.expr) -> Logic:
        found = self.path(node)
        return self.guarded({"===": [{"cat": [found]}, found]}, found) if found is not None else self.textual(node)

    def textual(self, node: ast.expr) -> Logic:
        """Return a text that is made of a value."""
        if isinstance(node, ast.Call) and not node.keywords:
            if isinstance(node.func, ast.Name) and node.func.id == "str" and len(node.args) == 1:
                found = self.path(node.args[0])
                if found is not None:
                    is_text, is_number = {"===": [{"cat": [found]}, found]}, {"===": [{"+": [found]}, found]}
                    return self.guarded({"or": [is_text, is_number]}, {"cat": [found]})
            if isinstance(node.func, ast.Attribute) and node.func.attr == "lower" and not node.args:
                return {"lower": [self.text(node.func.value)]}
        raise _CannotSay

    def path(self, node: ast.expr) -> Logic | None:
        """Return the output, or a part of it."""
        steps: list[str] = []
        while not isinstance(node, ast.Name):
            if isinstance(node, ast.Subscript):
                key, node = node.slice, node.value
            elif _is_get(node):
                assert isinstance(node, ast.Call)
                assert isinstance(node.func, ast.Attribute)
                key, node = node.args[0], node.func.value
            else:
                return None
            if not isinstance(key, ast.Constant) or type(key.value) is not str or "." in key.value:
                return None
            steps.append(key.value)
        if node.id != self.parameter:
            raise _CannotSay
        return {"var": ".".join(["output", *reversed(steps)])}

    def guarded(self, guard: Logic, value: Logic) -> Logic:
        if guard not in self.guards:
            self.guards.append(guard)
        return value

    @staticmethod
    def constant(node: ast.expr, kind: type) -> Any:
        if not isinstance(node, ast.Constant) or type(node.value) is not kind:
            raise _CannotSay
        return node.value


def _is_get(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "get"
        and len(node.args) == 1
        and not node.keywords
    )
