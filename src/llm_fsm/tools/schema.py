"""Convert a function's type hints to the JSON Schema of its arguments, and check arguments for a
call.

pydantic reads the hints. Defaults, `Literal`, enums, nested models, dataclasses and `Annotated`
work as they do there. In `Annotated`, a plain text is the parameter's description.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NotRequired, cast, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from typing_extensions import TypedDict

from llm_fsm._json import JsonDict, JsonMap, copied
from llm_fsm._text import suggestion
from llm_fsm.definition.json_schema.inline import flattened, mapped
from llm_fsm.errors import told
from llm_fsm.session.session import Agreement
from llm_fsm.session.values import ValueFault, to_json_value
from llm_fsm.tools.returns import Function
from llm_fsm.turn.tool_arguments import ArgumentsFault, fitted


@dataclass(frozen=True, slots=True, kw_only=True)
class CallInfo:
    """Facts about a call, for the tool. A parameter of this type receives it; the model never sees
    it.

    Attributes:
        key: The idempotency key. It is the same if a call is performed again after a crash.
        conversation_id: Id of the conversation.
        state: Id of the state that calls.
        agreed: The user's last yes, with `keys`, `values` and `turn`; None if there was none.
    """

    key: str = ""
    conversation_id: str = ""
    state: str = ""
    agreed: Agreement | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The parameters of one function.

    Attributes:
        schema: The JSON Schema of its arguments, an object.
    """

    schema: JsonMap
    _adapter: TypeAdapter[JsonDict]
    _positional: tuple[str, ...]
    _defaults: Mapping[str, Callable[[], Any]]
    _info: str | None

    def fault(self, arguments: JsonMap) -> str | None:
        """Return the reasons why arguments do not fit.

        Args:
            arguments: Name to value, as a model gives them.

        Returns:
            Every argument that does not fit, with the reason; None if all fit.
        """
        try:
            self._adapter.validate_python(fitted(self.schema, arguments))
        except ValidationError as error:
            return self._faults(error)
        except Exception as error:  # of a validator of the host
            return told(error)
        return None

    def bind(self, arguments: JsonMap, info: CallInfo) -> tuple[list[Any], JsonDict]:
        """Check and coerce arguments for a call.

        Args:
            arguments: Name to value, as a model gives them.
            info: The value of a parameter of type `CallInfo`.

        Returns:
            Positional and keyword arguments.

        Raises:
            ArgumentsFault: Some do not fit. The message names each one.
        """
        try:
            values = self._adapter.validate_python(fitted(self.schema, copied(arguments)))
        except ValidationError as error:
            raise ArgumentsFault(self._faults(error)) from error
        if self._info is not None:
            values[self._info] = info
        for name, make in self._defaults.items():
            if name not in values:
                values[name] = make()
        return [values.pop(name) for name in self._positional], values

    def _faults(self, error: ValidationError) -> str:
        said = []
        for fault in error.errors(include_url=False, include_context=False, include_input=False):
            where = ".".join(str(step) for step in fault["loc"])
            if fault["type"] == "extra_forbidden" and len(fault["loc"]) == 1:
                said.append(
                    f"{where}: there is no such argument; {suggestion(where, self.schema['properties'])}"
                )
            else:
                said.append(f"{where}: {fault['msg']}" if where else fault["msg"])
        return "; ".join(said)


def read_parameters(function: Function) -> Parameters:
    """Read the parameters of a function, without those that `partial` has bound.

    Args:
        function: The function.

    Returns:
        Its parameters.

    Raises:
        ValueError: A parameter has no JSON Schema. The message names it.
    """
    name = name_of(function)
    hints, bound = _hints(function, name), _bound(function)
    fields = {}
    positional = []
    defaults: dict[str, Callable[[], Any]] = {}
    info = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in bound:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            star = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
            raise ValueError(
                f"tool {name!r}: {star}{parameter.name} tells a model nothing; name every parameter"
            )
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(parameter.name)
        hint = hints.get(parameter.name, Any)
        if _is_info(hint):
            info = parameter.name
            continue
        fields[parameter.name] = _field(parameter, hint, defaults)
    adapter = _adapter(name, fields)
    return Parameters(
        schema=_schema(name, adapter),
        _adapter=adapter,
        _positional=tuple(positional),
        _defaults=defaults,
        _info=info,
    )


