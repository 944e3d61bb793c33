"""The context: its keys, who may write them, and which changes are accepted.

A reply may write declared keys of source `model`; without a `context_schema`, any well-formed key.
Other keys of a reply are stored under `_extra`, and keys that begin with `_` are dropped. A value
that its schema refuses is not stored, and the model is told the reason.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from llm_fsm._json import JsonDict, JsonMap, Schemas, TextMap, is_same, only, without, without_none
from llm_fsm.conditions.compiler import look_up
from llm_fsm.definition.json_schema.inline import simplified
from llm_fsm.definition.json_schema.validator import CompiledSchema, compile_shape
from llm_fsm.definition.models import Definition
from llm_fsm.definition.names import KEY_PATTERN
from llm_fsm.languages import language_names
from llm_fsm.session.events import ContextRefused, ContextSet, Event
from llm_fsm.session.list_items import with_items
from llm_fsm.session.normalize import WrittenForm, as_schema, forms, normalised
from llm_fsm.session.placeholders import placeholder_in
from llm_fsm.session.proof import Claim, is_made_of_a_question, prove, unsaid_moment
from llm_fsm.session.quotes import (
    KINDS,
    NOT_SAID,
    QUOTES,
    SAID,
    Place,
    UserWords,
    digits_of,
    find_quote,
    quotes_of,
)
from llm_fsm.session.redaction import DOTS, texts_in
from llm_fsm.session.reply_schema import from_strict, pairs
from llm_fsm.session.value_rules import ValueRule, compile_value_rules
from llm_fsm.session.values import (
    Path,
    ValueFault,
    completed,
    declared,
    joined,
    nulls,
    only_nulls,
    part_schema,
    paths,
    reserved,
    reserved_fault,
    to_context_value,
    to_json_value,
    with_part,
    without_part,
)

EXTRA = "_extra"
CLEAR = "_clear"
KEY = re.compile(KEY_PATTERN)
MAX_EXTRA_KEYS = 50
MAX_KEYS = 1000
_MISSING = object()


def has(data: JsonMap, name: str) -> bool:
    """Return true if a key is set and not null."""
    return look_up(data, name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The context keys of one definition, with compiled schemas."""

    declared: bool
    """True if the definition has a `context_schema`."""
    shapes: Mapping[str, CompiledSchema]
    sources: TextMap
    secrets: frozenset[str]
    offered: Schemas
    """Keys that a reply may write, with their schemas ({} if undeclared)."""
    parts: Mapping[str, frozenset[Path]]
    """Keys whose values are objects with parts that states or conditions name, with the paths of
    these parts."""
    reserved: Mapping[str, Iterable[str]]
    """See `llm_fsm.session.values.reserved`."""
    made_of: Mapping[str, tuple[str, ...]]
    """Keys with `x-from`, and what they are made of."""
    rules: tuple[ValueRule, ...] = ()
    """The rules of `x-valid`, in the order of the keys."""

    said: TextMap = field(default_factory=dict)
    """Keys with `x-said`, and the kind of proof: quote or digits."""
    language: str = ""
    """BCP 47 tag of the definition."""
    choices: Mapping[str, tuple[tuple[str, Any], ...]] = field(default_factory=dict)
    """Keys that a state asks for alone, and the texts and values of its `choices`."""

    def claim(
        self,
        key: str,
        value: Any,
        *,
        old: Any = None,
        quotes: Sequence[str] | None = None,
        beside: str = "",
    ) -> Claim:
        """Return a value of a key as something that the user is said to have said."""
        return Claim(
            key=key,
            kind=self.said.get(key, "quote"),
            value=value,
            schema=self.schema(key),
            old=old,
            quotes=quotes,
            tag=self.language,
            words_of=self.choices.get(key, ()),
            beside=beside,
        )

    def unsaid(self, claim: Claim, words: UserWords) -> tuple[Place, ...] | str:
        """Return the places of the user's words for a value, or why it is refused.

        A key without `x-said` needs none, but a day or a time needs a message that may name it.
        """
        if claim.key in self.said:
            return prove(claim, words)
        is_asked = self.schema(claim.key).get(SAID) is not False
        return (unsaid_moment(claim, words) if is_asked else "") or ()

    def is_rule(self, reason: str) -> bool:
        """Return true if the reason of a refusal is the description of a rule."""
        return any(rule.description == reason for rule in self.rules)

    def outdated(self, old: JsonMap, new: JsonMap, given: Container[str]) -> tuple[str, ...]:
        """Return the keys that are made of something that changed. `given`: keys that were just
        given."""
        found = []
        for key, names in self.made_of.items():
            if key in given:
                continue
            # By value, not by mention: a key that is set to what it was outdates nothing.
            if any(look_up(old, name) != look_up(new, name) for name in names):
                found.append(key)
        return tuple(found)

    def changed(self, context: JsonMap, values: JsonMap) -> JsonDict:
        """Return the values that the context does not hold, and those that were given anew beside
        what they are of."""
        # A value that is the same counts as given if what it is made of changes beside it. Else the
        # key would be cleared, although the reply has just said it.
        anew = self.outdated(context, {**context, **values}, ()) if self.made_of else ()
        found = {}
        for key, value in values.items():
            if key in anew or not is_same(context.get(key, _MISSING), value):
                found[key] = value
        return found

    def writable(self, key: str) -> bool:
        """Return true if a reply may write this key."""
        if self.declared:
            return self.sources.get(key) == "model"
        return KEY.fullmatch(key) is not None

    def is_free(self, name: str) -> bool:
        """Return true if a reply could change the value of this name, plain or dotted."""
        root = name.split(".", 1)[0]
        return root == EXTRA or self.writable(name) or self.writable(root)

    def is_secret(self, name: str) -> bool:
        """Return true if the value must not be shown."""
        return name.split(".", 1)[0] in self.secrets or name in self.secrets

    def schema(self, key: str) -> JsonMap:
        """Return the key's JSON Schema; {} if it has none."""
        shape = self.shapes.get(key)
        return {} if shape is None else shape.schema

    def fault(self, key: str, value: object) -> str | None:
        """Return why the key's schema refuses a value; None if it fits or has no schema."""
        shape = self.shapes.get(key)
        return None if shape is None else shape.fault(value)

    def read(self, key: str, value: Any) -> tuple[Any, str | None]:
        """Return a value as the key's schema means it, and why the schema refuses every form of
        it."""
        shape = self.shapes.get(key)
        return (value, None) if shape is None else as_schema(shape, value)

    def visible(self, context: JsonMap, scope: Iterable[str] | None = None) -> JsonDict:
        """Return the context without secrets and, given a scope, only its keys. Dotted names look
        into objects."""
        if scope is None:
            if not self.secrets:
                return dict(context)
            return without(context, self.secrets)
        # A scope may name parts of objects, so it is looked up and not filtered.
        found = {name: look_up(context, name) for name in scope if not self.is_secret(name)}
        return without_none(found)

    def shown(self, context: JsonMap, scope: Iterable[str] | None = None) -> JsonDict:
        """Return the context that a prompt shows: visible values, and dots for known secrets that a
        reply may write.

        Without the dots, the model would ask for the secret again.
        """
        found = self.visible(context, scope)
        if self.secrets:
            known = self.secrets & self.offered.keys() & context.keys()
            found |= dict.fromkeys(sorted(known if scope is None else known & set(scope)), DOTS)
        return found

    def secret_values(self, context: JsonMap) -> tuple[str, ...]:
        """Return the values of secret keys as texts that a message may contain, longest first."""
        return texts_in(context.get(key) for key in self.secrets) if self.secrets else ()


