"""Reply policies: a deterministic, rule-based stand-in for the model.

Used in two places with the same answers:
  * fake_llm.py (over HTTP, OpenAI protocol);
  * the peers' in-process stubs (HTTP out of the picture).

A policy is any object with `reply(request: dict) -> Reply`, where `request` is the body of
an OpenAI chat-completions call. `FormPolicy` (the default) is a list of *protocols*, each of
which recognises one peer's prompt, reads the current state out of it and answers in that
peer's reply format. What the "model" understands of the user's message is one shared
function, `understand(key, text)`, so that every peer gets the same NLU. Standard library only.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Reply:
    content: str | None = None
    # [{"name":..., "arguments": {...}}]
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    kind: str = "text"  # which protocol answered; recorded with the request


Body = dict[str, Any]
"""The body of a chat-completions call."""
KEYS = ("name", "email", "date")

# -- shared understanding

_NAME = re.compile(r"\b([A-Z][a-z]+ [A-Z][a-z]+)\b")
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_DATE = re.compile(r"\b(\d{1,2} [A-Z][a-z]+ \d{4}|\d{4}-\d\d-\d\d)\b")
_NUMBER = re.compile(r"\b(\d{1,3})\b")
_PHONE = re.compile(r"\+?\d[\d\s-]{6,}\d")


def _first(rx: re.Pattern[str], text: str) -> str | None:
    m = rx.search(text)
    return m.group(1 if rx.groups else 0) if m else None


def is_yes(text: str) -> bool:
    return bool(re.match(r"\s*(yes|correct|right|ok)\b", text, re.I))


def is_no(text: str) -> bool:
    return bool(re.match(r"\s*(no|wrong|change)\b", text, re.I))


def wanted_change(text: str) -> str | None:
    """The field the user wants to correct ('No, the email is wrong' -> 'email')."""
    if not is_no(text):
        return None
    for word in ("email", "name", "date", "phone", "age", "occupation"):
        if word in text.lower():
            return word
    return None


# What a key means is guessed from the words in it; first match wins.
_EXTRACTORS: list[tuple[str, Callable[[str], Any]]] = [
    ("confirm", lambda t: True if is_yes(t) else None),
    ("change", wanted_change),
    ("correct", wanted_change),
    ("mail", lambda t: _first(_EMAIL, t)),
    ("date", lambda t: _first(_DATE, t)),
    ("name", lambda t: None if is_no(t) else _first(_NAME, t)),
    ("phone", lambda t: _first(_PHONE, t)),
    ("age", lambda t: _first(_NUMBER, t)),
    ("occupation", lambda t: t.strip() or None),
]


def understand(key: str, text: str) -> Any:
    """Value of the field `key` in the user's message, or None when it is not there."""
    low = key.lower()
    for word, fn in _EXTRACTORS:
        if word in low:
            return fn(text)
    return None


# -- strict decoding

_NOTHING: Any = object()
"""A value that the reply does not have."""
_EMPTY: dict[str, Any] = {
    "string": "",
    "integer": 0,
    "number": 0.0,
    "boolean": False,
    "array": [],
    "object": {},
}


def decoded(text: str, request: Body) -> str:
    """A reply as a provider writes it that is held to the request's strict schema: every required
    key comes back.
    """
    wanted = (request.get("response_format") or {}).get("json_schema") or {}
    if not wanted.get("strict") or not text.startswith("{"):
        return text
    return json.dumps(_held(json.loads(text), wanted["schema"], wanted["schema"]))


