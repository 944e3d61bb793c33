"""The texts of further languages, in gettext files beside the definition."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_fsm import DefinitionError, check, load
from llm_fsm.definition.reply_template import compile_reply
from llm_fsm.definition.translation import translated
from llm_fsm.documents.check import check_edited
from llm_fsm.documents.loader import load_dict
from llm_fsm.documents.translations import as_po, catalog_of, read_catalog, texts_of

GREETER: dict[str, Any] = {
    "name": "greeter",
    "languages": ["de"],
    "initial_state": "hello",
    "context_schema": {"properties": {"size": {"enum": ["s", "l"], "title": "size"}}},
    "states": {
        "hello": {
            "purpose": "Which size?",
            "required_context_keys": ["size"],
            "transitions": [
                {"target_state": "bye", "conditions": [{"requires_context_keys": ["size"]}]}
            ],
        },
        "bye": {"kind": "final", "purpose": "Say goodbye", "reply": "{{ size }}. Goodbye!"},
    },
}
GERMAN = {
    "/states/bye/reply": "{{ size }}. Auf Wiedersehen!",
    "/states/hello/purpose": "Welche Größe?",
    "/states/bye/purpose": "Verabschieden",
    "/context_schema/properties/size/title": "Größe",
    "/context_schema/properties/size/x-labels/s": "klein",
    "/context_schema/properties/size/x-labels/l": "groß",
}


def po_of(texts: dict[str, str], german: dict[str, str] = GERMAN) -> bytes:
    """The file of translations of these texts."""
    catalog = catalog_of(texts, "greeter", "de")
    for entry in catalog:
        if entry.id:
            entry.string = german[entry.context]
    return as_po(catalog)


def saved(folder: Path, document: Any = GREETER, po: bytes | None = None) -> Path:
    """A definition with its German texts, as files."""
    path = folder / "greeter.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    written = po_of(texts_of(GREETER)) if po is None else po
    (folder / "greeter.de.po").write_bytes(written)
    return path


def test_loading_reads_the_texts_beside_a_definition(tmp_path: Path) -> None:
    assert load(saved(tmp_path)).texts == {"de": GERMAN}
    assert check(tmp_path / "greeter.json") == []


def test_the_texts_are_part_of_what_a_conversation_is_pinned_to(tmp_path: Path) -> None:
    before = load(saved(tmp_path)).sha256
    other = po_of(texts_of(GREETER), {**GERMAN, "/states/bye/purpose": "Tschüs sagen"})
    assert load(saved(tmp_path, po=other)).sha256 != before


def test_a_translation_of_an_older_text_does_not_count(tmp_path: Path) -> None:
    text = json.dumps(GREETER).replace("Which size?", "Which size would you like?")
    found = check(saved(tmp_path, json.loads(text)))
    assert [(one.name, one.pointer) for one in found] == [
        ("missing-translation", "/states/hello/purpose")
    ]


PLAIN = '\nmsgctxt "/states/bye/reply"\nmsgid "{{ size }}. Goodbye!"\nmsgstr "%s"\n'


@pytest.mark.parametrize(
    ("text", "name", "line", "cure"),
    [
        ("\n\nGuten Tag\n", "bad-translations", 3, "msgstr"),
        (PLAIN.replace('"%s', "%s") % "Tschüs", "bad-translations", 4, "msgstr"),
        (PLAIN.replace('%s"', "%s") % "Tschüs", "bad-translations", 4, "msgstr"),
        (PLAIN.replace("%s", '%s" "') % "Tschüs", "bad-translations", 4, "msgstr"),
        (PLAIN + '"and more\n', "bad-translations", 5, "msgstr"),
        (PLAIN.replace('msgid "', "msgid ") % "Tschüs", "bad-translations", 3, "msgstr"),
        ('\nmsgid "a"\nmsgid "b"\nmsgstr "c"\n', "bad-translations", 2, "msgstr"),
        ("\n#, fuzzy" + PLAIN % "Tschüs, {{ size }}", "fuzzy-translation", 4, "remove the mark"),
        (PLAIN % "{{ size }", "bad-template", 3, "a fixed reply has"),
        (PLAIN % "Tschüs!", "changed-placeholder", 3, "keep the names"),
        (PLAIN % "{{ size }} {{ groesse }}", "changed-placeholder", 3, "keep the names"),
    ],
)
def test_a_fault_of_a_file_names_its_line_and_a_cure(
    text: str, name: str, line: int, cure: str, tmp_path: Path
) -> None:
    found = check(saved(tmp_path, po=text.encode()))
    place = str(tmp_path / "greeter.de.po")
    fault = next(one for one in found if one.file == place)
    assert (fault.name, fault.line) == (name, line)
    assert cure in str(fault.hint)


def test_a_file_that_cannot_be_read_keeps_the_machine_from_running(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"greeter\.de\.po:1:1: error: .*no gettext file"):
        load(saved(tmp_path, po=b"Guten Tag\n"))


def test_a_file_in_another_encoding_is_refused_with_its_line(tmp_path: Path) -> None:
    [fault] = [
        one
        for one in check(saved(tmp_path, po='# a\nmsgid "ü"\n'.encode("latin-1")))
        if one.level == "error"
    ]
    assert (fault.name, fault.line, fault.hint) == ("not-utf8", 2, "save the file as UTF-8")


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_whole_file_in_another_encoding_keeps_the_machine_from_running(
    encoding: str, tmp_path: Path
) -> None:
    path = saved(tmp_path, po=po_of(texts_of(GREETER)).decode().encode(encoding))
    with pytest.raises(DefinitionError, match=r"greeter\.de\.po.*save (it|the file) as UTF-8"):
        load(path)


def test_a_mark_of_unicode_at_the_beginning_is_no_fault(tmp_path: Path) -> None:
    path = saved(tmp_path, po=b"\xef\xbb\xbf" + po_of(texts_of(GREETER)))
    assert check(path) == []


def test_a_file_that_names_another_encoding_in_its_head_is_read_as_utf_8(tmp_path: Path) -> None:
    po = po_of(texts_of(GREETER)).replace(b"charset=utf-8", b"charset=iso-8859-9")
    assert load(saved(tmp_path, po=po)).texts == {"de": GERMAN}


def test_of_two_entries_for_one_text_the_first_counts(tmp_path: Path) -> None:
    twice = PLAIN % "Tschüs, {{ size }}" + PLAIN % "Bis bald, {{ size }}"
    read = load(saved(tmp_path, po=twice.encode())).texts
    assert read == {"de": {"/states/bye/reply": "Tschüs, {{ size }}"}}


def test_a_file_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    inner = tmp_path / "bots"
    inner.mkdir()
    path = saved(inner)
    (inner / "greeter.de.po").rename(tmp_path / "elsewhere.po")
    (inner / "greeter.de.po").symlink_to(tmp_path / "elsewhere.po")
    assert "unreadable-file" in {one.name for one in check(path)}


def test_a_key_of_the_author_cannot_take_the_name_of_the_machines_own(tmp_path: Path) -> None:
    document = {**GREETER, "context_schema": {"properties": {"language": {"type": "string"}}}}
    with pytest.raises(DefinitionError, match="taken-key"):
        load_dict(document)


# -- random definitions

EXAMPLES = int(os.environ.get("LLM_FSM_DEFINITIONS", "200"))
"""`LLM_FSM_DEFINITIONS=1000` tries more."""

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1)
LINES = st.lists(WORDS, min_size=1, max_size=4).map(" \n".join)
PLAIN_TEXT = LINES.filter(lambda text: "{" not in text)
REPLIES = st.tuples(PLAIN_TEXT, PLAIN_TEXT).map("{{ size }}".join)
LABELS = st.dictionaries(st.sampled_from(["s", "l", "~/x"]), WORDS)


@st.composite
def definitions(draw: st.DrawFn) -> dict[str, Any]:
    """A definition whose texts are anything."""
    states: dict[str, Any] = {}
    names = ["a", "b", "c", "d"][: draw(st.integers(1, 4))]
    for name, target in zip(names, [*names[1:], "end"], strict=True):
        states[name] = {
            "purpose": draw(LINES),
            "reply": draw(st.one_of(REPLIES, st.none())),
            "choices": draw(st.lists(st.one_of(WORDS, WORDS.map(lambda one: {"label": one})))),
            "transitions": [{"target_state": target, "description": draw(LINES)}],
            "model": {"on_failure": draw(LINES)},
        }
    size = {
        "enum": ["s", "l", "~/x"],
        "x-labels": draw(LABELS),
        "x-ask": draw(LINES),
        **draw(st.sampled_from([{}, {"title": "a size"}])),
        "x-valid": [{"logic": True, "description": draw(LINES)}],
    }
    return {
        "name": "random",
        "languages": ["de"],
        "initial_state": "a",
        "patterns": draw(st.sampled_from([[], ["cannot_handle"]])),
        "context_schema": {"properties": {"size": size}},
        "states": {**states, "end": {"kind": "final", "reply": draw(REPLIES)}},
    }


@settings(max_examples=EXAMPLES, deadline=None)
@given(document=definitions())
def test_the_same_texts_in_another_language_say_the_same(document: dict[str, Any]) -> None:
    texts = texts_of(document)
    catalog = catalog_of(texts, "random", "de")
    for entry in catalog:
        entry.string = entry.id
    catalog.update(catalog_of(texts, "random"))
    found = {entry.context: entry.string for entry in catalog if entry.id}
    assert found == texts
    definition = load_dict({**document, "texts": {"de": found}}).definition
    german = translated(definition, "de")
    assert texts_of(german.document) == texts_of(definition.document)
    for name, state in definition.states.items():
        spoken = german.states[name]
        assert [one.label for one in spoken.choices] == [one.label for one in state.choices]
        if state.reply is not None and spoken.reply is not None:
            shown = compile_reply(spoken.reply).render({"size": "s"})
            assert shown == compile_reply(state.reply).render({"size": "s"})


@settings(max_examples=50, deadline=None)
@given(document=definitions())
def test_a_file_of_texts_reads_as_it_was_written(
    document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    texts = texts_of(document)
    path = tmp_path_factory.mktemp("po") / "random.de.po"
    path.write_bytes(as_po(catalog_of(texts, "random", "de")))
    read = read_catalog(str(path.with_name("random.json")), "de")
    assert {entry.context: entry.id for entry in read if entry.id} == texts


# -- planted faults


def planted(number: int) -> tuple[dict[str, str], str]:
    """German texts with one fault, and the rule that must find it."""
    texts = dict(GERMAN)
    pointers = [*texts]
    kind, pointer = number % 5, pointers[number % len(pointers)]
    match kind:
        case 0:
            texts[pointer] = ""
            return texts, "missing-translation"
        case 1:
            texts["/states/bye/reply"] = "Tschüs!" * (1 + number)
            return texts, "changed-placeholder"
        case 2:
            texts["/states/bye/reply"] = f"{{{{ size }}}} {{{{ key_{number} }}}}"
            return texts, "changed-placeholder"
        case 3:
            texts["/states/bye/reply"] = "{{ size }}" + "{% if size %}" * (1 + number)
            return texts, "bad-template"
    return texts, "fuzzy-translation"


@pytest.mark.parametrize("block", range(10))
def test_planted_faults_are_found(block: int, tmp_path: Path) -> None:
    for number in range(10 * block, 10 * block + 10):
        german, rule = planted(number)
        po = po_of(texts_of(GREETER), german)
        if rule == "fuzzy-translation":
            po = po.replace(b"\nmsgctxt", b"\n#, fuzzy\nmsgctxt", 1)
        assert rule in {one.name for one in check(saved(tmp_path, po=po))}, number


def test_a_text_that_is_edited_says_which_line_of_its_translations_is_wrong(tmp_path: Path) -> None:
    path = saved(tmp_path, po=b"Guten Tag\n")
    found = check_edited(path.read_text(encoding="utf-8"), file=str(path))
    [bad] = [one for one in found if one.name == "bad-translations"]
    assert (bad.file, bad.line, bad.pointer) == (str(path), None, "/languages")
    assert bad.message.startswith(f"{tmp_path / 'greeter.de.po'}:1: this is no gettext file")