def compile_keys(
    definition: Definition, mentioned: Iterable[str], own: JsonMap = MappingProxyType({})
) -> Keys:
    """Compile the keys of a definition.

    Args:
        definition: The definition.
        mentioned: The keys that its states use, for machines without a schema.
        own: The keys of the machine itself, with their schemas.
    """
    # Without a schema, what a reply may write is known from the states alone.
    has_schema = definition.context_schema is not None
    defs = (definition.context_schema or {}).get("$defs")
    written = {**definition.key_schemas, **own}
    schemas = {key: simplified(schema, defs) for key, schema in written.items()}
    sources = {key: definition.source_of(key) for key in schemas}
    writable = {key: schema for key, schema in schemas.items() if sources[key] == "model"}
    offered = writable
    if not has_schema:
        offered = {key: {} for key in mentioned if KEY.fullmatch(key)} | writable
    choices = _choices(definition)
    if own:
        choices |= dict.fromkeys(own, language_names(definition.tags))
    return Keys(
        declared=has_schema,
        shapes={
            key: compile_shape(schema, defs if isinstance(defs, dict) else None)
            for key, schema in schemas.items()
            # Words of ours restrict no value, so such a schema needs no validator.
            if any(not part.startswith("x-") for part in schema)
        },
        sources=sources,
        secrets=frozenset(key for key in schemas if definition.is_secret(key)),
        offered=offered,
        parts=paths((*mentioned, *declared(schemas))),
        reserved=reserved(sources),
        made_of={key: names for key in schemas if (names := definition.made_of(key))},
        rules=compile_value_rules(definition.key_schemas),
        said={key: kind for key, schema in writable.items() if (kind := schema.get(SAID)) in KINDS},
        language=definition.language,
        choices=choices,
    )


