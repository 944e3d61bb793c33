import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_fsm.definition.codes import CODES
from llm_fsm.definition.models import Definition
from llm_fsm.documents.check import blocking, check
from llm_fsm.documents.files import read
from llm_fsm.documents.loader import load, load_dict, load_text
from llm_fsm.errors import DefinitionError, Finding
from llm_fsm.lint.blocking import BLOCKING
from llm_fsm.lint.registry import RULES
from paths import TESTS

DATA = TESTS / "data" / "definitions"
MINIMAL = {"name": "n", "initial_state": "a", "states": {"a": {}}}

FAULTY = """
3:16 warning unknown-key /nmae
4:29 error duplicate-key /initial_state
7:38 error bad-value /states/start/id
7:47 warning unknown-key /states/start/requird_context_keys
8:33 error bad-key /states/start/required_context_keys/0
8:39 warning undeclared-key /states/start/required_context_keys/1
9:40 error unknown-target /states/start/transitions/0/target_state
9:60 error wrong-type /states/start/transitions/0/priority
9:69 error missing-key /states/start/transitions/1
9:70 warning unknown-key /states/start/transitions/1/targetState
10:26 info self-transition /states/start/transitions/2/target_state
10:35 warning return-without-effect /states/start/transitions/2/return
10:84 error bad-condition /states/start/transitions/2/conditions/0/logic/===
10:112 error bad-condition /states/start/transitions/2/conditions/1/logic/equals
11:16 error bad-template /states/start/reply
11:40 error bad-value /states/start/kind
12:5 error bad-state-id /states/greet you
12:36 warning final-with-transitions /states/greet you/transitions
12:52 info older-form /states/greet you/transitions/0
13:28 info older-form /states/end/is_terminal
13:44 error unknown-tool /states/end/tools/0
13:64 error unknown-target /states/end/on_timeout
13:82 error wrong-type /states/end/timeout
15:73 error bad-context-schema /context_schema/properties/email/type
15:122 error bad-key-setting /context_schema/properties/ticket/x-source
16:13 error bad-tool /tools/y
16:22 error bad-tool /tools/z
""".strip().splitlines()


def brief(found: Finding) -> str:
    return f"{found.line}:{found.column} {found.level} {found.name} {found.pointer}"


def planted(findings):
    """What was put into the file on purpose; each fault may have consequences that other rules
    tell.
    """
    kinds = {line.split()[2] for line in FAULTY}
    return [brief(each) for each in findings if each.name in kinds]


def names(findings):
    return [found.name for found in findings]


def test_all_problems_of_a_file_are_reported_at_once_each_with_its_place():
    path = DATA / "faulty.jsonc"
    found = check(path)
    assert planted(found) == FAULTY
    assert {each.file for each in found} == {str(path)}
    assert found == sorted(found, key=lambda each: (each.line, each.column))


def test_loading_a_faulty_file_raises_with_all_findings_in_file_order():
    with pytest.raises(DefinitionError) as caught:
        load(DATA / "faulty.jsonc")
    assert list(caught.value.findings) == check(DATA / "faulty.jsonc")


def test_a_mapping_gets_the_same_findings_without_positions_in_the_order_of_the_document():
    document = {
        "name": "n",
        "states": {"a": {"transitions": [{"target_state": "b"}], "kind": 3}},
        "initial_state": "x",
    }
    found = check(document)
    errors = [(each.name, each.pointer, each.line) for each in found if each.level == "error"]
    assert errors == [
        ("unknown-target", "/states/a/transitions/0/target_state", None),
        ("wrong-type", "/states/a/kind", None),
        ("unknown-initial-state", "/initial_state", None),
    ]


def test_an_unknown_key_is_a_warning_and_the_file_loads():
    loaded = load_text(
        '{"name": "n", "initial_state": "a", "states": {"a": {"porpose": "x"}}}', file="f.json"
    )
    assert [str(each) for each in loaded.findings] == [
        'f.json:1:54: warning: unknown key "porpose" in a state; did you mean "purpose"? (unknown-key S101)'
    ]
    assert loaded.definition.states["a"].purpose == ""


def test_every_key_of_the_format_loads_without_a_finding():
    loaded = load_text((DATA / "every_key.json").read_text(encoding="utf-8"))
    assert loaded.findings == ()
    assert loaded.definition.states["research"].purpose == "Answer the question from the catalogue"
    assert loaded.definition.states["help"].instructions == "Quote the rules."
    assert loaded.definition.description == "Lends books\nand takes them back."
    assert loaded.definition.global_transitions[0].returns


def test_comments_trailing_commas_and_a_byte_order_mark_are_accepted(tmp_path):
    path = tmp_path / "f.json"
    text = '{"name": "n", /* x */ "initial_state": "a", // y\n "states": {"a": {},},}'
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert load(path) == load_dict(MINIMAL).definition


def test_null_is_an_absent_optional_key():
    document = {**MINIMAL, "persona": None, "history": None, "tools": None, "x": None}
    document["states"] = {
        "a": {"transitions": None, "instructions": None, "max_retries": None, "reply": None}
    }
    loaded = load_dict(document)
    assert loaded.definition == load_dict(MINIMAL).definition
    assert names(loaded.findings) == ["unknown-key"]


