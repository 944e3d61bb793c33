"""Write the classes and functions that `llm_fsm` exports as Markdown, from their docstrings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import griffe

from website.docstrings import ExamplesAsCode

SOURCE = Path(__file__).resolve().parent.parent / "src"
_TITLES = {
    "attributes": "Attributes",
    "parameters": "Args",
    "raises": "Raises",
    "returns": "Returns",
    "yields": "Yields",
}

_WIDTH = 96


def sections(names: Mapping[str, Sequence[str]]) -> str:
    """Return a section for each title, with the names below it."""
    package = _package()
    parts: list[str] = []
    for title, found in names.items():
        parts.append(f"## {title}")
        for name in found:
            parts.extend(_described(package[name], "###"))
    return "\n\n".join(parts)


def _package() -> griffe.Object | griffe.Alias:
    loader = griffe.GriffeLoader(
        search_paths=[SOURCE],
        docstring_parser=griffe.Parser.google,
        docstring_options=dict.fromkeys(
            ("warnings", "returns_multiple_items", "returns_named_value"), False
        ),
        extensions=griffe.load_extensions(ExamplesAsCode()),
    )
    package = loader.load("llm_fsm")
    loader.resolve_aliases(implicit=True)
    return package


def _described(found: Any, level: str) -> Iterator[str]:
    """Yield the heading, the signature, the docstring and the public members of an object."""
    yield f"{level} {found.name}"
    yield _code(_signature(found))
    if found.docstring is not None:
        for section in found.docstring.parsed:
            yield from _section(section)
    if found.is_class:
        for member in found.members.values():
            if not member.name.startswith("_") and member.docstring is not None:
                yield from _described(member, f"{level}#")


def _signature(found: Any) -> str:
    if found.is_attribute:
        return found.name if found.annotation is None else f"{found.name}: {found.annotation}"
    waits = "async " if "async" in found.labels else ""
    kind = "class " if found.is_class else waits
    returns = "" if found.is_class or found.returns is None else f" -> {found.returns}"
    parameters = list(_parameters(found.parameters))
    whole = f"{kind}{found.name}({', '.join(parameters)}){returns}"
    if len(whole) <= _WIDTH:
        return whole
    lines = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"{kind}{found.name}(\n{lines}){returns}"


def _parameters(parameters: Sequence[griffe.Parameter]) -> Iterator[str]:
    keyword_only = False
    for parameter in parameters:
        if parameter.name in ("self", "cls"):
            continue
        kind = parameter.kind
        if kind is griffe.ParameterKind.keyword_only and not keyword_only:
            yield "*"
        keyword_only = keyword_only or kind in (
            griffe.ParameterKind.keyword_only,
            griffe.ParameterKind.var_positional,
        )
        stars = {
            griffe.ParameterKind.var_positional: "*",
            griffe.ParameterKind.var_keyword: "**",
        }.get(kind, "")
        default = "" if stars or parameter.default is None else f" = {parameter.default}"
        yield f"{stars}{parameter.name}: {parameter.annotation}{default}"


def _section(section: Any) -> Iterator[str]:
    kind = section.kind.value
    if kind == "text":
        yield section.value
    elif kind == "examples":
        yield "Example:"
        yield _code("\n".join(text for _, text in section.value))
    elif kind in _TITLES:
        yield f"{_TITLES[kind]}:"
        yield "\n".join(_item(entry) for entry in section.value)
    else:
        raise ValueError(f"nothing is known of {kind!r} in a docstring")


def _item(entry: Any) -> str:
    words = " ".join(entry.description.split())
    name = getattr(entry, "name", "") or str(entry.annotation or "")
    return f"- `{name}`: {words}" if name else f"- {words}"


def _code(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())