def _choices(definition: Definition) -> dict[str, tuple[tuple[str, Any], ...]]:
    """Return the texts and values of `choices`, for each key that a state asks for alone."""
    found: dict[str, tuple[tuple[str, Any], ...]] = {}
    for state in definition.states.values():
        if len(state.required_context_keys) == 1:
            [key] = state.required_context_keys
            named = [
                (one.label, one.label if one.value is None else one.value) for one in state.choices
            ]
            found[key] = (*found.get(key, ()), *named)
    return found


def uphold(
    keys: Keys, context: JsonMap, change: ContextSet, names: JsonMap = MappingProxyType({})
) -> tuple[Event, ...]:
    """Keep of a change what the rules of `x-valid` allow. Every writer's change passes here.

    The rules are tried on the context after the whole change. A value that breaks a rule of its own
    is refused. An older value that the change breaks is cleared, to be asked for again. If no reply
    may write that one, the values that break it are refused.

    Args:
        keys: The keys of the definition.
        context: The context before the change.
        change: The change, checked by the schemas.
        names: The system names. Rules about the present time need `_timestamp`.

    Returns:
        At most one ContextSet, and a ContextRefused for each refused or cleared value.
    """
    if not keys.rules:
        return (change,)
    values, removed = dict(change.values), list(change.removed)
    refused: dict[tuple[str, str], Event] = {}
    rules = list(keys.rules)
    # Each round takes away a value, adds a cleared key, or passes a rule, so the loop ends.
    while True:
        kept = without(context, removed)
        after = {**kept, **values}
        data = {**after, **names}
        broken = (
            rule
            for rule in rules
            if after.get(rule.key) is not None and not rule.holds(data, keys.is_free)
        )
        if (rule := next(broken, None)) is None:
            break
        given = [key for key in values if key != rule.key and rule.reads(key)]
        gone = [key for key in removed if rule.reads(key)]
        # The new value loses against its own rule before an old one does.
        if rule.key in values:
            del values[rule.key]
            at_fault = [rule.key]
        # The old value can be asked for again, so the new ones stay.
        elif keys.writable(rule.key):
            removed.append(rule.key)
            at_fault = [rule.key]
        else:
            at_fault = [*given, *gone]
            values = without(values, given)
            removed = [key for key in removed if key not in gone]
            # The rule was broken before, and nothing of this change is to blame.
            if not at_fault:
                rules.remove(rule)
        # A program's own fault is no news for the user, unless an answer is gone by it.
        told = change.source in ("model", "user") or rule.key in removed
        for key in at_fault:
            refused[key, rule.description] = ContextRefused(
                key=key[:200], reason=rule.description, source=change.source, told=told
            )
    if not refused:
        return (change,)
    quotes = only(change.quotes, values)
    rest = replace(change, values=values, removed=tuple(removed), quotes=quotes)
    return (*((rest,) if values or removed else ()), *refused.values())