def any_parameters(schema: JsonMap) -> Parameters:
    """Return parameters that accept every object. The function itself checks the arguments.

    Args:
        schema: The JSON Schema that models read.
    """
    return Parameters(
        schema=schema, _adapter=TypeAdapter(JsonDict), _positional=(), _defaults={}, _info=None
    )


def name_of(function: Function) -> str:
    """Return the name of a function, a method, a partial or a callable object."""
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", None) or type(function).__name__)


def _layers(function: Function) -> Iterator[Any]:
    """Yield a function, and the functions that it wraps or binds, down to the innermost one."""
    inner: Any = function
    while inner is not None:
        yield inner
        inner = inner.func if isinstance(inner, partial) else getattr(inner, "__wrapped__", None)


def _bound(function: Function) -> set[str]:
    """Return the keywords that the host has bound with `partial`, which no model can set."""
    found: set[str] = set()
    for layer in _layers(function):
        if isinstance(layer, partial):
            found.update(layer.keywords)
    return found


def _hints(function: Function, name: str) -> JsonDict:
    *_, inner = _layers(function)
    if not inspect.isroutine(inner):
        *_, inner = _layers(type(inner).__call__)
    try:
        return get_type_hints(inner, include_extras=True)
    except NameError:
        pass
    try:
        return get_type_hints(inner, localns=_locals_of_caller(inner), include_extras=True)
    except NameError as error:
        raise ValueError(f"tool {name!r}: a type hint cannot be resolved: {error}") from error


def _locals_of_caller(function: Any) -> JsonDict:
    """Return the local names at the place of registration, because hints of nested functions may
    refer to them.
    """
    wanted = getattr(function, "__globals__", None)
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals is wanted:
            return dict(frame.f_locals)
    return {}


def _is_info(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return _is_info(get_args(hint)[0])
    return hint is CallInfo or CallInfo in get_args(hint)


def _field(parameter: inspect.Parameter, hint: Any, defaults: dict[str, Callable[[], Any]]) -> Any:
    """Return the entry of a parameter in a TypedDict. A default that the call needs is added to
    `defaults`.
    """
    hint = _described(hint)
    default = parameter.default
    if default is parameter.empty:
        return hint
    if isinstance(default, FieldInfo):
        make = default.default_factory or partial(_same, default.default)
        bare = copy(default)
        bare.default, bare.default_factory = PydanticUndefined, None
        hint = Annotated[hint, bare]
        if default.is_required():
            return hint
        defaults[parameter.name] = make  # type: ignore[assignment]
        default = default.default
    elif parameter.kind is parameter.POSITIONAL_ONLY:
        defaults[parameter.name] = partial(_same, default)
    shown = {}
    if default is not PydanticUndefined:
        try:
            shown = {"default": to_json_value(default)}
        except ValueFault:
            shown = {}
    return (
        NotRequired[Annotated[hint, Field(json_schema_extra=shown)]] if shown else NotRequired[hint]
    )


def _same(value: Any) -> Any:
    return value


def _described(hint: Any) -> Any:
    """Convert `Annotated[T, "text"]` to pydantic's form."""
    if get_origin(hint) is not Annotated:
        return hint
    base, *extras = get_args(hint)
    fields = [Field(description=item) if isinstance(item, str) else item for item in extras]
    return Annotated[base, *fields]


def _adapter(name: str, fields: JsonDict) -> TypeAdapter[JsonDict]:
    try:
        arguments = cast("Any", TypedDict)("arguments", fields)
        arguments.__pydantic_config__ = ConfigDict(extra="forbid")
        return TypeAdapter(arguments)
    except (PydanticUserError, PydanticSchemaGenerationError) as error:
        reason = str(error).split("\n", 1)[0]
        raise ValueError(
            f"tool {name!r}: no JSON can be made of a parameter's type: {reason}"
        ) from error


def _schema(name: str, adapter: TypeAdapter[JsonDict]) -> JsonDict:
    try:
        made = adapter.json_schema()
    except PydanticUserError as error:
        reason = str(error).split("\n", 1)[0]
        raise ValueError(
            f"tool {name!r}: no JSON Schema can be made of a parameter's type: {reason}"
        ) from error
    schema = flattened(_tidy(made))
    return {"type": "object", "properties": {}, **schema, "additionalProperties": False}


def _tidy(schema: Any) -> Any:
    """Remove generated titles, and forbid unnamed arguments."""
    if not isinstance(schema, dict):
        return schema
    made = mapped(schema, _tidy)
    made.pop("title", None)
    if "properties" in made:
        made.setdefault("additionalProperties", False)
    return made
