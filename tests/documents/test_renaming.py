"""Renamings of states and keys: a definition says the same with other names, in every place."""

import json
import shutil

import pytest

from llm_fsm.cli import main
from llm_fsm.definition.names import PATTERNS
from llm_fsm.documents.check import check
from llm_fsm.documents.discovery import definition_paths
from llm_fsm.documents.loader import load
from llm_fsm.documents.patch import PatchError
from llm_fsm.documents.renaming import Renaming, references, renamed
from llm_fsm.testing.scenarios import names
from paths import TESTS

SHIPPED = TESTS / "conversations" / "shipped"
STATE = Renaming("state", "pay", "till")
KEY = Renaming("key", "city", "town")
READS = {"and": [{"==": [{"var": "_previous_state"}, "pay"]}, {"has_context": "city.zip"}]}


def definition(**parts):
    return {
        "name": "pay city",
        "initial_state": "ask",
        "context_schema": {"type": "object", "properties": {"other": {"type": "string"}}},
        "states": {"ask": {"purpose": "pay city"}, "done": {"purpose": "city"}},
        **parts,
    }


def ask(**parts):
    return definition(states={"ask": {"purpose": "pay city", **parts}, "done": {}})


@pytest.mark.parametrize(
    "document",
    [
        definition(initial_state="pay"),
        definition(states={"pay": {"id": "pay", "purpose": "pay"}}),
        definition(global_transitions=[{"target_state": "pay", "return": True}]),
        definition(on_function_error={"reply": "{{ city }}", "target_state": "pay"}),
        definition(properties=[{"never": ["pay", {"key": "city"}], "before": {"key": "city"}}]),
        definition(properties=[{"always": "pay", "after": "ask"}]),
        definition(context_schema={"properties": {"city": {"title": "pay"}}, "required": ["city"]}),
        definition(context_schema={"properties": {"a": {"x-from": ["city.zip", "b"]}}}),
        definition(context_schema={"properties": {"a": {"x-valid": [{"logic": READS}]}}}),
        definition(tools={"pay": {"registered": "pay", "scope": ["pay"], "output": {"city": "a"}}}),
        definition(**{"x-lint": {"ignore": ["trap", {"rule": "trap", "at": "/states/pay/id"}]}}),
        definition(ui={"positions": {"pay": [1, 2]}}),
        ask(required_context_keys=["city", "city.zip"], confirms=["city"], clear=["city"]),
        ask(set={"city": {"+": [{"var": "city.size"}, 1]}}, context_scope={"read": ["city"]}),
        ask(on_timeout="pay", on_exhausted="pay"),
        ask(input={"there": "city"}, output={"city": "there"}),
        ask(key_results=[{"name": "pay", "check": {"==": [{"var": "context.city"}, "city"]}}]),
        ask(transitions=[{"target_state": "pay", "conditions": [{"logic": READS}]}]),
        ask(transitions=[{"target_state": "done", "set": {"city": 1}, "clear": ["city"]}]),
        ask(transitions=[{"target_state": "a", "conditions": [{"requires_context_keys": ["city"]}]}]),
        ask(transitions=[{"target_state": "pay"}], choices=["pay", {"label": "pay", "value": "pay"}]),
        ask(transitions=[{"conditions": [{"logic": {"missing": ["city", "b"]}}]}]),
        ask(transitions=[{"conditions": [{"logic": {">": [{"var": "_refusals.city"}, 2]}}]}]),
        ask(transitions=[{"conditions": [{"logic": {"some": [{"var": "city"}, {"var": "a"}]}}]}]),
        ask(reply="{% if _previous_state == 'pay' %}pay city{% endif %} {{ city.zip | upper }}"),
        ask(reply="{{ 'pay' if \"pay\" != _current_state else city }}"),
        ask(reply="{% if _previous_state not in ['pay', 'b'] %}{% for one in city %}{{ one }}{% endfor %}{% endif %}"),
        ask(reply="{{ {'pay': 'pay', 'b': city}[_previous_state] }} {'pay': 1}"),
        ask(reply="{{ { \"b\" : 'pay', \"pay\" : \"b\" }[ _current_state ] | upper }}"),
        ask(reply="{% if {'pay': true}[_previous_state] and city == 'pay' %}pay{% endif %}"),
        ask(reply="{{ {'pay': 'city'}[_previous_state] ~ {'pay': 'b'}[city] }}"),
        ask(reply="{{ {'b':'b','pay':'it\\'s'}[_previous_state] }}{{ {'pay': 'pay'} }}"),
        ask(reply=["{% for a in city %}", "{{ a.city }}", "{% endfor %} pay"]),
    ],
)  # fmt: skip
def test_a_name_is_changed_in_its_places_and_words_are_not(document):
    text = json.dumps(document, indent=1)
    new = renamed(text, [STATE, KEY])
    assert ("till" in new) or ("town" in new)
    back = renamed(new, [Renaming("state", "till", "pay"), Renaming("key", "town", "city")])
    assert back == text
    for old, after in zip(text.splitlines(), new.splitlines(), strict=True):
        if old.strip().partition(":")[0] in ('"name"', '"purpose"', '"title"', '"label"'):
            assert after == old


