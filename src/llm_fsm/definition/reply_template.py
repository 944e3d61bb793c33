"""The small language of fixed replies: `{{ }}`, `if`, `for`, comparisons, `+`, `-`, and sixteen
filters.

Jinja's parser reads a reply. An allow-list over its tree then refuses every node that is not named
here, so a reply has no variables of its own, no calls and no methods. Names and parts read context
values and nothing else. Therefore no value can grow: each part of a reply makes at most as much
text as its values and the reply itself have. Lists and objects that a reply spells out hold texts
and numbers only, as a loop over lists of lists of names would double them.

Rendering has two limits beside that. The text has at most 100,000 characters. Loops and filters go
through at most 10,000 items of lists. A name without a value renders as nothing.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jinja2
from jinja2 import (
    ChainableUndefined,
    Environment,
    Template,
    TemplateError,
    nodes,
    pass_context,
    pass_environment,
    pass_eval_context,
)
from jinja2.filters import do_capitalize, do_default, do_int, do_lower, do_title, do_trim, do_upper
from jinja2.runtime import Context, LoopContext, Undefined

from llm_fsm._json import JsonMap
from llm_fsm.conditions.coercion import is_number
from llm_fsm.languages import number_in, number_marks

MAX_CHARS = 100_000
MAX_ITEMS = 10_000
_COUNT = " items"
"""The key of the context under which a rendering counts items. No name of a reply has a blank."""
_NUMBER = " number"
"""The name of the filter that checks operands. No filter of a reply has a blank."""
_LONGEST_SEPARATOR = 100
"""Characters of a separator, which is repeated for each item of a list."""
_MOST_PLACES = 15
"""Places that a number is rounded to. A float has no more."""
_LOOP = frozenset({"index", "index0", "revindex", "first", "last", "length"})
"""Parts of `loop` that a reply can read."""
_PLACE = re.compile(r"%(?:%|[-+ 0#]*\d{0,2}(?:\.\d{1,2})?[sdifFeEgGxXo])")
"""A place of a format. Its width and its precision have at most two digits, so that it cannot make
a long text.
"""


_BLANK = re.compile("\0([^\0]*)\0")
"""The mark of a name without a value in a rendered text."""


class WordingError(ValueError):
    """A fixed reply cannot be compiled or rendered; the message tells why."""


# -- What is allowed -------------------------------------------------------------------------------

_ALLOWED: tuple[type[nodes.Node], ...] = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.If,
    nodes.For,
    nodes.Name,
    nodes.Getattr,
    nodes.Getitem,
    nodes.Const,
    nodes.List,
    nodes.Tuple,
    nodes.Dict,
    nodes.Pair,
    nodes.And,
    nodes.Or,
    nodes.Not,
    nodes.Compare,
    nodes.Operand,
    nodes.CondExpr,
    nodes.Add,
    nodes.Sub,
    nodes.Neg,
    nodes.Filter,
    nodes.Keyword,
    nodes.Test,
    nodes.Mul,
    nodes.Div,
    nodes.FloorDiv,
    nodes.Mod,
)
_OF_NUMBERS = (nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod)
"""Operators for numbers alone: a text or a list times a number would grow without a limit."""
_CONSTANT = (nodes.Const, nodes.Neg, nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair)
_COMPUTE = 'compute the value with "set" in a state, or in a handler'
_INSTEAD: Mapping[type[nodes.Node], tuple[str, str]] = {
    nodes.Concat: ('"~"', "write the parts one after the other: {{ a }}{{ b }}"),
    nodes.Pow: ('"**"', _COMPUTE),
    nodes.Pos: ('"+" before one value', "leave it out"),
    nodes.Call: ("a call", "use a filter such as {{ name | upper }}, or " + _COMPUTE),
    nodes.Slice: ("a slice such as [0:3]", _COMPUTE),
    nodes.Assign: ('"set"', _COMPUTE),
    nodes.AssignBlock: ('"set"', _COMPUTE),
    nodes.With: ('"with"', "write the value itself"),
    nodes.Macro: ('"macro"', "write its text in each place"),
    nodes.CallBlock: ('"call"', "write the text itself"),
    nodes.FilterBlock: ('a block of "filter"', "write {{ name | upper }} for each value"),
    nodes.Include: ('"include"', "write the text itself"),
    nodes.Import: ('"import"', "write the text itself"),
    nodes.FromImport: ('"import"', "write the text itself"),
    nodes.Extends: ('"extends"', "write the whole text"),
    nodes.Block: ('"block"', "write its text alone"),
}
"""Parts of Jinja that authors know and replies do not have: how to name each, and what to write
instead.
"""
_TESTS: Mapping[str, Callable[[Any], bool]] = {
    "defined": lambda value: not isinstance(value, Undefined),
    "undefined": lambda value: isinstance(value, Undefined),
    "none": lambda value: value is None,
    "true": lambda value: value is True,
    "false": lambda value: value is False,
    "boolean": lambda value: isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float),
    "string": lambda value: isinstance(value, str),
}


# -- Filters ---------------------------------------------------------------------------------------


@pass_context
def _items(context: Context, value: Any) -> list[Any]:
    """Return the items of a list or the names of an object, and count them against the limit of a
    rendering.
    """
    if isinstance(value, Undefined):
        return []
    if not isinstance(value, list | tuple | dict):
        raise WordingError(f"a list is needed, not {_described(value)}")
    counter = context[_COUNT]
    counter[0] += len(value)
    if counter[0] > MAX_ITEMS:
        raise WordingError(f"a fixed reply goes through at most {MAX_ITEMS:,} items of lists")
    return list(value)


def _number(value: Any) -> int | float:
    """Return a value if it is a number. Raises WordingError."""
    if not is_number(value):
        raise WordingError(f"*, /, // and % need numbers, not {_described(value)}")
    return value


def _described(value: Any) -> str:
    match value:
        case None | Undefined():
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return f"the number {value}"
        case str():
            return f'the text "{value[:40]}"'
        case dict():
            return "an object"
    return "a list"


def _part(value: Any, attribute: str | None) -> Any:
    """Return the part of an item that a dotted name names; None if there is none."""
    for name in attribute.split(".") if attribute else ():
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _shown(value: Any) -> str:
    return "" if value is None else str(value)


@pass_context
def _join(context: Context, value: Any, separator: str = "", attribute: str | None = None) -> str:
    return separator.join(_shown(_part(item, attribute)) for item in _items(context, value))


@pass_context
def _sum(context: Context, value: Any, attribute: str | None = None) -> Any:
    """Add numbers. An item without one is an error: a total that leaves something out would be
    wrong.
    """
    total: Any = 0
    for number, item in enumerate(_items(context, value), start=1):
        part = _part(item, attribute)
        if not is_number(part):
            name = f' as "{attribute}"' if attribute else ""
            raise WordingError(
                f"a sum needs numbers, and item {number} has {_described(part)}{name}"
            )
        total += part
    return total


@pass_context
def _sort(
    context: Context, value: Any, reverse: bool = False, attribute: str | None = None
) -> list[Any]:
    def place(item: Any) -> Any:
        part = _part(item, attribute)
        return part.casefold() if isinstance(part, str) else part

    return sorted(_items(context, value), key=place, reverse=reverse)


def _first(value: Any) -> Any:
    return value[0] if value else None


def _last(value: Any) -> Any:
    return value[-1] if value else None


def _round(value: Any, precision: int = 0) -> Any:
    if not 0 <= precision <= _MOST_PLACES:  # Python would compute 10 to the power of a negative one
        raise WordingError(f"a number is rounded to 0 to {_MOST_PLACES} places, not {precision}")
    return round(value, precision)


def _replace(value: Any, old: str, new: str) -> str:
    return _shown(value).replace(old, new)


@pass_environment
def _format(environment: _Environment, value: str, *values: Any) -> str:
    """Fill the places of a text. Fractions have the decimal mark of the language."""
    left = iter(values)
    mark, _ = number_marks(environment.language)

    def filled(place: re.Match[str]) -> str:
        if place.group() == "%%":
            return "%"
        written: str = place.group() % next(left)
        is_number = place.group()[-1] in "feEFgG"
        return written.replace(".", mark) if is_number else written

    return _PLACE.sub(filled, value)


def _of_text(function: Callable[[str], str]) -> Callable[[Any], str]:
    """Return a filter of Jinja that works on the words that a value shows."""

    def filtered(value: Any) -> str:
        return function(_shown(value))

    return filtered


def _default(value: Any, default_value: Any = "", boolean: bool = False) -> Any:
    return do_default(value, default_value, boolean)


def _int(value: Any, default: int = 0) -> int:
    return do_int(value, default)


_FILTERS: Mapping[str, Callable[..., Any]] = {
    "default": _default,
    "upper": _of_text(do_upper),
    "lower": _of_text(do_lower),
    "title": _of_text(do_title),
    "capitalize": _of_text(do_capitalize),
    "trim": _of_text(do_trim),
    "replace": _replace,
    "format": _format,
    "length": len,
    "first": _first,
    "last": _last,
    "join": _join,
    "sort": _sort,
    "sum": _sum,
    "int": _int,
    "round": _round,
}


# -- Reading ---------------------------------------------------------------------------------------


def _faults(node: nodes.Node) -> Iterator[tuple[int, str]]:
    """Yield line and reason for each part of a tree that a reply may not have, in order."""
    if not isinstance(node, _ALLOWED):
        name, instead = _INSTEAD.get(type(node), (f'"{type(node).__name__.lower()}"', ""))
        yield (node.lineno, f"{name} is not allowed" + (f"; {instead}" if instead else ""))
        return
    for reason in _misused(node):
        yield node.lineno, reason
    for child in node.iter_child_nodes():
        yield from _faults(child)


def _misused(node: nodes.Node) -> Iterator[str]:
    """Yield what is wrong with an allowed node itself."""
    match node:
        case nodes.Name(name="self"):
            yield '"self" is no name of a value'
        case nodes.For(recursive=True):
            yield '"recursive" is not allowed; write a loop within a loop'
        case nodes.Test():
            if node.name not in _TESTS:
                yield f'there is no test "{node.name}"'
            elif node.args or node.kwargs:
                yield f'the test "{node.name}" takes no values'
        case nodes.List() | nodes.Dict() | nodes.Tuple(ctx="load"):
            if not all(isinstance(one, _CONSTANT) for one in node.find_all(nodes.Node)):
                yield "a list or an object in a reply holds texts and numbers only"
        case nodes.Mod(left=nodes.Const(value=str())):
            yield "\"%\" after a text is not allowed; write {{ '%.2f' | format(price) }}"
        case nodes.Filter():
            yield from _misused_filter(node)


def _misused_filter(node: nodes.Filter) -> Iterator[str]:
    function = _FILTERS.get(node.name)
    if function is None:
        yield f'there is no filter "{node.name}"'
        return
    if node.dyn_args is not None or node.dyn_kwargs is not None:
        yield '"*" before values of a filter is not allowed; write the values one by one'
        return
    values = list(node.args)
    if function in (_join, _sort, _sum, _format):
        values.insert(0, nodes.Const(None))  # the context, which Jinja passes first
    named = {str(one.key): one.value for one in node.kwargs}
    try:
        bound = inspect.signature(function).bind(node.node, *values, **named)
    except TypeError as error:
        yield f'the filter "{node.name}" has other values: {error}'
        return
    if function is _join:
        yield from _unlike_a_separator(bound.arguments.get("separator"))
    elif function is _replace:
        yield from _unlike_a_replacement(bound.arguments["old"], bound.arguments["new"])
    elif function is _format:
        yield from _unlike_a_format(node.node, len(node.args))


def _text(node: nodes.Node | None) -> str | None:
    """Return a text that the reply itself spells out; None if a value could be anything."""
    return node.value if isinstance(node, nodes.Const) and isinstance(node.value, str) else None


def _unlike_a_separator(separator: nodes.Node | None) -> Iterator[str]:
    text = _text(separator)
    if separator is not None and (text is None or len(text) > _LONGEST_SEPARATOR):
        yield f'"join" takes a text in quotes of at most {_LONGEST_SEPARATOR} characters'


def _unlike_a_replacement(old: nodes.Node, new: nodes.Node) -> Iterator[str]:
    """Refuse a longer text in place of a shorter one: a chain of such filters would double it."""
    before, after = _text(old), _text(new)
    if not before or after is None or len(after) > len(before):
        yield '"replace" takes two texts in quotes, and the second is not longer than the first'


def _unlike_a_format(pattern: nodes.Node | None, count: int) -> Iterator[str]:
    text = _text(pattern)
    if text is None or "%" in _PLACE.sub("", text):
        example = "'%.2f' | format(price)"
        yield f'"format" takes a text in quotes, as {example}; widths have at most two digits'
        return
    places = sum(place != "%%" for place in _PLACE.findall(text))
    if places != count:
        yield f'"format" needs one value for each place: {places}, not {count}'


class _Blank(ChainableUndefined):
    """A name without a value. It leaves a mark in the text, so that nobody reads a blank back."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"\0{self._undefined_name}\0"


