"""What the model reads. The words are in `prompts/*.j2`; here is what goes into them, and how it is escaped.

The system message is the same in every turn of a machine. The user message begins with the history, which
is append-only between trims, and ends with what changes most, so that a provider's prompt cache can serve
the start. Everything that comes from people, models, tools and context stands as JSON strings in which no
character can close the markup around it; nothing is rewritten or filtered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from llm_fsm.compact import in_unicode
from llm_fsm.context import Keys
from llm_fsm.definition import Definition, State
from llm_fsm.tokens import estimate
from llm_fsm.transition import Move

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_GLIMPSE_CHARS = 160
_ENDS = ".!?:…。！？"
_WORKS = ("task", "subflow")
"""Kinds of states whose instructions are for their work and not for words."""
_NO_WORD = re.compile(r"[\W_]+")
_TAGS = 6
"""Tokens of the markup around a section."""
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")
_SECTION = re.compile(r"^<([a-z_]+)>$(.*?)^</\1>$|^<([a-z_]+)>(.*?)</\3>$", re.DOTALL | re.MULTILINE)
_KEY_WORDS = (
    *("format", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"),
    *("const", "items", "properties"),
)
_FORM = '{"transition":{"target_state":"","context_update":{"…":…,"_extra":{},"_clear":[]}},"message":""}'


def escaped(value: object) -> str:
    """Compact JSON in which `<`, `>`, `&`, line separators and lone surrogates are \\u escapes."""
    text = in_unicode(value)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def clean(text: str) -> str:
    """An author's text as it can be sent: lone surrogates replaced."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """The compiled prompt files. `whole`: the system message holds every state, and a turn none."""

    system: Template
    turn: Template
    retry: Template
    task: Template
    judge: Template
    summary: Template
    whole: bool = False


_FILES = ("system", "turn", "retry", "task", "judge", "summary")


