"""Words that come from the definition and not from a model: fixed replies and the sentence of last resort.

Fixed replies are Jinja2 expressions over context keys, rendered in an immutable sandbox. A key that is
not set renders as nothing; secrets are not set. Rendering is bounded. Text is not repeated by numbers. The output
has at most 100,000 characters, and so has each text or list on the way, with all that is in it. Loops and calls take
at most 10,000 steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass
from functools import cache, wraps
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
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError
from jinja2.filters import do_join, do_wordwrap
from jinja2.nodes import EvalContext
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from llm_fsm.definition.names import is_foreign, label
from llm_fsm.turn.repair.questions import QUESTION_MARKS, asks

MAX_CHARS = 100_000
MAX_STEPS = 10_000
_STEPS = " steps"
"""The key of the context under which a rendering counts its steps. No name of an expression has a blank."""
ENDS = f".!…:;。！：।۔։።{QUESTION_MARKS}"
"""Marks that end a sentence, of any script."""
_QUOTES = "\"'”’»」』"
"""Quotation marks that may follow the end of a quoted sentence."""
_EMOJI = re.compile(
    "(?:[\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b05-\u2b55\U0001f000-\U0001faff\U000e007f]\ufe0f?|\ufe0f\u20e3?)$"
)
"""Also a sign that U+FE0F makes one, a digit on its key, and a flag of a region, which ends in a tag."""
_STOPS = (
    (re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff][)\\]）」』】]*$"), "。"),
    (re.compile("[\u0900-\u09ff]$"), "।"),
    (re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]$"), ""),
)
"""The full stops of scripts that have another one than Latin, or, as Thai and its neighbours, none."""
_REPEATING = frozenset({"ljust", "rjust", "center", "zfill", "expandtabs", "translate"})
_WIDE = re.compile(r":[^}]*(?:\d{3}|\{)")
"""A width or a precision of three digits, or one that stands in a value."""
_PLACE = re.compile(r"%(?:\(\w+\))?[-+ 0#]*\d{0,2}(?:\.\d{1,2})?[sdifFeEgGxXo%]")
"""A place of `%`, whose width and precision have at most two digits."""
_MOST = 99
"""Places that a number is rounded to, spaces that JSON is indented by, characters that stand in each line or link."""


@pass_eval_context
def _shown(evaluation: object, value: Any) -> Any:  # noqa: ARG001
    """Show None as nothing; because this asks for the context, nothing is computed while compiling."""
    return "" if value is None else value


def _too_long() -> SecurityError:
    return SecurityError(f"no text and no list in a fixed reply may be longer than {MAX_CHARS:,}")


def _too_wide() -> SecurityError:
    return SecurityError(f"a format in a fixed reply has at most {_MOST} places, and widths of two digits")


def _formatted(text: str, values: Any) -> str:
    """Return what `%` makes of a text and values; raise SecurityError for what could become long."""
    if text.count("%") > _MOST or "%" in _PLACE.sub("", text):
        raise _too_wide()
    return str(text % values)


def _sized(value: Any) -> Any:
    """Return a value if it is short enough, with all that is in it; else raise SecurityError."""
    if isinstance(value, str) and len(value) > MAX_CHARS:
        raise _too_long()
    if isinstance(value, list | tuple | dict):
        size, waiting = 0, [value]
        while waiting:
            one = waiting.pop()
            if isinstance(one, str | list | tuple | dict):
                size += len(one)
                if size > MAX_CHARS:
                    raise _too_long()
                waiting.extend(() if isinstance(one, str) else one.values() if isinstance(one, dict) else one)
    return value


def _check_join(separator: str, parts: list[Any]) -> None:
    """Raise SecurityError where joined parts would be too long."""
    if len(separator) * len(parts) + sum(len(part) for part in parts if isinstance(part, str)) > MAX_CHARS:
        raise _too_long()


def _check_replace(text: str, old: str, new: str, most: int = -1) -> None:
    """Raise SecurityError where a text would be too long with a new part in `most` places of an old one; -1: in all."""
    places = text.count(old)
    if len(text) + (places if most < 0 else min(places, most)) * (len(new) - len(old)) > MAX_CHARS:
        raise _too_long()


def _step(context: Context, number: int = 1) -> None:
    """Count steps of a rendering; raise SecurityError for too many."""
    steps = context.get(_STEPS)
    steps[0] += number
    if steps[0] > MAX_STEPS:
        raise SecurityError(f"a fixed reply takes at most {MAX_STEPS:,} steps of loops and calls")


class _Code(CodeGenerator):
    """The code of a template, in which the environment does what `~` asks for, and looks at lists and at loops."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self.write("environment.joined((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def visit_List(self, node: nodes.List, frame: Frame) -> None:
        self.write("environment.sized(")
        super().visit_List(node, frame)
        self.write(")")

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:
        self.write("environment.sized(")
        super().visit_Dict(node, frame)
        self.write(")")

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:
        made = node.ctx == "load"  # else its parts are names that are given values
        self.write("environment.sized(" if made else "")
        super().visit_Tuple(node, frame)
        self.write(")" if made else "")

    def visit_For(self, node: nodes.For, frame: Frame) -> None:
        counted = nodes.EnvironmentAttribute("counted")
        around = self.environment
        node.iter = nodes.Call(counted, [node.iter], [], None, None, lineno=node.lineno, environment=around)
        super().visit_For(node, frame)


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**", "%", "+"})
    code_generator_class = _Code

    @pass_context
    def counted(self, context: Context, value: Any) -> Any:
        """Return the items that a loop goes through, and count each as a step."""
        found = value if isinstance(value, Sized) else list(value)
        _step(context, len(found))
        return found

    sized = staticmethod(_sized)

    def joined(self, parts: Iterable[Any]) -> str:
        """Return what `~` makes of values."""
        return str(_sized("".join(map(str, parts))))

    def call(self, context: Any, function: Any, /, *given: Any, **options: Any) -> Any:
        _step(context)
        if isinstance(function, LoopContext):  # a recursive one, which goes through this as well
            given = tuple(self.counted(context, one) for one in given)
        text, method = getattr(function, "__self__", None), getattr(function, "__name__", "")
        if isinstance(text, str) and method == "join" and given:
            given = (list(given[0]), *given[1:])
            _check_join(text, given[0])
        elif isinstance(text, str) and method == "replace" and len(given) > 1:
            _check_replace(text, *given)
        return _sized(super().call(context, function, *given, **options))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return attr not in _REPEATING and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is not None and (_WIDE.search(value.__self__) or value.__self__.count("{") > _MOST):
            raise _too_wide()
        return wrapped

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "+":
            return _sized(super().call_binop(context, operator, left, right))
        if operator == "%" and isinstance(left, str):
            return _sized(_formatted(left, right))
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if not numbers or (operator == "**" and (abs(left) > 1000 or abs(right) > 10)):
            raise SecurityError(f"the operator {operator} works on moderate numbers only in a fixed reply")
        return super().call_binop(context, operator, left, right)


def _environment() -> _Environment:
    environment = _Environment(
        undefined=ChainableUndefined, autoescape=False, optimized=False, finalize=_shown
    )
    for name in ("range", "lipsum", "cycler", "joiner", "namespace"):
        environment.globals.pop(name, None)
    for name in ("center", "indent", "xmlattr", "pprint", "batch", "slice"):
        environment.filters.pop(name, None)
    environment.filters = _filters(tuple(environment.filters.items()))
    return environment


@cache
def _filters(found: tuple[tuple[str, Callable[..., Any]], ...]) -> dict[str, Callable[..., Any]]:
    """Return the filters of a fixed reply, none of which makes a text or a list that is too long."""
    filters: dict[str, Callable[..., Any]] = {
        **dict(found), "replace": _replace, "join": _join, "wordwrap": _wordwrap, "format": _format,
    }  # fmt: skip
    for name, given in (("round", 1), ("tojson", 2), ("urlize", 2)):
        filters[name] = _moderate(filters[name], given)
    return {name: _short(function) for name, function in filters.items()}


def _short(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def short(*arguments: Any, **options: Any) -> Any:
        return _sized(function(*arguments, **options))

    return short


def _replace(text: Any, old: Any, new: Any, count: int | None = None) -> str:
    most = -1 if count is None else count
    _check_replace(str(text), str(old), str(new), most)
    return str(text).replace(str(old), str(new), most)


def _format(text: Any, *values: Any, **named: Any) -> str:
    return _formatted(str(text), named or values)


@pass_eval_context
def _join(evaluation: EvalContext, value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> Any:
    parts = list(value)
    _check_join(str(d), parts)
    return do_join(evaluation, parts, d, attribute)


@pass_environment
def _wordwrap(environment: Environment, text: str, *arguments: Any, **options: Any) -> str:
    if any(isinstance(one, str) and len(one) > _MOST for one in (*arguments, *options.values())):
        raise _too_long()
    return do_wordwrap(environment, text, *arguments, **options)


def _size(value: Any) -> float:
    return value if isinstance(value, int) else len(value) if isinstance(value, str) else 0


def _moderate(function: Callable[..., Any], given: int) -> Callable[..., Any]:
    """Return a filter that takes numbers up to 99 and texts up to 99 characters, after its first `given` arguments."""

    @wraps(function)
    def bounded(*arguments: Any, **options: Any) -> Any:
        if any(_size(one) > _MOST for one in (*arguments[given:], *options.values())):
            raise SecurityError(f"the filter {function.__name__.removeprefix('do_')} takes numbers up to {_MOST} only")
        return function(*arguments, **options)

    return bounded


class WordingError(ValueError):
    """A fixed reply cannot be compiled or rendered; the message says why."""


_FAULTS = (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)
"""Errors of an expression that cannot be computed."""


@dataclass(frozen=True, slots=True)
class FixedReply:
    """A compiled fixed reply."""

    source: str
    _template: Template | None

    def render(self, data: Mapping[str, Any]) -> str:
        """Return the text for a conversation. Raises WordingError."""
        if self._template is None:
            return self.source
        pieces: list[str] = []
        size = 0
        try:
            for piece in self._template.generate(data, **{_STEPS: [0]}):
                size += len(piece)
                if size > MAX_CHARS:
                    raise WordingError(f"a fixed reply grew beyond {MAX_CHARS} characters")
                pieces.append(piece)
        except _FAULTS as error:
            raise WordingError(f"a fixed reply cannot be rendered: {error}") from error
        return "".join(pieces).strip()


def compile_reply(source: str) -> FixedReply:
    """Compile a fixed reply once. Raises WordingError for a broken expression."""
    if not any(mark in source for mark in ("{{", "{%", "{#")):
        return FixedReply(source.strip(), None)
    try:
        return FixedReply(source, _environment().from_string(source))
    except (jinja2.TemplateSyntaxError, RecursionError) as error:
        raise WordingError(f"the fixed reply is not a valid template: {error}") from error


def template_fault(source: str) -> str | None:
    """Return why a text is not a template of a fixed reply, in Jinja's words; None if it is one."""
    environment = _environment()
    try:
        tree = environment.parse(source)
        known = ((nodes.Filter, environment.filters), (nodes.Test, environment.tests))
        for kind, names in known:  # Jinja itself passes over those in blocks of `if`
            for node in tree.find_all(kind):
                if node.name not in names:
                    return f'there is no {kind.__name__.lower()} "{node.name}"'
        environment.compile(tree)
    except jinja2.TemplateSyntaxError as error:
        said = (error.message or "").removesuffix(".")
        if said.startswith("unexpected char") and said[17] in "\"'":
            return "a quote is not closed"
        return said.replace("'end of print statement'", '"}}"').replace("'end of statement block'", '"%}"')
    except RecursionError:
        return "it is nested too deep"
    return None


def sentence(text: str) -> str:
    """Return a text, its blanks made single, with the full stop of its script where it lacks an end."""
    stripped = " ".join(text.split())
    return ended(stripped) if stripped else ""


def ended(text: str) -> str:
    """Return a text as it is, with the full stop of its script where it lacks an end."""
    return text if is_ended(text) else text + next((stop for letters, stop in _STOPS if letters.search(text)), ".")


def is_ended(text: str) -> bool:
    """Return True where a text ends as a sentence does, also within quotes.

    An emoji is such an end, too: nobody puts a stop after it.
    """
    return text.rstrip(_QUOTES)[-1:] in ENDS or _EMOJI.search(text) is not None


def own_question(purpose: str, wanted: Mapping[str, Mapping[str, Any]], *, english: bool = True) -> str:
    """Return a plain sentence for a state that has no fixed reply.

    It says the purpose and, unless that asks, the keys that are still needed. Where English words would be foreign,
    the names themselves ask, unless the purpose has them all. Names of keys in another script than the purpose's
    do not ask.

    Args:
        purpose: The state's purpose.
        wanted: The keys that are still needed, each with its schema.
        english: False where English words would be foreign.
    """
    names = [
        label(key, schema)
        for key, schema in wanted.items()
        if english or "title" in schema or not is_foreign(key, purpose)
    ]
    parts = [sentence(purpose)] if purpose else []
    if names and not asks(purpose):
        listed = ", ".join(names)
        if english:
            parts.append(f"Still needed: {listed}.")
        elif not all(name.casefold() in purpose.casefold() for name in names):
            parts.append(f"{listed}?")
    return " ".join(parts) or "Please go on."