@dataclass(slots=True)
class _Update:
    """A reply's update while its values are accepted, put under `_extra`, or refused."""

    keys: Keys
    context: JsonMap
    begun: JsonMap
    values: JsonDict
    extra: JsonDict
    refused: list[ContextRefused]
    dropped: set[str] = field(default_factory=set)

    def list_schema(self, name: str) -> JsonMap:
        """Return the schema of a key or of a part of an object; {} if it has none."""
        return part_schema(self.keys.offered, name)

    def let_go(self, name: str) -> None:
        """Remove a fact under `_extra`, or a part of an object by its dotted name."""
        key, _, path = name.partition(".")
        whole = self.values.get(key, self.context.get(key, self.begun.get(key)))
        rest = without_part(whole, path) if self.keys.writable(key) else None
        # Facts have no schema, and so they are dropped without more ado.
        if name in (self.context.get(EXTRA) or {}):
            self.dropped.add(name)
        elif rest is None:
            if not self.keys.writable(name):
                self.refuse(name, "a reply cannot clear this key")
        elif (reason := self.keys.fault(key, rest)) is None:
            self.values[key] = rest
        # The object is only begun: what is left of it stays begun.
        elif key not in self.values and key not in self.context:
            self.refuse(key, reason, begun=rest)
        else:
            self.refuse(name, reason, told=True)

    def refuse(self, key: str, reason: str, **more: Any) -> None:
        # A reason of the validator quotes the value.
        if self.keys.is_secret(key) and not reason.startswith(NOT_SAID):
            reason = "its schema refuses the value"
        self.refused.append(ContextRefused(key=key[:200], reason=reason, source="model", **more))

    def take(self, key: str, value: object) -> None:
        try:
            bounded = to_context_value(value)
            if not only_nulls(bounded):
                self.sort(key, bounded)
        except ValueFault as fault:
            self.refuse(key, str(fault), told=True)

    def sort(self, key: str, value: Any) -> None:
        """Accept or refuse a JSON value. Its parts that are null stay what they were.

        Raises:
            ValueFault: The value is text for an object that exceeds the limits.
        """
        shape = self.keys.shapes.get(key)
        old = self.context.get(key, self.begun.get(key))
        # A key without a schema takes what is sent, apart from parts that are null.
        found = [WrittenForm(value, from_strict({}, value), None)]
        if shape is not None:
            found = [*forms(shape, value, old, said=True)]
        # The last form is the one that fits, if any does.
        written, plain, reason = found[-1]
        if reason is not None:
            # The second form is what the value means; of a text, it may be an object that begins.
            _, meant, reason = found[:2][-1]
            plain = meant if isinstance(meant, dict) else found[0].value
        if reason is not None and old is not None and plain in ("", [], {}):
            return  # an empty value beside a known one was not mentioned
        if reason is not None and isinstance(plain, dict):
            self.begin(key, plain, old, reason)
        elif reason is not None:
            self.refuse(key, reason, told=True)
        # Checked on the form that is kept: parts may hide in a text.
        elif (taken := reserved_fault(self.keys.reserved, key, plain)) is not None:
            self.refuse(key, taken, told=True)
        elif key not in self.context and len(self.context) + len(self.values) >= MAX_KEYS:
            self.refuse(key, f"the context holds {MAX_KEYS} keys already")
        else:
            self.values[key] = self.completed(key, plain, nulls(written))

    def begin(self, key: str, value: JsonMap, old: object, reason: str) -> None:
        """Refuse an incomplete object, and keep its valid parts until the others arrive. Parts of
        secrets are not kept.

        Raises:
            ValueFault: The object exceeds the limits together with the parts kept before.
        """
        schema = self.keys.schema(key)
        # The parts of several replies may fit together, so they are judged as one.
        whole = to_context_value(next(normalised(schema, joined(value, old), None)))
        reason = self.keys.fault(key, whole) or reason
        shape = self.keys.shapes.get(key)
        begun: JsonMap = {}
        is_refused = False
        begins = (
            isinstance(whole, dict) and key not in self.context and not self.keys.is_secret(key)
        )
        if begins and shape is not None:
            begun, why = shape.begun(whole)
            is_refused = why is not None
            reason = why or reason
            # One part that is not the model's to write makes all of them doubtful.
            if reserved_fault(self.keys.reserved, key, begun) is not None:
                begun = {}
        # A part that is only missing is no refusal: <information_to_collect> names it.
        self.refuse(key, reason, told=is_refused or not begun, begun=begun or None)

    def completed(self, key: str, value: Any, unmentioned: Iterable[Path]) -> Any:
        """Add the object's known parts if a part is missing that the definition names, or that was
        null."""
        wanted = (*self.keys.parts.get(key, ()), *unmentioned)
        # Most objects name all their parts, and are kept as they are.
        if not wanted or (whole := completed(value, self.context.get(key), wanted)) is value:
            return value
        # Known parts may contradict new ones, for example in `oneOf`. The user's words count.
        return whole if self.keys.fault(key, whole) is None else value

    def keep_aside(self, key: str, value: object, *, named: bool) -> None:
        """Put a value under `_extra`. `named`: the reply itself put it there."""
        # Facts are shown to every later prompt, so no secret may get among them.
        if key.startswith("_") or self.keys.is_secret(key):
            self.refuse(
                key, "names that begin with _ belong to the system, and secrets have their own key"
            )
            return
        old = self.context.get(EXTRA) or {}
        if (
            key not in old
            and key not in self.extra
            and len(old.keys() | self.extra.keys()) >= MAX_EXTRA_KEYS
        ):
            self.refuse(key, f"{EXTRA} holds {MAX_EXTRA_KEYS} keys already")
            return
        if len(key) > 200:
            self.refuse(key, "its name is longer than 200 characters")
            return
        try:
            bounded = to_context_value(value)
            if only_nulls(bounded):
                return
            self.extra[key] = completed(from_strict({}, bounded), old.get(key), nulls(bounded))
        except ValueFault as fault:
            self.refuse(key, str(fault))
            return
        if not named:
            self.refuse(key, "a reply cannot write this key", kept_in=EXTRA)