def test_identity_does_not_depend_on_spelling():
    one = load_dict({**MINIMAL, "states": {"a": {"purpose": ["x", "y"], "max_retries": 2.0}}})
    other = load_dict(
        {**MINIMAL, "states": {"a": {"objective": "x\ny", "max_retries": 2, "id": None}}}
    )
    assert one.definition.sha256 == other.definition.sha256


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        (b"", "empty-file", "the file is empty"),
        (b"\xef\xbb\xbf \n\t", "empty-file", "the file is empty"),
        (b'{"name": \n"n\xe9"}', "not-utf8", "byte 0xe9 at offset 12 is not UTF-8"),
        (b'\xef\xbb\xbf{"n\xff"}', "not-utf8", "byte 0xff at offset 6 is not UTF-8"),
        ('{"name": 1}'.encode("utf-16"), "not-utf8", "the file is encoded in UTF-16"),
        ('{"name": 1}'.encode("utf-32"), "not-utf8", "the file is encoded in UTF-32"),
        (b" " * 10_000_001, "too-large", "the file is larger than 10 MB"),
        (b"[" * 10_000, "bad-json", "deep"),
        (b'{"name": ', "bad-json", "the text ends"),
        (b"hello", "bad-json", "hello"),
        (b"[1]", "not-a-definition", "one JSON object, not a list"),
        (b'"x"', "not-a-definition", 'not the text "x"'),
        (b'{"name": "\\ud800"}', "bad-text", "half of a surrogate pair"),
        (b'{"ui": 1e999}', None, ""),
        (b'{"ui": ' + b"9" * 400 + b"}", None, ""),
        (b'{"ui": ' + b"9" * 5000 + b"}", None, ""),
    ],
)
def test_what_is_no_definition_is_one_clear_finding(tmp_path, content, name, words):
    path = tmp_path / "f.json"
    path.write_bytes(content)
    [found] = check(path)
    assert found.level == "error"
    assert found.file == str(path)
    assert name is None or found.name == name
    assert words in found.message
    with pytest.raises(DefinitionError):
        load(path)


def test_a_byte_that_is_not_utf8_has_a_line_and_a_column(tmp_path):
    path = tmp_path / "f.json"
    path.write_bytes(
        '{"é": \n "ü\xff"}'.encode("latin-1")
        .replace(b"\xe9", "é".encode())
        .replace(b"\xfc", "ü".encode())
    )
    [found] = check(path)
    assert (found.line, found.column) == (2, 4)


def test_files_that_cannot_be_read_are_findings(tmp_path):
    missing, folder = check(tmp_path / "none.json"), check(tmp_path)
    assert names([*missing, *folder]) == ["unreadable-file", "unreadable-file"]
    assert "no such file" in missing[0].message
    assert "directory" in folder[0].message
    assert names(check("nul\0byte")) == ["unreadable-file"]
    assert names(check("x" * 5000)) == ["unreadable-file"]


def test_no_more_than_the_limit_is_read(tmp_path):
    path = tmp_path / "huge.json"
    with path.open("wb") as stream:
        stream.truncate(100_000_000)
    with pytest.raises(DefinitionError, match="larger than 10 MB"):
        read(path)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
def test_an_endless_device_is_too_large():
    assert names(check("/dev/zero")) == ["too-large"]


@pytest.mark.parametrize(
    ("value", "name", "pointer"),
    [
        ({"ui": {1, 2}}, "not-json", "/ui"),
        ({"ui": {3: 4}}, "not-json", "/ui"),
        ({"ui": [float("nan")]}, "bad-number", "/ui/0"),
        ({"limits": {"seconds": float("inf")}}, "bad-number", "/limits/seconds"),
        ({"limits": {"auto_steps": 2**70}}, "bad-number", "/limits/auto_steps"),
        ({"ui": {"a/b": "\ud800"}}, "bad-text", "/ui/a~1b"),
        ({"ui": {"\ud800": 1}}, "bad-text", "/ui"),
    ],
)
def test_a_mapping_that_is_not_json_is_one_finding(value, name, pointer):
    assert [(found.name, found.pointer) for found in check({**MINIMAL, **value})] == [
        (name, pointer)
    ]


@pytest.mark.parametrize("value", [None, 3, [], [MINIMAL], object(), b"x"])
def test_values_that_are_no_mapping_are_findings(value):
    assert [found.level for found in check(value)] == ["error"]


def test_a_mapping_that_holds_itself_is_too_deep():
    document = dict(MINIMAL)
    document["ui"] = [document]
    assert names(check(document)) == ["too-deep"]


def test_the_document_is_not_changed_and_not_shared():
    document = json.loads((DATA / "runtime_3.json").read_text(encoding="utf-8"))
    before = json.dumps(document)
    loaded = load_dict({**document, "ui": document["states"]})
    assert json.dumps(document) == before
    document["states"]["done"]["purpose"] = "changed"
    assert loaded.definition.ui["done"]["purpose"] == "Say goodbye"


