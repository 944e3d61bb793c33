"""The prompts that a model reads. The words are in `prompts/*.j2`; here they are filled in, and
data is escaped.

The system message is the same in every turn of a machine. The user message begins with the history,
which is append-only between trims. It ends with what changes most, so that a provider's prompt
cache can serve the start. Everything that comes from people, models, tools and context stands as
JSON strings. No character in them can close the markup around it. Nothing is rewritten or filtered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from llm_fsm._json import JsonDict, JsonMap, TextMap
from llm_fsm._text import clean, cut, escaped, estimate
from llm_fsm._zones import zone_of
from llm_fsm.definition.json_schema.inline import lean, mapped
from llm_fsm.definition.models import Definition
from llm_fsm.session.context import Keys
from llm_fsm.session.list_items import first_property, is_list
from llm_fsm.session.messages import LLMMessage, LLMRequest, ReplyForm
from llm_fsm.session.session import Exchange
from llm_fsm.session.values import declared
from llm_fsm.turn.localized import label_of
from llm_fsm.turn.prompt.state_text import TAGS, StateText

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SECTION = re.compile(
    r"^<([a-z_]+)>$(.*?)^</\1>$|^<([a-z_]+)>(.*?)</\3>$", re.DOTALL | re.MULTILINE
)
_KEY_WORDS = (
    "format",
    "pattern",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "const",
    "items",
    "properties",
    "required",
    "anyOf",
    "oneOf",
    "allOf",
)
_TEXT_WORDS = ("pattern", "minLength", "maxLength")
DAY_TOKENS = 9
"""Tokens of <today>, which always has the same form."""
_DAYS_AHEAD = 7
_MONTH = len("2030-05")
_QUOTED_CHARS = 4000
"""A second try quotes the refused reply. A longer one would drive the rest out of the prompt."""
_FIRST = 2
"""Messages of a question before anything was said about it: the system's and the user's."""
_NOTHING = "{}"
"""An empty reply as it is quoted: servers take no message of the model that has nothing in it."""


@dataclass(frozen=True, kw_only=True)
class Prompts:
    """The compiled prompt files. Rarely used templates compile on first use."""

    environment: Environment
    sources: TextMap
    system: Template
    turn: Template

    @cached_property
    def retry(self) -> Template:
        """The words that a second try is told."""
        return self.environment.from_string(self.sources["retry"])

    @cached_property
    def task(self) -> Template:
        """The brief of a task."""
        return self.environment.from_string(self.sources["task"])

    @cached_property
    def judge(self) -> Template:
        """The brief of who judges what came of a task."""
        return self.environment.from_string(self.sources["judge"])

    @cached_property
    def summary(self) -> Template:
        """The brief of who summarises."""
        return self.environment.from_string(self.sources["summary"])


def compile_prompts(sources: TextMap) -> Prompts:
    """Compile the prompt files; `sources` is file name without ending to text, one for each of
    `Prompts`.
    """
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    return Prompts(
        environment=environment,
        sources=sources,
        system=environment.from_string(sources["system"]),
        turn=environment.from_string(sources["turn"]),
    )


def _filled(template: Template, values: JsonDict) -> str:
    """Fill a template with its values alone; `render` would copy all that jinja2 offers before each
    turn.
    """
    return "".join(template.root_render_func(template.new_context(values, shared=True)))


def key_line(key: str, schema: JsonMap) -> str:
    """Return a key as <context_keys> shows it: its name, then type, bounds and description where it
    has them.
    """
    kind, inner = schema.get("type"), mapped(schema, lean)
    parts: list[str] = []
    if kind and kind != "string":
        parts.append("/".join(kind) if isinstance(kind, list) else kind)
    if "enum" in schema:
        parts = [f"one of {','.join(_choice(schema, value) for value in schema['enum'])}"]
    words = schema.get("description") or schema.get("title")
    # A description tells the form of a text in fewer tokens than an expression does.
    left_out = _TEXT_WORDS if words else ()
    told = [word for word in _KEY_WORDS if word in schema and word not in left_out]
    parts += [f"{word} {_plain(inner[word])}" for word in told]
    line = f"{key} ({', '.join(parts)})" if parts else key
    return f"{line}: {' '.join(clean(words).split())}" if isinstance(words, str) and words else line


def _choice(schema: JsonMap, value: Any) -> str:
    """Return a value of an enum, with its words where it has some."""
    words = label_of(schema, value)
    return f"{escaped(value)} ({clean(words)})" if words else escaped(value)


def is_whole(schema: JsonMap) -> bool:
    """Return true when a key takes lists or objects, of which a reply sends all."""
    return schema.get("type") in ("array", "object") or "items" in schema or "properties" in schema


def _plain(value: object) -> str:
    return clean(value) if isinstance(value, str) else escaped(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemParts:
    """The parts of a system message, beside the definition's own name, description and persona.

    Attributes:
        keys: The key list.
        patterns: A line for each repair pattern.
        tools: Some state offers tools.
        agrees: Some transition is the user's yes.
        reasoning: none, first or last.
        form: The form of a reply.
        quoted: The keys with values that need a quote of the user.
        digits: The keys with values of digits that the user must have said.
        facts: True if a reply may keep facts that have no key.
    """

    keys: str
    patterns: str
    tools: bool
    agrees: bool
    reasoning: str
    form: ReplyForm
    quoted: str
    digits: str
    facts: bool


def system_prompt(prompts: Prompts, definition: Definition, keys: Keys, said: SystemParts) -> str:
    """Return the system message of a machine, without the day."""
    a_list = next((key for key, schema in keys.offered.items() if is_list(schema)), "")
    return prompts.system.render(
        name=clean(definition.name),
        description=clean(definition.description),
        persona=clean(definition.persona),
        keys=said.keys,
        quoted=said.quoted,
        digits=said.digits,
        declared=keys.declared,
        list=clean(a_list),
        list_part=clean(first_property(keys.offered.get(a_list, {}))),
        part=clean(next(declared(keys.offered), "")),
        form=_form(said.form, said.reasoning),
        facts=said.facts,
        patterns=clean(said.patterns),
        tools=said.tools,
        agrees=said.agrees,
        reasoning=said.reasoning,
        listed=said.form == "list",
        languages=len(definition.tags) > 1,
    )


def _form(form: ReplyForm, reasoning: str) -> str:
    """Return the form of a reply in one line. It has no value that a model could copy."""
    update = '[{"key": key, "value": value}]' if form == "list" else "{key: value}"
    parts = [
        '"target_state": name',
        f'"context_update": {update}',
        '"message": text',
        '"question": text',
    ]
    if reasoning == "first":
        parts.insert(0, '"reasoning": text')
    elif reasoning == "last":
        parts.append('"reasoning": text')
    return f"{{{', '.join(parts)}}}"


def with_day(system: str, time: float, zone: str, *, calendar: bool = False) -> str:
    """Return a system message with the day of a time, in seconds since the epoch, as its last
    section.

    `calendar`: the days after it follow, because models count weekdays wrongly.
    """
    minute = int(time // 60)
    days = f"<next_days>{_days_ahead(minute, zone)}</next_days>\n" if calendar else ""
    return f"{system}<today>{_local(minute, zone)[0]}</today>\n{days}"


@lru_cache(maxsize=64)
def _days_ahead(minute: int, zone: str) -> str:
    """Return the days after a day with their weekdays, and the name of each further month."""
    today = datetime.fromtimestamp(minute * 60, UTC).astimezone(zone_of(zone)).date()
    months: dict[str, list[str]] = {today.isoformat()[:_MONTH]: []}
    for number in range(1, _DAYS_AHEAD + 1):
        day = today + timedelta(days=number)
        named = f"{_DAYS[day.weekday()][:3]} {day.day:02}"
        months.setdefault(day.isoformat()[:_MONTH], []).append(named)
    here, *later = months.items()
    parts = [", ".join(here[1])] if here[1] else []
    parts += [f"{month}: {', '.join(days)}" for month, days in later]
    return "; ".join(parts)


def moment(time: float, zone: str) -> str:
    """Return a time as <now> shows it, whatever the locale of the process."""
    return _local(int(time // 60), zone)[1]


@lru_cache(maxsize=64)
def _local(minute: int, zone: str) -> tuple[str, str]:
    """Return the day and the minute in a time zone."""
    at = datetime.fromtimestamp(minute * 60, UTC).astimezone(zone_of(zone))
    where = zone or "UTC"
    day = f"{at.year:04}-{at.month:02}-{at.day:02}"
    return f"{_DAYS[at.weekday()]}, {day}", f"{day}T{at.hour:02}:{at.minute:02} ({where})"


def history_text(window: Iterable[Exchange]) -> str:
    """Return the exchanges as the JSON that a prompt shows; "" if there are none."""
    messages: list[dict[str, str]] = []
    for user, system in window:
        if user is not None:
            messages.append({"user": user})
        if system:
            messages.append({"system": system})
    return escaped(messages) if messages else ""


def section(value: Any) -> str:
    """Return a value as a section shows it, as JSON; "" if there is nothing to show."""
    return escaped(value) if value else ""


def turn_prompt(
    prompts: Prompts,
    fixed: Mapping[str, int],
    words: StateText,
    shown: dict[str, str],
    *,
    missing: Sequence[str],
    words_only: bool,
    greeting: bool,
) -> tuple[str, dict[str, int]]:
    """Return the user message of one call, and the estimated tokens of each section after the
    `fixed` ones.

    Args:
        prompts: The prompt files.
        fixed: The sizes of the other parts of the question, in tokens.
        words: The words of the state.
        shown: The text of each section, by the name that the prompt file has for it; "" leaves it
            out.
        missing: The keys that are collected and not known yet.
        words_only: True if nothing but the message of the reply counts.
        greeting: True if these words begin the conversation.
    """
    lacking = ", ".join(missing)
    state = words.tokens + (estimate(lacking) + 2 * TAGS if lacking else 0)
    sizes = {**fixed, "current_state": state}
    sizes |= {name: estimate(part) + TAGS for name, part in shown.items() if part}
    own: dict[str, object] = {"state": words, "missing": lacking}
    text = _filled(prompts.turn, {**shown, **own, "words_only": words_only, "greeting": greeting})
    if words_only:  # says in words of ours what they are for
        sizes["task"] = max(0, estimate(text) - sum(sizes.values()) + sum(fixed.values()))
    return text, sizes


def own_sizes(request: LLMRequest) -> Mapping[str, int]:
    """Return the estimated tokens of a question's parts, tools apart: those that it tells, else of
    its two messages.
    """
    return request.sizes or {
        item.role: estimate(item.content) for item in request.messages[:_FIRST]
    }


def call_sizes(request: LLMRequest) -> Mapping[str, int]:
    """Return the estimated tokens of the parts of one call.

    They are `own_sizes`, its tools, and their calls and results so far.
    """
    parts = own_sizes(request)
    if request.tools:
        parts = {**parts, "tools": sum(estimate(tool.text) for tool in request.tools)}
    if len(request.messages) > _FIRST:
        since = [item for item in request.messages if item.tool_calls or item.tool_call_id]
        if since:
            parts = {
                **parts,
                "tool_calls": sum(estimate(escaped(item.to_dict())) for item in since),
            }
    return parts


def second_try(
    prompts: Prompts,
    text: str,
    reason: str,
    *,
    again: str = "",
    stay: str = "",
    listed: bool = False,
) -> tuple[LLMMessage, LLMMessage]:
    """Return a refused reply and the line that follows it, with what the next reply may do.

    `again`: the name to repeat if the user said what is missing. `stay`: the name for all else.
    `listed`: True if the reply named no state that the prompt lists.
    """
    line = prompts.retry.render(reason=escaped(reason), again=again, stay=stay, listed=listed)
    said = cut(text, _QUOTED_CHARS) if text.strip() else _NOTHING
    return LLMMessage("assistant", said), LLMMessage("user", line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section of a prompt and its size in characters and estimated tokens."""

    name: str
    chars: int
    tokens: int


def sections(text: str) -> tuple[Section, ...]:
    """Return the outermost sections of a rendered prompt, in order."""
    found = []
    for match in _SECTION.finditer(text):
        name = match.group(1) or match.group(3)
        found.append(Section(name=name, chars=len(match.group()), tokens=estimate(match.group())))
    return tuple(found)