def accept_reply(
    keys: Keys,
    context: JsonMap,
    update: JsonMap,
    begun: JsonMap = MappingProxyType({}),
    *,
    names: JsonMap = MappingProxyType({}),
    words: UserWords | None = None,
) -> tuple[Event, ...]:
    """Accept or refuse each value of a reply's `context_update`.

    Args:
        keys: The keys of the definition.
        context: The context so far.
        update: The reply's values by key.
        begun: Parts of incomplete objects from earlier replies.
        names: The system names, which the rules of `x-valid` may read.
        words: The words of the user. None: the values need no proof, and nobody looks for
            placeholders.

    Returns:
        At most one ContextSet, of what really changes, and a ContextRefused for each refusal.
    """
    sorted_ = _Update(keys, context, begun, {}, {}, [])
    # First what is taken back: lists among it begin anew with the items of this update.
    cleared = _taken_back(sorted_, update, words)
    refuse = partial(sorted_.refuse, told=True)
    update = with_items(update, context, sorted_.list_schema, refuse, cleared)
    if any("." in key for key in update):
        # After the items: a dotted name may be that of a list inside an object.
        update = _put_together(keys, context, update)
    for key, value in update.items():
        if value is None or key in (EXTRA, CLEAR, QUOTES):
            continue
        if value == DOTS and keys.is_secret(key):  # the model repeats the dots that it was shown
            continue
        if key.startswith("_"):
            sorted_.refuse(key, "names that begin with _ belong to the system")
        elif (
            words is not None
            and placeholder_in(value, keys.schema(key), words.messages) is not None
        ):
            sorted_.refuse(key, _MADE_UP, told=True)
        elif keys.writable(key):
            sorted_.take(key, value)
        else:
            sorted_.keep_aside(key, value, named=False)
    # After the keys: a fact that belongs to a key gives way to the key itself.
    _set_aside(sorted_, update)
    # Last: a key that is taken back and given anew is given.
    removed = _cleared(sorted_, cleared)
    events: list[Event] = []
    values = sorted_.values
    if sorted_.extra or sorted_.dropped:
        old = context.get(EXTRA) or {}
        extra = {
            **{name: old[name] for name in old if name not in sorted_.dropped},
            **sorted_.extra,
        }
        values, removed = (
            ({**values, EXTRA: extra}, removed) if extra else (values, (*removed, EXTRA))
        )
    # What changes nothing needs no proof and no event.
    changed = keys.changed(context, values)
    # A tool of this turn may have said what the message only asks for.
    if words is not None and words.messages and not words.answered:
        _drop_own_answers(sorted_, changed, words.messages[-1][1])
    if words is not None:
        sorted_.refused = [
            _proved_parts(keys, event, begun, quotes_of(event.key, update.get(QUOTES)), words)
            for event in sorted_.refused
        ]
    places = {} if words is None else _proved(sorted_, changed, update.get(QUOTES), words)
    if changed or removed:
        change = ContextSet(source="model", values=changed, removed=removed, quotes=places)
        events += uphold(keys, context, change, names)
    return (*events, *sorted_.refused)