def _held(value: Any, schema: dict[str, Any], root: dict[str, Any]) -> Any:
    """A value in the form of a schema, keys in its order; what is missing is null where that is
    allowed.
    """
    while "$ref" in schema:
        place: Any = root
        for step in schema["$ref"].split("/")[1:]:
            place = place[step]
        schema = place
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        fitting = (option for option in options if value is not _NOTHING and _fits(value, option))
        nulls = (option for option in options if option.get("type") == "null")
        return _held(value, next(fitting, next(nulls, options[0])), root)
    named = schema.get("type", [])
    kinds = [named] if isinstance(named, str) else named
    if value is _NOTHING:
        if not kinds or "null" in kinds:
            return None
        value = schema.get("const", (schema.get("enum") or [_EMPTY[kinds[0]]])[0])
    if "array" in kinds and isinstance(value, dict):  # a form of updates as a list of pairs
        value = [{"key": key, "value": item} for key, item in value.items()]
    if isinstance(value, list):
        return [_held(item, schema.get("items", {}), root) for item in value]
    if not isinstance(value, dict):
        return value
    parts = schema.get("properties", {})
    held = {
        key: _held(value.get(key, _NOTHING), part, root)
        for key, part in parts.items()
        if key in value or key in schema.get("required", ())
    }
    more = {} if schema.get("additionalProperties") is False else value
    return {**held, **{key: item for key, item in more.items() if key not in parts}}


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether an option of a schema is the one for a value, by its type, and by the constants in
    it.
    """
    kinds = {
        dict: "object",
        list: "array",
        str: "string",
        bool: "boolean",
        int: "integer",
        float: "number",
    }
    named, kind = schema.get("type"), kinds.get(type(value), "null")
    allowed = [kind] if named is None else [named] if isinstance(named, str) else named
    if kind not in allowed and not (kind == "integer" and "number" in allowed):
        return False
    if value not in schema.get("enum", [value]) or value != schema.get("const", value):
        return False
    parts = schema.get("properties", {}) if isinstance(value, dict) else {}
    return all(_fits(value[key], part) for key, part in parts.items() if key in value)


# -- request helpers


def content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(p.get("text", "") for p in content if isinstance(p, dict))
    return ""


def system_text(request: Body) -> str:
    return "\n".join(
        content_text(m.get("content"))
        for m in request["messages"]
        if m["role"] in ("system", "developer")
    )


def last_user(request: Body) -> str:
    for m in reversed(request["messages"]):
        if m["role"] == "user":
            return content_text(m.get("content"))
    return ""


def _between(text: str, start: str, end: str) -> str | None:
    i = text.find(start)
    if i < 0:
        return None
    i += len(start)
    j = text.find(end, i)
    return text[i:j] if j >= 0 else None


def _loads(text: str | None, default: Any) -> Any:
    try:
        return json.loads(text) if text else default
    except ValueError:
        return default


# -- protocols
# Each takes (request, system prompt, last user message) and returns a Reply or None.


def choose_transition(transitions: list[dict], known: dict, text: str, here: str) -> str:
    """Pick a target as a sensible model would: by correction asked for, confirmation, keys known."""
    change = wanted_change(text)
    for t in transitions:
        if t["to"] == here:
            continue
        desc = (
            t.get("desc", "")
            + " "
            + t["to"]
            + " "
            + " ".join(c.get("desc", "") for c in t.get("conditions", []))
        ).lower()
        if "change" in desc or "correction" in desc:
            if change and change in desc:
                return t["to"]
            continue
        if "confirms" in desc:
            if is_yes(text):
                return t["to"]
            continue
        keys = [k for c in t.get("conditions", []) for k in c.get("keys", [])]
        unless = re.search(r"unless (\w+) known", desc)
        if unless and known.get(unless.group(1)):
            continue
        if all(known.get(k) is not None for k in keys):
            return t["to"]
    return here


def _move(here: str, target: str, updates: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return a move and the words for it."""
    words = f"Thank you. ({here} -> {target}) Please tell me what comes next."
    return {"target_state": target, "context_update": updates}, words


def _answer(here: str, target: str, updates: dict[str, Any]) -> Reply:
    move, words = _move(here, target, updates)
    return Reply(json.dumps({"transition": move, "message": words}), kind="seed.turn")


def _our_answer(here: str, target: str, updates: dict[str, Any], kind: str) -> Reply:
    move, words = _move(here, target, updates)
    return Reply(json.dumps({**move, "message": words}), kind=kind)


def our_protocol(request: Body, system: str, text: str) -> Reply | None:
    """The prompt of this checkout: everything of the turn is in the user message, <user_input> its
    last section.
    """
    if "<current_state>\n" not in text:
        return None
    here = _between(text, "<id>", "</id>") or ""
    said = _loads(_between(text, "<user_input>\n", "\n</user_input>"), "")
    if not said:
        return _our_answer(here, here, {}, "ours.greeting")
    context = _loads(_between(text, "<current_context>\n", "\n</current_context>"), {})
    transitions = _loads(_between(text, "<transitions>\n", "\n</transitions>"), [])
    updates = {key: found for key in KEYS if (found := understand(key, said)) is not None}
    target = choose_transition(transitions, {**context, **updates}, said, here)
    return _our_answer(here, target, updates, "ours.turn")


def seed_era_protocol(request: Body, system: str, text: str) -> Reply | None:
    """The prompt of llm-fsm 0.1.1: the state, its keys and transitions in the system message."""
    if "<transition_instructions>" not in system:
        return None
    here = _between(system, "<name>", "</name>") or ""
    context = _loads(_between(system, "\n<current_context>\n", "\n</current_context>"), {})
    listed = _between(system, "\n<transition_instructions>\n", "\n</transition_instructions>") or ""
    transitions = [
        {
            "to": item["target_state"],
            "desc": item["description"],
            "conditions": [
                {"keys": condition.get("required_keys", [])}
                for condition in item.get("conditions", [])
            ],
        }
        for item in _loads(listed[listed.find("[\n") :], [])
    ]
    greets = "<conversation_history>" not in system or not text
    updates = (
        {}
        if greets
        else {key: found for key in KEYS if (found := understand(key, text)) is not None}
    )
    target = here if greets else choose_transition(transitions, {**context, **updates}, text, here)
    return _answer(here, target, updates)