class _Environment(Environment):
    """Names and parts read data. An attribute or a method of a Python object cannot be reached.

    `language`: that of the reply, for the numbers that it shows; "" shows them as JSON has them.
    """

    language = ""

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, dict) and isinstance(argument, str | int) and argument in obj:
            return obj[argument]
        if (
            isinstance(obj, list | tuple | str)
            and isinstance(argument, int)
            and -len(obj) <= argument < len(obj)
        ):
            return obj[argument]
        return self.undefined(obj=obj, name=argument)

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, LoopContext) and attribute in _LOOP:
            return getattr(obj, attribute)
        return self.getitem(obj, attribute)


@pass_eval_context
def _finalized(evaluation: nodes.EvalContext, value: Any) -> Any:
    """Show None as nothing, and a computed number in the language of the reply.

    It asks for the context, so nothing is computed while compiling.
    """
    if value is None:
        return ""
    language = getattr(evaluation.environment, "language", "")
    return number_in(language, value) if language and type(value) is float else value


def _environment(language: str) -> _Environment:
    environment = _Environment(
        undefined=_Blank, autoescape=False, optimized=False, finalize=_finalized
    )
    environment.language = language
    environment.globals.clear()
    environment.filters = {**_FILTERS, _COUNT: _items, _NUMBER: _number}
    environment.tests = dict(_TESTS)
    return environment