@pytest.mark.parametrize(
    "document",
    [
        ask(choices=[{"label": "To the till", "value": "pay"}], transitions=[{"target_state": "b"}]),
        ask(reply="pay {# city #}{% raw %}{{ city }}{% endraw %} {{ a.city }} {{ 'city' }}"),
        ask(reply="{% for city in a %}{{ city }}{% endfor %}"),
        ask(transitions=[{"conditions": [{"logic": {"==": [{"var": "a"}, "pay"]}}]}]),
        ask(transitions=[{"conditions": [{"logic": {"some": [{"var": "a"}, {"var": "city"}]}}]}]),
        ask(key_results=[{"name": "a", "check": {"==": [{"var": "output.city"}, "city"]}}]),
        ask(input={"city": "a"}, output={"a": "city"}, instructions="{{ city }}", flow="pay"),
    ],
)  # fmt: skip
def test_a_word_that_looks_like_a_name_stays(document):
    text = json.dumps(document)
    assert renamed(text, [STATE, KEY]) == text


def test_words_of_exhaustion_are_no_states():
    text = json.dumps(ask(on_exhausted="continue"))
    assert renamed(text, [Renaming("state", "continue", "on")]) == text


def test_a_key_beside_its_new_name_is_refused():
    with pytest.raises(PatchError, match="town"):
        renamed(json.dumps(ask(set={"city": 1, "town": 2})), [KEY])


def test_a_document_of_any_form_has_places():
    assert list(references({"states": [1], "properties": "a", "context_schema": 4})) == []


def test_a_reply_that_compares_an_unknown_state_is_found():
    reply = "{% if _previous_state == 'asked' %}a{% endif %}{{ 'b' if '' == _previous_state }}"
    found = next(one for one in check(ask(reply=reply)) if one.name == "unknown-state-in-condition")
    assert (found.pointer, found.hint) == ("/states/ask/reply", 'did you mean "ask"?')


@pytest.mark.parametrize(
    ("reply", "unknown"),
    [
        ("{{ {'asked': 'a'}[_previous_state] }}", True),
        ("{{ {'ask': 'b', 'asked': 'a'}[_previous_state] }}", True),
        ("{{ {'ask' : 'asked', \"asked\" : 'a'}[ _current_state ] }}", True),
        ("{{ {'ask': 'asked'}[_previous_state] }}", False),
        ("{{ {'asked': 'a'}[city] }}", False),
    ],
)
def test_a_reply_that_looks_a_state_up_names_its_states(reply, unknown):
    names = {one.name for one in check(ask(reply=reply))}
    assert ("unknown-state-in-condition" in names) == unknown


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.test.json")), ids=lambda path: path.name)
def test_shipped_conversations_go_the_same_way_under_other_names(path, tmp_path, capsys):
    tests = path.read_text(encoding="utf-8")
    name = json.loads(tests)["definition"]
    file = definition_paths()[name]
    text = file.read_text(encoding="utf-8")
    document = json.loads(text)
    texts = load(file).texts
    if texts:  # the files of translations are not renamed
        text = json.dumps({**document, "texts": texts})
    ours = [one for one in document["states"] if one not in (*PATTERNS, "cancelled")]
    renamings = [Renaming("state", one, f"{one}_2") for one in ours]
    keys = document.get("context_schema", {}).get("properties", {})
    renamings += [Renaming("key", one, f"{one}_2") for one in keys]
    shutil.copytree(file.parent, tmp_path, dirs_exist_ok=True)
    (tmp_path / "other.json").write_text(renamed(text, renamings), encoding="utf-8")
    followed = names.renamed(tests, renamings).replace(f'"{name}"', '"other.json"', 1)
    played = tmp_path / "other.test.json"
    played.write_text(followed, encoding="utf-8")
    assert main(["test", str(played)]) == 0, capsys.readouterr().out