def compile_prompts(sources: Mapping[str, str], *, whole: bool = False) -> Prompts:
    """Compile the prompt files; `sources` is file name without ending to text, one for each of `Prompts`."""
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    return Prompts(**{name: environment.from_string(sources[name]) for name in _FILES}, whole=whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateWords:
    """A state's own words, as its prompt shows them."""

    id: str
    description: str = ""
    purpose: str = ""
    instructions: str = ""
    example: str = ""
    tokens: int = 0
    """Estimated tokens of <current_state>."""


def state_words(state_id: str, state: State) -> StateWords:
    """The words of a state; its instructions of all kinds are joined."""
    instructions = (state.instructions, state.extraction_instructions, state.response_instructions)
    texts = {
        "id": state_id,
        "description": clean(state.description) if state.description != state.purpose else "",
        "purpose": clean(state.purpose),
        "instructions": clean("\n".join(text for text in instructions if text)),
        "example": escaped(state.example_dialogue) if state.example_dialogue else "",
    }
    tokens = sum(estimate(texts[name]) + _TAGS for name in ("id", "example") if texts[name]) + _TAGS
    return StateWords(**texts, tokens=tokens)


def state_line(words: StateWords, shown: Mapping[str, Any], items: Iterable[str]) -> str:
    """A state as <states> shows it: its words, what `glimpse` shows beside them, its transitions as JSON."""
    own = {name: getattr(words, name) for name in ("id", "description", "purpose", "instructions")}
    line = escaped({**{name: text for name, text in own.items() if text}, **shown})
    menu = ",".join(items)
    example = f',"example_dialogue":{words.example}' if words.example else ""
    return f'{line[:-1]}{example},"transitions":[{menu}]}}' if menu else f"{line[:-1]}{example}}}"


def states_text(definition: Definition, state_ids: Iterable[str]) -> str:
    """What <states> says of some states: a line for each that has words.

    Instructions that several states have word for word get one line, with the ids of all of them.
    """
    words = {state_id: state_words(state_id, definition.states[state_id]) for state_id in state_ids}
    sharing: dict[str, list[str]] = {}
    for state_id, found in words.items():
        if definition.kind_of(state_id) not in _WORKS:
            sharing.setdefault(found.instructions, []).append(state_id)
    lines = [
        _state_line(definition, found, found.instructions if sharing.get(found.instructions) == [state_id] else "")
        for state_id, found in words.items()
    ]
    lines += [f"{', '.join(ids)}: {_indented(text)}" for text, ids in sharing.items() if text and len(ids) > 1]
    return "\n".join(line for line in lines if line)


def _state_line(definition: Definition, words: StateWords, instructions: str) -> str:
    state = definition.states[words.id]
    keys = state.required_context_keys
    final = " (final)" if definition.kind_of(words.id) == "final" else ""
    purpose = "" if state.reply is not None and _names_all(state.reply, [words.purpose]) else words.purpose
    parts = (
        words.description,
        purpose,
        "" if _names_all(words.purpose or words.description, keys) else f"Collects {', '.join(keys)}.",
        instructions,
    )
    said = _indented(" ".join(_ended(part) for part in parts if part))
    if state.reply is not None:
        said = f"{said} Added after your message: {escaped(_short(state.reply))}".lstrip()
    return f"{words.id}{final}: {said}" if said else words.id + final if final else ""


def _ended(text: str) -> str:
    return text if text[-1] in _ENDS else f"{text}."


def _indented(text: str) -> str:
    return "\n  ".join(line.strip() for line in text.splitlines() if line.strip())


def _short(text: str) -> str:
    line = " ".join(clean(text).split())
    if len(line) <= _GLIMPSE_CHARS:
        return line
    return line[:_GLIMPSE_CHARS].rsplit(" ", 1)[0] + " …"


def glimpse(definition: Definition, state_id: str, seen_from: str | None = None) -> dict[str, Any]:
    """What another state's prompt shows of this one: what it is there for, asks and says.

    Instructions that the state `seen_from` has word for word are not said again, nor keys
    that the purpose names, nor a purpose that the fixed reply says.
    """
    state = definition.states[state_id]
    shown: dict[str, Any] = {}
    if state.purpose or state.description:
        shown["purpose"] = _short(state.purpose or state.description)
    if not _names_all(shown.get("purpose", ""), state.required_context_keys):
        shown["collects"] = list(state.required_context_keys)
    words = state.response_instructions or state.instructions
    here = None if seen_from is None else definition.states[seen_from]
    if state.reply is not None:
        shown["adds_after_your_message"] = _short(state.reply)
        if "purpose" in shown and _names_all(state.reply, [shown["purpose"]]):
            del shown["purpose"]
    elif words and (here is None or words not in (here.response_instructions, here.instructions)):
        shown["instructions"] = _short(words)
    if definition.kind_of(state_id) == "final":
        shown["final"] = True
    return shown


def _names_all(text: str, words: Iterable[str]) -> bool:
    """True when each of the words stands in the text, as a whole and whatever its case."""
    said = f" {_NO_WORD.sub(' ', text.casefold())} "
    return all(f" {_NO_WORD.sub(' ', word.casefold()).strip()} " in said for word in words)


def in_words(shown: Mapping[str, Any]) -> str | Mapping[str, Any]:
    """A glimpse as one text, where it is nothing but a purpose, instructions and keys; else as it is."""
    if not shown.keys() <= {"purpose", "instructions", "collects"}:
        return shown
    collected = shown.get("collects")
    parts = (
        shown.get("purpose"),
        f"Collects {', '.join(collected)}" if collected else None,
        shown.get("instructions"),
    )
    said = [part for part in parts if part]
    return " ".join(map(_ended, said))


def transition_item(move: Move, there: Mapping[str, Any] | None, *, is_open: bool) -> str:
    """One entry of <transitions> as JSON."""
    item: dict[str, Any] = {"to": move.target}
    if move.description:
        item["desc"] = clean(move.description)
    conditions = []
    for guard in move.guards:
        condition: dict[str, Any] = {}
        if guard.description and not (move.description and guard.keys and guard.rule is None):
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
        item["there"] = in_words(there)
    return escaped(item)


def key_line(key: str, schema: Mapping[str, Any]) -> str:
    """A key as <context_keys> shows it: its name, then type, bounds and description where it has them."""
    kind = schema.get("type")
    parts = ["/".join(kind) if isinstance(kind, list) else kind] if kind else []
    if "enum" in schema:
        parts = ["one of " + escaped(schema["enum"])[1:-1]]
    parts += [f"{word} {_plain(schema[word])}" for word in _KEY_WORDS if word in schema]
    line = f"{key} ({', '.join(parts)})" if parts else key
    words = schema.get("description") or schema.get("title")
    return f"{line}: {' '.join(clean(words).split())}" if isinstance(words, str) and words else line


def is_bounded(schema: Mapping[str, Any]) -> bool:
    """True when a key takes less than every value of its type."""
    return "enum" in schema or any(word in schema for word in _KEY_WORDS)


def _plain(value: object) -> str:
    return clean(value) if isinstance(value, str) else escaped(value)


def system_prompt(
    prompts: Prompts,
    definition: Definition,
    keys: Keys,
    shown: str,
    *,
    states: str,
    parts: bool,
    judged: bool,
    patterns: str = "",
) -> str:
    """The system message of some states. `shown`: the key list. `patterns`: one line.

    `states`: what <states> says; `parts`: the machine has further ones. `judged`: some condition is for the model
    to judge.
    """
    reasoning = definition.model.reasoning or "none"
    form = _FORM
    if reasoning == "first":
        form = '{"reasoning":"",' + form[1:]
    elif reasoning == "last":
        form = form[:-1] + ',"reasoning":""}'
    return prompts.system.render(
        states=states,
        parts=parts,
        judged=judged,
        name=clean(definition.name),
        description=clean(definition.description),
        persona=clean(definition.persona),
        keys=shown,
        declared=keys.declared,
        form=form,
        reasoning=reasoning != "none",
        patterns=clean(patterns),
    )


def _history(window: Iterable[tuple[str | None, str]]) -> str:
    messages: list[dict[str, str]] = []
    for user, system in window:
        if user is not None:
            messages.append({"user": user})
        messages.append({"system": system})
    return escaped(messages) if messages else ""


def _rendered(template: Template, values: dict[str, Any]) -> str:
    """As `template.render(values)`, without copying the values beside globals that no prompt uses."""
    return "".join(template.root_render_func(template.new_context(values, shared=True)))


def _moment(time: float) -> str:
    """A time as <now> shows it, whatever the locale of the process."""
    return _minute(int(time // 60))


@lru_cache(maxsize=16)
def _minute(number: int) -> str:
    at = datetime.fromtimestamp(number * 60, UTC)
    return f"{at.year:04}-{at.month:02}-{at.day:02}T{at.hour:02}:{at.minute:02}Z {_DAYS[at.weekday()]}"


def turn_prompt(
    prompts: Prompts,
    *,
    words: StateWords,
    window: Iterable[tuple[str | None, str]],
    keys: str,
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
    earlier: str = "",
) -> tuple[str, dict[str, int]]:
    """The user message of one call, and the estimated tokens of each of its larger sections.

    `items` are entries of <transitions>; `valid` the states that may be named; `keys` the lines
    of keys that the system message does not list; `earlier` those of answers from before a flow.
    `time`: seconds since the epoch of the turn.
    """
    shown = {
        "history_summary": escaped(summary) if summary else "",
        "conversation_history": _history(window),
        "further_context_keys": keys,
        "current_context": escaped(context) if context else "",
        "earlier_answers": earlier,
        "memory": escaped(memory) if memory else "",
        "refused": escaped([{"key": key, "reason": reason} for key, reason in notes]) if notes else "",
        "transitions": "" if words_only or not items else f"[{','.join(items)}]",
        "user_input": "" if user is None else escaped(user),
    }
    text = _rendered(
        prompts.turn,
        {
            **shown,
            "state": words,
            "missing": ", ".join(missing),
            "valid": ", ".join(valid),
            "now": _moment(time),
            "words_only": words_only,
            "greeting": greeting,
        },
    )
    sizes = {name: estimate(value) + _TAGS for name, value in shown.items() if value}
    return text, {"current_state": words.tokens, **sizes}


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