def _proved(
    sorted_: _Update, changed: JsonDict, quotes: object, words: UserWords
) -> dict[str, Place]:
    """Return the places of the user's words, and drop the values that the user did not say."""
    places: dict[str, Place] = {}
    keys = sorted_.keys
    beside = " ".join(map(str, {**sorted_.context, **changed}.values()))
    # A copy, because what was not said is taken out of `changed`.
    for key in [key for key in changed if key != EXTRA]:
        value, old = changed[key], sorted_.context.get(key)
        # "0170 12" for "017012" is no new value, so nobody has to have said it.
        same_digits = digits_of(str(old)) == digits_of(str(value)) != ""
        if keys.said.get(key) == "digits" and old is not None and same_digits:
            del changed[key]  # only its form is another
            continue
        claim = keys.claim(key, value, old=old, quotes=quotes_of(key, quotes), beside=beside)
        proved = keys.unsaid(claim, words)
        if isinstance(proved, str):
            del changed[key]
            sorted_.refuse(key, proved, told=True)
        elif proved:
            places[key] = proved[-1]
    return places


def _drop_own_answers(sorted_: _Update, changed: JsonDict, message: str) -> None:
    """Refuse texts that a model made of a question of the user, who said no word of them."""
    for key in list(changed):
        if is_made_of_a_question(sorted_.keys.claim(key, changed[key]), message):
            del changed[key]
            sorted_.refuse(key, f"{NOT_SAID}: the user only asks; answer, and ask for the value")


def _proved_parts(
    keys: Keys, event: ContextRefused, begun: JsonMap, quotes: Sequence[str], words: UserWords
) -> ContextRefused:
    """Keep of an incomplete object only the parts that the user said."""
    # Parts of earlier replies were proved when they came.
    before = begun.get(event.key) or {}
    parts = dict(before)
    for name, part in (event.begun or {}).items():
        claim = keys.claim(
            event.key, {name: part}, old=before, quotes=quotes, beside=str(event.begun)
        )
        if not isinstance(keys.unsaid(claim, words), str):
            parts[name] = part
    return event if event.begun is None else replace(event, begun=parts or None)


_MADE_UP = f"{NOT_SAID}: that is a placeholder; leave the key out, or ask for the value"


def _put_together(keys: Keys, context: JsonMap, update: JsonMap) -> JsonMap:
    """Put values with dotted names into the objects that hold them."""
    found = dict(update)
    for name, value in update.items():
        key, dot, path = name.partition(".")
        if (
            not dot
            or value is None
            or keys.writable(name)
            or name in keys.sources
            or not keys.writable(key)
        ):
            continue
        # The same update may set the object and a part of it.
        whole = context.get(key) if found.get(key) is None else found[key]
        if (put := with_part(keys.schema(key), whole, path, value)) is not None:
            found[key] = put
            del found[name]
    return found


def _set_aside(sorted_: _Update, update: JsonMap) -> None:
    """Accept the facts that a reply put under `_extra`."""
    keys, extra = sorted_.keys, update.get(EXTRA) or {}
    if not isinstance(extra, dict):
        # The form for strict modes is a list of pairs.
        extra = pairs(extra) or {}
        if not extra:
            sorted_.refuse(EXTRA, "it must be an object")
    for key, value in extra.items():
        if value is None:
            continue
        if keys.declared and keys.writable(key) and update.get(key) is None:
            sorted_.take(key, value)
        else:
            sorted_.keep_aside(key, value, named=True)