def test_positions_hold_after_a_reordering_of_states():
    text = '{"name": "n", "initial_state": "a",\n "states": [{"id": "a"},\n {"id": "b", "transitions": ["c"]}]}'
    [*_, found] = check_text(text)
    assert brief(found) == "3:30 error unknown-target /states/1/transitions/0"


def check_text(text):
    with pytest.raises(DefinitionError) as caught:
        load_text(text)
    return caught.value.findings


RICH = json.loads((DATA / "every_key.json").read_text(encoding="utf-8"))
OLD = [
    json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    for name in ("runtime_3", "runtime_4", "workflow_2", "table")
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["welcome", "_x"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)
KEYS = st.text(max_size=6) | st.sampled_from(
    ["objective", "is_terminal", "context_scope", "read_keys", "condition", "llm_description", "transitions", "states",
     "role", "key_results", "version", "name", "x-y", "$ref", "type", "var", "terminal_states", "id", "logic"]
)  # fmt: skip


def mutated(document, chance, value, key):
    """A copy of a document with one random node replaced, deleted, wrapped or its key renamed."""
    copy = json.loads(json.dumps(document))
    parent, at = None, None
    node = copy
    while isinstance(node, dict | list) and node and (parent is None or chance.random() < 0.8):
        parent = node
        at = chance.choice(list(node)) if isinstance(node, dict) else chance.randrange(len(node))
        node = node[at]
    how = chance.randrange(4)
    if how == 0 or (how == 1 and not isinstance(parent, dict)):
        parent[at] = value
    elif how == 1:
        parent[key] = parent.pop(at)
    elif how == 2:
        del parent[at]
    else:
        parent[at] = [node] if chance.random() < 0.5 else {key: node}
    return copy


def test_a_misspelt_key_beside_an_error_is_told_alike_by_all():
    states = {
        "a": {"purpos": "Ask", "transitions": [{"target_state": "b"}]},
        "b": {"condition": "Say goodbye"},
    }
    assert_consistent({"name": None, "initial_state": "a", "states": states})


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from([RICH, RICH, *OLD]),
    st.randoms(use_true_random=False),
    st.lists(st.tuples(VALUES, KEYS), min_size=1, max_size=3),
)
def test_whatever_stands_in_a_document_it_loads_or_says_why(
    document, chance: random.Random, changes
):
    for value, key in changes:
        if document:
            document = mutated(document, chance, value, key)
    assert_consistent(document)


@pytest.mark.parametrize("role", ["", " ", [], ["user"], ["0"], ["a", "b"]])
def test_a_message_with_any_role_is_the_same_when_it_is_loaded_again(role):
    messages = [{"role": role, "content": "I am Ada"}, {"role": "assistant", "content": "Hello"}]
    states = {
        "a": {
            "purpose": "Ask",
            "example_dialogue": messages,
            "transitions": [{"target_state": "b"}],
        },
        "b": {},
    }
    assert_consistent({"name": "m", "initial_state": "a", "states": states})


def assert_consistent(document):
    found = check(document)
    if any(blocking(each) for each in found):
        with pytest.raises(DefinitionError) as caught:
            load_dict(document)
        assert list(caught.value.findings) == found
    else:
        loaded = load_dict(document)
        assert isinstance(loaded.definition, Definition)
        assert (
            load_dict(json.loads(loaded.definition.model_dump_json(by_alias=True))).definition
            == loaded.definition
        )
    assert "pydantic" not in "".join(map(str, found))
    assert "Input should" not in "".join(map(str, found))


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=60)
    | st.text(alphabet='{}[]":,/*\\ un1e9.-\u2028é', max_size=40).map(str.encode)
)
def test_random_bytes_are_findings_and_never_an_exception(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "random.json"
    path.write_bytes(data)
    assert any(blocking(found) for found in check(path))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_file_is_findings_with_positions_inside_it(tmp_path_factory, data):
    content = (
        DATA / data.draw(st.sampled_from(["every_key.json", "workflow_2.json", "runtime_4.json"]))
    ).read_bytes()
    at = data.draw(st.integers(0, len(content)))
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    path.write_bytes(
        content[:at]
        + data.draw(st.binary(max_size=4))
        + content[at + data.draw(st.integers(0, 9)) :]
    )
    lines = path.read_bytes().count(b"\n") + path.read_bytes().count(b"\r") + 1
    for found in check(path):
        assert found.line is None or 1 <= found.line <= lines


def test_loading_brings_in_no_heavy_library():
    heavy = "{'jinja2', 'aiohttp', 'asyncio', 'litellm', 'rich'}"
    code = f"import sys, llm_fsm.documents.loader; print(*{heavy} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""


def test_rules_that_block_are_those_of_the_book():
    """All but those whose findings are made while a document is read."""
    book = {
        rule.name
        for rule in RULES
        if rule.level == "error" and rule.blocks and rule.name not in CODES
    }
    assert {rule.name for rule in BLOCKING} == book