def fsm_llm_protocol(request: Body, system: str, text: str) -> Reply | None:
    """The prompt of fsm-llm 0.1.3: the states that can follow, one a line, at the end of the system
    message.
    """
    found = re.search(r"You are currently in (\w+) and based on user input", system)
    if found is None:
        return None
    here = found.group(1)
    told = " ".join(
        content_text(m.get("content")) for m in request["messages"] if m["role"] == "user"
    )
    transitions = [
        {
            "to": to,
            "desc": desc,
            "conditions": [{"keys": KEYS if to == "confirm" else [here] if here in KEYS else []}],
        }
        for to, desc in re.findall(r"^- (\w+): ((?:If|When) .*)$", system, re.MULTILINE)
    ]
    transitions.sort(key=lambda item: item["to"] != "confirm")
    updates = {key: value for key in KEYS if (value := understand(key, text)) is not None}
    known = {
        **{key: value for key in KEYS if (value := understand(key, told)) is not None},
        **updates,
    }
    if here in KEYS and here not in updates:
        known.pop(here, None)
    target = choose_transition(transitions, known, text, here)
    fields = {key: updates.get(key) for key in KEYS}
    words = {**fields, "content": "Thank you. Please tell me what comes next."}
    return Reply(json.dumps({"response": words, "next_state_key": target}), kind="fsm_llm.turn")


def tools_protocol(request: Body, system: str, text: str) -> Reply | None:
    """Any framework that offers tools: call the first one, filled by key names; then finish in
    text.
    """
    tools = request.get("tools")
    if not tools:
        return None
    if request["messages"][-1]["role"] == "tool":
        return Reply("Done: the tool has answered, this step is complete.", kind="tool.final")
    fn = tools[0]["function"]
    args: dict[str, Any] = {}
    schema = fn.get("parameters") or {}
    for key, spec in (schema.get("properties") or {}).items():
        if key in ("reply", "message"):
            args[key] = "Thank you. Please tell me what comes next."
            continue
        value = understand(key, text)
        if value is None and key in schema.get("required", []):
            value = {"integer": 1, "number": 1.0, "boolean": False, "array": [], "object": {}}.get(
                spec.get("type"), text or "x"
            )
        if value is not None:
            args[key] = value
    return Reply(tool_calls=[{"name": fn["name"], "arguments": args}], kind="tool.call")


def hand_form_protocol(request: Body, system: str, text: str) -> Reply | None:
    """The hand-written form of hand_form.py: {"fields", "confirmed", "change", "reply"}."""
    if "FORM-JSON" not in system:
        return None
    return Reply(
        json.dumps(
            {
                "fields": {
                    k: v
                    for k in ("name", "email", "date")
                    if (v := understand(k, text)) is not None
                },
                "confirmed": bool(understand("confirm", text)),
                "change": wanted_change(text),
                "reply": "Thank you. Please tell me what comes next.",
            }
        ),
        kind="hand.turn",
    )


def plain_protocol(request: Body, system: str, text: str) -> Reply | None:
    return Reply("Thank you. Please tell me what comes next.", kind="plain")


_WORDS = (
    "we",
    "will",
    "go",
    "on",
    "at",
    "your",
    "own",
    "pace",
    "and",
    "you",
    "may",
    "change",
    "any",
    "answer",
)


class FormPolicy:
    """The default policy. `pad_tokens` > 0 lengthens the user-visible text to about that many
    tokens.
    """

    protocols = (
        our_protocol,
        seed_era_protocol,
        fsm_llm_protocol,
        hand_form_protocol,
        tools_protocol,
        plain_protocol,
    )

    def __init__(self, pad_tokens: int = 0):
        self.pad_tokens = pad_tokens

    def reply(self, request: Body) -> Reply:
        system, text = system_text(request), last_user(request)
        for protocol in self.protocols:
            r = protocol(request, system, text)
            if r is not None:
                r.content = r.content and decoded(r.content, request)
                return (
                    self._pad(r)
                    if self.pad_tokens and r.kind.endswith(("turn", "call", "plain"))
                    else r
                )
        raise AssertionError("plain_protocol always answers")

    def _pad(self, r: Reply) -> Reply:
        if r.tool_calls:
            args = r.tool_calls[0]["arguments"]
            if "reply" in args:
                args["reply"] += "".join(
                    " " + _WORDS[i % len(_WORDS)] for i in range(self.pad_tokens)
                )
            return r
        # varied, as clients watch for a model that repeats itself (litellm raises after 100 equal
        # chunks)
        filler = "".join(" " + _WORDS[i % len(_WORDS)] for i in range(self.pad_tokens))
        text = r.content or ""
        marker = "what comes next."
        r.content = text.replace(marker, marker + filler, 1)
        return r


def load_policy(spec: str, **kwargs: Any) -> Any:
    """'form' or 'package.module:ClassName'."""
    if spec == "form":
        return FormPolicy(**kwargs)
    module, _, cls = spec.partition(":")
    return getattr(importlib.import_module(module), cls)(**kwargs)
