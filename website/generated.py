"""Generate parts of pages from the code: commands, format, shipped definitions, Python names.

A page has its parts between `<!-- generated: NAME -->` and `<!-- end: NAME -->`. `python -m
website.generated` writes them anew, and a test compares them. So no table is kept up by hand.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

import llm_fsm
from llm_fsm.cli.group import COMMANDS, group
from llm_fsm.cli.terminal.slash_commands import COMMANDS as IN_A_CHAT
from website import python_names

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "src" / "llm_fsm" / "definition" / "definition.schema.json"
DEFINITIONS = ROOT / "fsm_definitions"

_PART = re.compile(
    r"^<!-- generated: (?P<name>[\w-]+) -->\n(?P<part>.*?)^<!-- end: (?P=name) -->$",
    re.MULTILINE | re.DOTALL,
)


def main() -> None:
    """Write the parts of all pages anew."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        page.write_text(filled(text), encoding="utf-8")


def filled(text: str) -> str:
    """Return the text of a page with its parts made anew. Raises KeyError for an unknown part."""

    def made(found: re.Match[str]) -> str:
        name = found["name"]
        return f"<!-- generated: {name} -->\n\n{PARTS[name]()}\n\n<!-- end: {name} -->"

    return _PART.sub(made, text)


def for_site(text: str) -> str:
    """Return the text of a page for the site: without marks, and with directives of mkdocstrings."""
    return _PART.sub(
        lambda found: python_directives() if found["name"] == "python" else found["part"], text
    )


def table(header: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def command_overview() -> str:
    """Return the table of all commands."""
    rows = ((f"[`{name}`](#{_anchor(name)})", summary) for name, summary in COMMANDS.items())
    return table(("command", "purpose"), rows)


def commands() -> str:
    """Return a section for each command and each command of a group, with all options."""
    return "\n\n".join(_section(path, command) for path, command in every_command())


def every_command() -> Iterator[tuple[str, click.Command]]:
    """Yield each command with its words, such as "conversations list"."""
    for name in COMMANDS:
        command = _loaded(group, name)
        yield name, command
        if isinstance(command, click.Group):
            context = click.Context(command, info_name=name)
            for inner in command.list_commands(context):
                yield f"{name} {inner}", _loaded(command, inner)


def _loaded(parent: click.Group, name: str) -> click.Command:
    found = parent.get_command(click.Context(parent), name)
    if found is None:
        raise LookupError(f"there is no command {name!r}")
    return found


def _section(path: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"llm-fsm {path}", **group.context_settings)
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f"## {path}", f"`llm-fsm {path} {usage}`", *_paragraphs(command.help or "")]
    options = list(_option_rows(command, context))
    if options:
        parts.append(table(("option", "meaning"), iter(options)))
    if command.epilog:
        parts.append(_examples(command.epilog))
    return "\n\n".join(parts)


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help text; those with line breaks of their own are shown as they
    are.
    """
    for paragraph in inspect.cleandoc(text).replace("\f", "").split("\n\n"):
        if paragraph.startswith("\b"):
            yield _examples(paragraph)
        elif paragraph.strip():
            yield _markdown(" ".join(paragraph.split()))


def _markdown(text: str) -> str:
    """Return words of a help text that Markdown does not change."""
    return re.sub(r"([*_<\[])", r"\\\1", text)


def _examples(text: str) -> str:
    lines = text.replace("\b", "").strip("\n").splitlines()
    shown = [
        line.strip() for line in lines if line.strip() and not line.strip().startswith("Example")
    ]
    return "\n".join(f"    {line}" for line in shown)


def _option_rows(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    for option in command.get_params(context):
        record = option.get_help_record(context)
        if record is not None and isinstance(option, click.Option):
            names, meaning = record
            if option is command.get_help_option(context):
                # click remembers the option as the first context that asked for it named it.
                names = ", ".join(context.help_option_names)
            yield f"`{names}`", _markdown(meaning)


def chat_commands() -> str:
    """Return the table of the commands inside a chat."""
    rows = (
        (f"`{name} {found.argument}`".replace(" `", "`"), found.help)
        for name, found in IN_A_CHAT.items()
    )
    return table(("command", "purpose"), rows)


def shipped_definitions() -> str:
    """Return the table of shipped definitions, with the descriptions and languages of the files."""
    return table(("definition", "languages", "purpose"), _shipped_rows())


def _shipped_rows() -> Iterator[tuple[str, str, str]]:
    for path in sorted(DEFINITIONS.glob("*.json")):
        if not path.name.endswith(".test.json"):
            document = json.loads(path.read_text(encoding="utf-8"))
            description = document["description"]
            yield (
                f"`{path.stem}`",
                ", ".join([document.get("language", "en"), *document.get("languages", ())]),
                description if isinstance(description, str) else " ".join(description),
            )


def definition_format() -> str:
    """Return a section for each object of the format, from the published schema."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    objects = {"Definition": schema, **schema["$defs"]}
    described = ((name, found) for name, found in objects.items() if "properties" in found)
    return "\n\n".join(_object(name, found) for name, found in described)