def _read(source: str, language: str) -> FixedReply:
    """Parse, check and compile a reply. Raises WordingError."""
    environment = _environment(language)
    try:
        tree = environment.parse(source)
        for line, reason in _faults(tree):
            raise WordingError(_at(reason, line, source))
        names = set()
        for found in tree.find_all(nodes.Name):
            names.add(found.name)
        for loop in list(tree.find_all(nodes.For)):
            loop.iter = nodes.Filter(loop.iter, _COUNT, [], [], None, None, lineno=loop.lineno)
        for operator in list(tree.find_all(_OF_NUMBERS)):
            operator.left = _checked_number(operator.left)
            operator.right = _checked_number(operator.right)
        template = environment.from_string(tree)
        return FixedReply(source, template, frozenset(names))
    except jinja2.TemplateSyntaxError as error:
        raise WordingError(_at(_syntax_fault(error), error.lineno, source)) from error
    # Python compiles the tree, and has limits of its own.
    except (RecursionError, SyntaxError, MemoryError) as error:
        raise WordingError("it is nested too deep") from error


def _checked_number(operand: nodes.Expr) -> nodes.Expr:
    """Return an operand that is an error where it is no number."""
    return nodes.Filter(operand, _NUMBER, [], [], None, None, lineno=operand.lineno)


