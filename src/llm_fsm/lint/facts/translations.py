"""The texts of a definition that users read, and their translations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from llm_fsm._json import object_at, step, texts_at
from llm_fsm.definition.names import label
from llm_fsm.lint.document import Document, Pairs, Placed, once_each
from llm_fsm.lint.facts.texts import failure_words, replies

_SILENT = ("decide", "task", "subflow")
"""Kinds of states of which nobody reads more than the reply."""


@once_each
def spoken_texts(document: Document) -> Pairs:
    """Yield (pointer, text) for everything that the machine says or shows to a user.

    The pointer of a choice is that of its label, also where the choice is a text.
    """
    root = document.root
    yield from replies(document)
    yield from failure_words(document)
    lists_ways = "cannot_handle" in root.get("patterns", ())
    for state in document.states.values():
        if state.get("kind") in _SILENT:
            continue
        yield from _texts(state, "purpose")
        for pointer, text in state.texts("choices"):
            yield f"{pointer}/label", text
        for choice in state.items("choices"):
            yield from _texts(choice, "label")
        ways = state.items("transitions")
        # The machine names the ways where it lists what is possible, and as buttons.
        if lists_ways or any(way.get("agrees") == "picked" for way in ways):
            for way in ways:
                yield from _texts(way, "description")
    keys = root.at("context_schema")
    for key in keys.members("properties"):
        # The machine says the name of a key that has no title.
        if not key.text("title") and document.source_of(key.name) == "model":
            yield f"{key.pointer}/title", label(key.name, {})
    yield from _of_schema(keys)


def _texts(placed: Placed, *keys: str) -> Pairs:
    for key in keys:
        if text := placed.text(key):
            yield placed.pointer + step(key), text


def _of_schema(schema: Placed) -> Pairs:
    """Yield the texts of the parts of a schema."""
    parts = (*schema.members("properties"), schema.at("items"))
    for part in [part for part in parts if part.value]:
        yield from _texts(part, "title", "x-ask")
        # A value without a label is shown as it is.
        labels = {value: value for value in texts_at(part.value, "enum")}
        labels |= part.at("x-labels").value
        yield from _texts(Placed(f"{part.pointer}/x-labels", labels), *labels)
        for rule in part.items("x-valid"):
            yield from _texts(rule, "description")
        yield from _of_schema(part)


class TranslatedReply(NamedTuple):
    """A fixed reply in a further language. `pointer`: of the translation; `source`: the reply."""

    tag: str
    pointer: str
    source: str
    text: str


def translated_replies(document: Document) -> Iterator[TranslatedReply]:
    """Yield every translation of a fixed reply."""
    sources = dict(replies(document))
    for texts in document.root.members("texts"):
        for pointer, text in texts.value.items():
            if pointer in sources and isinstance(text, str):
                place = texts.pointer + step(pointer)
                yield TranslatedReply(texts.name, place, sources[pointer], text)


def further_languages(document: Document) -> Pairs:
    """Yield (pointer, tag) for each language beside the definition's own."""
    own = document.root.get("language") or "en"
    for pointer, tag in document.root.texts("languages"):
        if tag != own:
            yield pointer, tag


def untranslated(document: Document, tag: str) -> Pairs:
    """Yield (pointer, text) for the texts that a language does not have."""
    known = object_at(document.root.value.get("texts"), tag)
    for pointer, text in spoken_texts(document):
        if pointer not in known:
            yield pointer, text
