"""Changes of a JSON text: what is asked for changes, and every other byte stays."""

import json
import random
import re

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from llm_fsm._json import step, value_at
from llm_fsm.definition.json_source import parse
from llm_fsm.documents import patch

TEXT = """\
// the machine
{
  "name": "a", // its name
  "states": {
    "one": {"purpose": "Ask", "transitions": [{"target_state": "two"}]},
    /* the end */
    "two": {
      "reply": "Bye",
      "x-own": [1,  2,3 ] // as it is
    }
  }
}
"""


@pytest.mark.parametrize(
    ("change", "old", "new"),
    [
        (lambda t: patch.set_value(t, "/name", "b"), '"name": "a"', '"name": "b"'),
        (
            lambda t: patch.set_value(t, "/states/two/reply", "Bye!"),
            '"reply": "Bye"',
            '"reply": "Bye!"',
        ),
        (
            lambda t: patch.set_value(t, "/states/one/transitions/-", {"target_state": "one"}),
            '{"target_state": "two"}]',
            '{"target_state": "two"}, {"target_state": "one"}]',
        ),
        (
            lambda t: patch.set_value(t, "/states/two/x-own", [1, 2, 4, 3]),
            "[1,  2,3 ]",
            "[1,  2, 4,3 ]",
        ),
        (lambda t: patch.set_value(t, "/states/two/x-own", [1, 2]), "[1,  2,3 ]", "[1,  2 ]"),
        (lambda t: patch.delete_values(t, ["/states/two/reply"]), '      "reply": "Bye",\n', ""),
        (
            lambda t: patch.delete_values(t, ["/states/one"]),
            '    "one": {"purpose": "Ask", "transitions": [{"target_state": "two"}]},\n',
            "",
        ),
        (lambda t: patch.delete_values(t, ["/states/one/purpose"]), '"purpose": "Ask", ', ""),
        (
            lambda t: patch.add_member(t, "/states", "three", {"reply": "So"}, after="one"),
            '"two"}]},\n',
            '"two"}]},\n    "three": {"reply": "So"},\n',
        ),
        (
            lambda t: patch.add_member(t, "", "version", "1", after="name"),
            "// its name\n",
            '// its name\n  "version": "1",\n',
        ),
        (
            lambda t: patch.set_value(t, "/states/two/outcome", "good"),
            "[1,  2,3 ] // as it is\n",
            '[1,  2,3 ], // as it is\n      "outcome": "good"\n',
        ),
        (
            lambda t: patch.set_value(t, "/states/one/model/name", "m"),
            '"target_state": "two"}]}',
            '"target_state": "two"}], "model": {"name": "m"}}',
        ),
        (lambda t: patch.move(t, "/states/two/x-own/2", 0), "[1,  2,3 ]", "[3, 1,  2 ]"),
        (lambda t: patch.rename_keys(t, [("/states/two", "end")]), '"two": {', '"end": {'),
    ],
)
def test_a_change_touches_its_own_part_alone(change, old, new):
    assert TEXT.count(old) == 1
    assert change(TEXT) == TEXT.replace(old, new)
    windows = TEXT.replace("\n", "\r\n")
    assert change(windows) == TEXT.replace(old, new).replace("\n", "\r\n")
    assert change("\ufeff" + TEXT) == "\ufeff" + TEXT.replace(old, new)


def test_a_new_state_is_written_as_its_neighbours_are():
    added = patch.add_member(TEXT, "/states", "three", {"reply": "So", "keys": ["a", "b"]})
    assert added == TEXT.replace(
        "// as it is\n    }\n",
        '// as it is\n    },\n    "three": {\n      "reply": "So",\n      "keys": ["a", "b"]\n    }\n',
    )


@pytest.mark.parametrize(
    ("text", "pointer", "value", "expected"),
    [
        ("{}", "/a", 1, '{"a": 1}'),
        ('{"a":1}', "/b", [1, {"c": 2}], '{"a":1,"b":[1,{"c":2}]}'),
        ("{\n}\n", "/a", 1, '{\n  "a": 1\n}\n'),
        ('{\n\t"a": {}\n}', "/a/b", 1, '{\n\t"a": {\n\t\t"b": 1\n\t}\n}'),
        ('{\n  "a": [ // none\n  ]\n}', "/a/-", 1, '{\n  "a": [ // none\n    1\n  ]\n}'),
        ('{"a": 1,}', "/b", 2, '{"a": 1, "b": 2,}'),
        ("[1]", "", {"a": 1}, '{"a": 1}'),
        ('{"a": 1}', "/a", 1.0, '{"a": 1.0}'),
        ('{"a": true}', "/a", 1, '{"a": 1}'),
        ("{}", "/a", "\ud83d", '{"a": "\\ud83d"}'),
    ],
)
def test_the_style_of_the_text_is_kept(text, pointer, value, expected):
    assert patch.set_value(text, pointer, value) == expected