def _object(name: str, schema: Mapping[str, Any]) -> str:
    required = set(schema.get("required", ()))
    rows = (_property(key, found, key in required) for key, found in schema["properties"].items())
    described = schema.get("description", "")
    return f"## {name}\n\n{_markdown(described)}\n\n{table(('key', 'value', 'meaning'), rows)}"


def _property(key: str, schema: Mapping[str, Any], required: bool) -> tuple[str, str, str]:
    meaning = _markdown(schema.get("description", ""))
    if required:
        meaning += " **Required.**"
    default = schema.get("default")
    if default is not None:
        meaning += f" Default: `{json.dumps(default)}`."
    for example in schema.get("examples", ())[:1]:
        meaning += f" Example: `{json.dumps(example, ensure_ascii=False)}`."
    return f"`{key}`", _kind(schema), meaning


def _kind(schema: Mapping[str, Any]) -> str:
    """Return the kind of value that a schema accepts, in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return "any JSON" if name == "JsonValue" else f"[{name}](#{_anchor(name)})"
    if "anyOf" in schema:
        kinds = [_kind(found) for found in schema["anyOf"] if found.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    kind = schema.get("type", "any JSON")
    if kind == "array" and "items" in schema:
        return f"list of {_kind(schema['items'])}"
    if kind == "object":
        return _object_kind(schema)
    return str(kind)


def _object_kind(schema: Mapping[str, Any]) -> str:
    inner = schema.get("additionalProperties")
    for found in schema.get("patternProperties", {}).values():
        inner = found
    if isinstance(inner, dict) and inner:
        return f"object of {_kind(inner)}"
    return "object"


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def python_part() -> str:
    """Return a section for each kind of exported names, as Markdown."""
    return python_names.sections(_exported())


def python_directives() -> str:
    """Return a directive of mkdocstrings for each exported name."""
    return "\n\n".join(
        f"## {title}\n\n" + "\n\n".join(f"::: llm_fsm.{name}" for name in found)
        for title, found in _exported().items()
    )


def _exported() -> Mapping[str, list[str]]:
    names = sorted(llm_fsm.__all__)
    classes = [name for name in names if inspect.isclass(getattr(llm_fsm, name))]
    functions = [name for name in names if inspect.isfunction(getattr(llm_fsm, name))]
    errors = [name for name in classes if issubclass(getattr(llm_fsm, name), Exception)]
    others = [name for name in classes if name not in errors]
    return {"Classes": others, "Functions": functions, "Errors": errors}


PARTS: Mapping[str, Callable[[], str]] = {
    "command-overview": command_overview,
    "commands": commands,
    "chat-commands": chat_commands,
    "definitions": shipped_definitions,
    "format": definition_format,
    "python": python_part,
}
"""The name of a marker to the function that generates its part."""


if __name__ == "__main__":
    main()
