"""What the model reads. The words are in `prompts/*.j2`; here is what goes into them, and how it is escaped.

The system message is the same in every turn of a machine. The user message begins with the history, which
is append-only between trims, and ends with what changes most, so that a provider's prompt cache can serve
the start. Everything that comes from people, models, tools and context stands as JSON strings in which no
character can close the markup around it; nothing is rewritten or filtered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from llm_fsm.context import Keys
from llm_fsm.definition import Definition, State
from llm_fsm.tokens import estimate
from llm_fsm.transition import Move

_GLIMPSE_CHARS = 300
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")
_SECTION = re.compile(r"^<([a-z_]+)>$(.*?)^</\1>$|^<([a-z_]+)>(.*?)</\3>$", re.DOTALL | re.MULTILINE)
_KEY_WORDS = ("type", "format", "pattern", "enum", "minimum", "maximum", "items", "properties", "description")
_FORM = (
    '{"transition": {"target_state": "…", "context_update": {"…": …, "_extra": {…}, "_clear": […]}}, '
    '"message": "…"}'
)


def escaped(value: object) -> str:
    """Compact JSON in which `<`, `>`, `&`, line separators and lone surrogates are \\u escapes."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def clean(text: str) -> str:
    """An author's text as it can be sent: lone surrogates replaced."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """The compiled prompt files."""

    system: Template
    turn: Template
    retry: Template
    task: Template
    judge: Template
    summary: Template


def compile_prompts(sources: Mapping[str, str]) -> Prompts:
    """Compile the prompt files; `sources` is file name without ending to text, one for each of `Prompts`."""
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    return Prompts(**{item.name: environment.from_string(sources[item.name]) for item in fields(Prompts)})


@dataclass(frozen=True, slots=True, kw_only=True)
class StateWords:
    """A state's own words, as its prompt shows them."""

    id: str
    description: str
    purpose: str
    instructions: str
    example: str


def state_words(state_id: str, state: State) -> StateWords:
    """The words of a state; its instructions of all kinds are joined."""
    instructions = (state.instructions, state.extraction_instructions, state.response_instructions)
    return StateWords(
        id=state_id,
        description=clean(state.description) if state.description != state.purpose else "",
        purpose=clean(state.purpose),
        instructions=clean("\n".join(text for text in instructions if text)),
        example=escaped(state.example_dialogue) if state.example_dialogue else "",
    )


def _short(text: str) -> str:
    line = " ".join(clean(text).split())
    return line if len(line) <= _GLIMPSE_CHARS else line[:_GLIMPSE_CHARS] + "…"


def glimpse(definition: Definition, state_id: str) -> dict[str, Any]:
    """What another state's prompt shows of this one: what it is there for, asks and says."""
    state = definition.states[state_id]
    shown: dict[str, Any] = {}
    if state.purpose or state.description:
        shown["purpose"] = _short(state.purpose or state.description)
    if state.required_context_keys:
        shown["collects"] = list(state.required_context_keys)
    words = state.response_instructions or state.instructions
    if state.reply is not None:
        shown["adds_after_your_message"] = _short(state.reply)
    elif words:
        shown["instructions"] = _short(words)
    if definition.kind_of(state_id) == "final":
        shown["final"] = True
    return shown


def transition_item(move: Move, there: Mapping[str, Any] | None, *, is_open: bool) -> str:
    """One entry of <transitions> as JSON."""
    item: dict[str, Any] = {"to": move.target}
    if move.description:
        item["desc"] = clean(move.description)
    if move.priority != 100:
        item["priority"] = move.priority
    conditions = []
    for guard in move.guards:
        condition: dict[str, Any] = {}
        if guard.description:
            condition["desc"] = clean(guard.description)
        if guard.keys:
            condition["keys"] = list(guard.keys)
        if guard.rule is not None:
            condition |= {"checked": True} if guard.description else {"logic": guard.logic}
        if condition:
            conditions.append(condition)
    if conditions:
        item["conditions"] = conditions
    if move.auto:
        item["auto"] = True
    if not is_open:
        item["open"] = False
    if there:
        item["there"] = there
    return escaped(item)


def _key_line(key: str, schema: Mapping[str, Any]) -> str:
    return escaped({"key": key, **{word: schema[word] for word in _KEY_WORDS if word in schema}})


def system_prompt(prompts: Prompts, definition: Definition, keys: Keys) -> str:
    """The system message of a machine."""
    reasoning = definition.model.reasoning or "none"
    form = _FORM
    if reasoning == "first":
        form = '{"reasoning": "…", ' + form[1:]
    elif reasoning == "last":
        form = form[:-1] + ', "reasoning": "…"}'
    return prompts.system.render(
        name=clean(definition.name),
        description=clean(definition.description),
        persona=clean(definition.persona),
        keys="\n".join(_key_line(key, schema) for key, schema in keys.offered.items()),
        declared=keys.declared,
        form=form,
        reasoning=reasoning != "none",
    )


def _history(window: Iterable[tuple[str | None, str]]) -> str:
    messages: list[dict[str, str]] = []
    for user, system in window:
        if user is not None:
            messages.append({"user": user})
        messages.append({"system": system})
    return escaped(messages)


def turn_prompt(
    prompts: Prompts,
    *,
    words: StateWords,
    window: Iterable[tuple[str | None, str]],
    context: Mapping[str, Any],
    missing: Sequence[str],
    notes: Iterable[tuple[str, str]],
    items: Sequence[str],
    valid: Sequence[str],
    user: str | None,
    time: float,
    words_only: bool,
    greeting: bool = False,
    summary: str = "",
    memory: Mapping[str, Any] | None = None,
) -> str:
    """The user message of one call. `items` are entries of <transitions>; `valid` the states that may be named.

    `time`: seconds since the epoch of the turn.
    """
    return prompts.turn.render(
        history=_history(window),
        state=words,
        missing=", ".join(missing),
        context=escaped(context),
        notes=escaped([{"key": key, "reason": reason} for key, reason in notes]) if notes else "",
        valid=", ".join(valid),
        transitions="[" + ",\n".join(items) + "]",
        user=None if user is None else escaped(user),
        now=datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%MZ, %A"),
        words_only=words_only,
        greeting=greeting,
        summary=escaped(summary) if summary else "",
        memory=escaped(memory) if memory else "",
    )


def retry_line(prompts: Prompts, reason: str, valid: Sequence[str] | None) -> str:
    """The line that follows a refused reply; `valid` are the states that may be named, where that matters."""
    return prompts.retry.render(
        reason=escaped(reason),
        open=None if valid is None else ", ".join(valid),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section of a prompt and its size in characters and estimated tokens."""

    name: str
    chars: int
    tokens: int


def sections(text: str) -> tuple[Section, ...]:
    """The outermost sections of a rendered prompt, in order."""
    found = []
    for match in _SECTION.finditer(text):
        name = match.group(1) or match.group(3)
        found.append(Section(name=name, chars=len(match.group()), tokens=estimate(match.group())))
    return tuple(found)