def _at(reason: str, line: int, source: str) -> str:
    return f"line {line}: {reason}" if "\n" in source.strip() else reason


def _syntax_fault(error: jinja2.TemplateSyntaxError) -> str:
    message = (error.message or "").removesuffix(".")
    if message.startswith("unexpected char") and message[17] in "\"'":
        return "a quote is not closed"
    return message.replace("'end of print statement'", '"}}"').replace(
        "'end of statement block'", '"%}"'
    )


def template_fault(source: str) -> str | None:
    """Return why a text is not a fixed reply; None if it is one."""
    try:
        _read(source, "")
    except WordingError as error:
        return str(error)
    return None


# -- Rendering -------------------------------------------------------------------------------------

_FAULTS = (
    TemplateError,
    TypeError,
    ValueError,
    ArithmeticError,
    LookupError,
    AttributeError,
    RecursionError,
)
"""Errors of an expression that cannot be computed with the values of a conversation."""


@dataclass(frozen=True, slots=True)
class FixedReply:
    """A compiled fixed reply. `names`: what it reads, keys and system names."""

    source: str
    _template: Template | None
    names: frozenset[str] = frozenset()

    def render(self, data: JsonMap) -> str:
        """Return the text for a conversation. Raises WordingError."""
        return _BLANK.sub("", self._rendered(data)).strip()

    def blanks(self, data: JsonMap) -> tuple[str, ...]:
        """Return the names without a value for which the text has a blank. Raises WordingError."""
        return tuple(dict.fromkeys(_BLANK.findall(self._rendered(data))))

    def _rendered(self, data: JsonMap) -> str:
        if self._template is None:
            return self.source
        pieces = []
        size = 0
        try:
            for piece in self._template.generate(data, **{_COUNT: [0]}):
                size += len(piece)
                if size > MAX_CHARS:
                    raise WordingError(f"the text is longer than {MAX_CHARS:,} characters")
                pieces.append(piece)
        except _FAULTS as error:
            raise WordingError(f"a fixed reply cannot be rendered: {error}") from error
        return "".join(pieces)


def compile_reply(source: str, language: str = "") -> FixedReply:
    """Compile a fixed reply once. Raises WordingError for a text that is not one.

    Args:
        source: The text.
        language: BCP 47 tag. Computed numbers show in it; "" shows them as JSON has them.
    """
    if not any(mark in source for mark in ("{{", "{%", "{#")):
        return FixedReply(source.strip(), None)
    try:
        return _read(source, language)
    except WordingError as error:
        raise WordingError(f"the fixed reply is not a valid template: {error}") from error