def _taken_back(sorted_: _Update, update: JsonMap, words: UserWords | None) -> list[object]:
    """Return what a reply takes back. Without the user's words in this message it is nothing."""
    match update.get(CLEAR):
        case None:
            return []
        case str(name):
            listed: list[object] = [name]
        case list(names):
            listed = [*names[:MAX_KEYS]]
        case _:
            sorted_.refuse(CLEAR, "it must be a list of key names")
            return []
    if words is None or is_said_back(update, words):
        return listed
    for key in map(str, listed):
        sorted_.refuse(key, NOT_TAKEN_BACK, told=has(sorted_.context, key))
    return []


def is_said_back(update: JsonMap, words: UserWords) -> bool:
    """Return true if a reply has the user's words, from this message, that take something back."""
    quotes = quotes_of(CLEAR, update.get(QUOTES))
    return any(find_quote(quote, words.messages[-1:]) is not None for quote in quotes)


NOT_TAKEN_BACK = f"{NOT_SAID}: quote the words of this message that take it back"


def _cleared(update: _Update, names: Iterable[object]) -> tuple[str, ...]:
    removed = []
    for name in names:
        if not isinstance(name, str):
            update.refuse(CLEAR, "it must be a list of key names")
        elif not update.keys.writable(name) or not (name in update.context or name in update.begun):
            update.let_go(name)
        elif name not in update.values and name not in removed:
            removed.append(name)
    return tuple(removed)


def accept_host(
    keys: Keys, context: JsonMap, changes: JsonMap, *, names: JsonMap = MappingProxyType({})
) -> tuple[Event, ...]:
    """Accept or refuse a handler's changes. None deletes a key; refused values are recorded.

    Args:
        keys: The keys of the definition.
        context: The context so far.
        changes: The handler's values by key.
        names: The system names, which the rules of `x-valid` may read.
    """
    values: JsonDict = {}
    removed: list[str] = []
    refused: list[Event] = []
    for key, value in changes.items():
        if value is None:
            if key in context:
                removed.append(key)
            continue
        reason, plain = _host_value(keys, key, value)
        if reason is not None:
            refused.append(ContextRefused(key=str(key)[:200], reason=reason, source="host"))
        else:
            values[key] = plain
    values = keys.changed(context, values)
    if values or removed:
        change = ContextSet(source="host", values=values, removed=tuple(removed))
        return (*uphold(keys, context, change, names), *refused)
    return tuple(refused)


def _host_value(keys: Keys, key: object, value: object) -> tuple[str | None, Any]:
    if not isinstance(key, str) or not key or len(key) > 200:
        return "a key must be text of 1 to 200 characters", None
    if key.startswith("_"):
        return "names that begin with _ belong to the system", None
    try:
        plain = to_json_value(value)
    except ValueFault as fault:
        return str(fault), None
    plain, reason = keys.read(key, plain)
    return ("its schema refuses the value" if reason and keys.is_secret(key) else reason), plain


def initial_context(
    keys: Keys, context: JsonMap | None, *, names: JsonMap = MappingProxyType({})
) -> JsonDict:
    """Check the caller's context for a new conversation.

    Args:
        keys: The keys of the definition.
        context: The caller's values by key.
        names: The system names, which the rules of `x-valid` may read.

    Raises:
        ValueError: A value is refused. The message names the key and the reason.
    """
    accepted: JsonDict = {}
    for key, value in (context or {}).items():
        if value is None:
            continue
        reason, plain = _host_value(keys, key, value)
        if reason is not None:
            raise ValueError(f"context key {key!r}: {reason}")
        accepted[key] = plain
    for event in uphold(keys, {}, ContextSet(source="host", values=accepted), names):
        if isinstance(event, ContextRefused):
            raise ValueError(f"context key {event.key!r}: {event.reason}")
    return accepted


def missing(context: JsonMap, wanted: Iterable[str]) -> tuple[str, ...]:
    """Return the names of `wanted` that are not set."""
    absent = []
    for name in wanted:
        if context.get(name) is not None:
            continue
        # Most names are keys. Only a dotted one, which is a part of a value, is looked up by path.
        if "." in name and has(context, name):
            continue
        absent.append(name)
    return tuple(absent)