@pytest.mark.parametrize(
    "change",
    [
        lambda: patch.delete_values("{}", ["/a"]),
        lambda: patch.delete_values("{}", [""]),
        lambda: patch.set_value('{"a": 1}', "/a/b", 1),
        lambda: patch.set_value("[1]", "/7", 1),
        lambda: patch.add_member('{"a": 1}', "", "a", 2),
        lambda: patch.rename_keys('{"a": 1, "b": 2}', [("/a", "b")]),
        lambda: patch.move("[1]", "/0", 3),
        lambda: patch.set_value("{", "/a", 1),
    ],
)
def test_a_change_without_a_place_says_so(change):
    with pytest.raises(patch.PatchError):
        change()


GAPS = ("", "", "", " ", "\n", "\n  ", " // c\n ", "/* c */", "\r\n\t")
SEEDS = st.integers(0, 2**32)


def value_of(chance, depth=0):
    """A random JSON value."""
    kind = chance.randrange(4 if depth < 3 else 2)
    if kind == 0:
        return chance.choice([None, True, False, 0, -3, 1.5, 10])
    if kind == 1:
        return "".join(chance.choices('ab "\\/é😀,:{}[]', k=chance.randrange(4)))
    inner = [value_of(chance, depth + 1) for _ in range(chance.randrange(4))]
    if kind == 2:
        return inner
    return {"".join(chance.choices("abc~/ ", k=chance.randrange(4))): item for item in inner}


def written(chance, value):
    """A text of a value, with comments and blanks of all kinds, and trailing commas."""
    gap = lambda: chance.choice(GAPS)  # noqa: E731
    end = gap() + "," if value and chance.random() < 0.2 else ""
    if isinstance(value, dict):
        rows = [
            f"{gap()}{json.dumps(key)}{gap()}:{gap()}{written(chance, item)}{gap()}"
            for key, item in value.items()
        ]
        return "{" + ",".join(rows) + end + gap() + "}"
    if isinstance(value, list):
        rows = [f"{gap()}{written(chance, item)}{gap()}" for item in value]
        return "[" + ",".join(rows) + end + gap() + "]"
    return json.dumps(value, ensure_ascii=chance.random() < 0.5)


def pointers(value, at=""):
    """All pointers of a value."""
    yield at
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        yield from pointers(item, at + step(key))


def slices(text):
    """Pointer to the bytes of each value."""
    whole = patch.read(text)
    return {
        at: whole.text[(one := whole.find(at)).offset : one.end]
        for at in pointers(whole.scan.value)
    }


def comments(text):
    """The comments of a text."""
    return sum(1 for found in re.finditer(r'"(?:[^"\\]|\\.)*"|(//|/\*)', text) if found[1])


def within(at, pointer):
    return at == pointer or at.startswith(pointer + "/")


def in_order(value):
    """A value as text, whichever order its keys have: a change keeps theirs."""
    return json.dumps(value, sort_keys=True)


def without(value, pointer):
    """The value without one part, made on data alone."""
    copied = json.loads(json.dumps(value))
    above, _, key = pointer.rpartition("/")
    holder = value_at(copied, above) if above else copied
    del holder[int(key) if isinstance(holder, list) else key.replace("~1", "/").replace("~0", "~")]
    return copied


@settings(max_examples=100, deadline=None, phases=[Phase.generate])
@given(SEEDS)
def test_a_thousand_random_edits_leave_untouched_bytes_as_they_were(seed):
    chance = random.Random(seed)
    text = written(chance, {"a": value_of(chance), "b": value_of(chance), "c": [1, {"d": 2}]})
    for _ in range(10):
        value = parse(text)
        pointer = chance.choice([at for at in pointers(value) if at] or [""])
        if not pointer:
            return
        above, before, fresh = pointer.rpartition("/")[0], slices(text), value_of(chance)
        part = value_at(value, pointer)
        how = chance.choice(
            ["set", "delete", "add"] if isinstance(part, dict) else ["set", "delete"]
        )
        if how == "set":
            changed = patch.set_value(text, pointer, fresh)
            assert in_order(value_at(parse(changed), pointer)) == in_order(fresh)
            gone = pointer
        elif how == "delete":
            changed = patch.delete_values(text, [pointer])
            assert json.dumps(parse(changed)) == json.dumps(without(value, pointer))
            is_list = isinstance(value_at(value, above) if above else value, list)
            gone = above if is_list else pointer
            lost = comments(before[pointer])
            assert comments(text) - lost - 2 <= comments(changed) <= comments(text) - lost
        else:
            key = f"new{chance.random()}"
            changed = patch.add_member(text, pointer, key, fresh)
            assert json.dumps(value_at(parse(changed), pointer)) == json.dumps({**part, key: fresh})
            assert comments(changed) == comments(text)
            gone = None
        after = slices(changed)
        for at, raw in before.items():
            if not within(pointer, at) and not (gone is not None and within(at, gone)):
                assert after[at] == raw
        text = changed


@settings(max_examples=100, deadline=None, phases=[Phase.generate])
@given(SEEDS)
def test_comments_between_members_outlive_every_deletion(seed):
    chance = random.Random(seed)
    value = {key: number for number, key in enumerate("abcde")}
    text = (
        "{" + ",".join(f'// c\n "{key}": {number} /* c */' for key, number in value.items()) + "\n}"
    )
    gone = chance.sample("abcde", chance.randrange(1, 6))
    after = patch.delete_values(text, [f"/{key}" for key in gone])
    assert parse(after) == {key: item for key, item in value.items() if key not in gone}
    assert comments(after) == comments(text)
