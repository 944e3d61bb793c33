"""The release file: what is wrong with one is one message, with the place and what would be right."""

from __future__ import annotations

import json

import jsonschema_rs
import pytest

from llm_fsm.errors import ConfigurationError
from llm_fsm.releases.file import promoted, read_release, release_of, taken_back
from llm_fsm.releases.schema import release_schema
from paths import ROOT
from shops import RELEASE, write_release

GUARD = {"figure": "errors", "above": 3}


@pytest.mark.parametrize(
    ("line", "changes", "place", "cure"),
    [
        (5, {"share": 1.5}, "share", "from 0 to 1"),
        (5, {"share": -0.1}, "share", "from 0 to 1"),
        (5, {"share": "much"}, "share", "from 0 to 1"),
        (7, {"by": "user"}, "by", "metadata.user"),
        (7, {"by": 3}, "by", "metadata.user"),
        (3, {"stable": "../etc/order.json"}, "stable", "definition for everybody"),
        (3, {"stable": None}, "stable", "definition for everybody"),
        (4, {"candidate": "order"}, "candidate", "newer definition"),
        (7, {"where": {"equals": [1, 1]}}, "where", '"=="'),
        (2, {"release": "a b"}, "release", "letters, digits"),
        (7, {"shares": 1}, "shares", "not permitted"),
        (9, {"guards": [{"figure": "handovers", "above": 1}]}, "guards.0.figure", "handover_share"),
        (8, {"guards": [{"figure": "errors"}]}, "guards.0", "worse_by or above"),
        (8, {"guards": [{**GUARD, "worse_by": 0.1}]}, "guards.0", "worse_by or above"),
        (8, {"guards": [{"figure": "errors", "worse_by": 0.1}]}, "guards.0", "give above"),
        (11, {"guards": [{**GUARD, "after": 0}]}, "guards.0.after", "does not judge"),
        (9, {"map": {"states": {"a": 1}}}, "map.states.a", "old name to new one"),
    ],
)
def test_a_fault_has_place_and_cure(line, changes, place, cure):
    text = json.dumps({**RELEASE, **changes}, indent=1)
    with pytest.raises(ConfigurationError) as raised:
        release_of(text, "shop.release.json")
    said = str(raised.value)
    assert said.startswith(f"shop.release.json:{line}:")
    assert f": {place} is " in said
    assert cure in said
    assert "\n" not in said


def test_a_missing_key_and_broken_json_have_places_too():
    with pytest.raises(ConfigurationError, match=r"^x:1:1: stable: Field required\. The file"):
        release_of('{"release": "shop"}', "x")
    with pytest.raises(ConfigurationError, match=r"^x:1:13: "):
        release_of('{"release": nope}', "x")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="no such file"):
        read_release(tmp_path / "shop.release.json")


def test_the_example_of_the_format_is_read():
    text = """{"release": "order", "stable": "order.json", "candidate": "order-2.json", "share": 0.1,
     "by": "metadata.user", "where": {"==": [{"var": "metadata.country"}, "DE"]}, "salt": "2026-12",
     "guards": [{"figure": "handover_share", "worse_by": 0.05, "after": 200},
                {"figure": "outcome:booked", "worse_by": 0.03, "after": 200},
                {"figure": "errors", "above": 3}]}"""
    assert release_of(text, "order.release.json").guards[2].above == 3


def test_a_promotion_can_be_taken_back(tmp_path):
    release = read_release(write_release(tmp_path))
    after = promoted(release)
    assert (after["stable"], after["candidate"], after["share"]) == ("shop-2.json", None, 0)
    again = release.model_copy(update=after)
    back = taken_back(again)
    assert (back["stable"], back["candidate"], back["share"]) == ("shop.json", "shop-2.json", 0)
    assert taken_back(release) == {"share": 0}
    with pytest.raises(ConfigurationError, match="no candidate"):
        promoted(again)


def test_the_map_back_is_the_other_way_round():
    text = json.dumps({**RELEASE, "map": {"states": {"a": "b"}, "keys": {"c": "d", "e": None}}})
    assert release_of(text, "x").back_map() == {"states": {"b": "a"}, "keys": {"d": "c"}}


def test_the_published_schema_is_what_the_models_say():
    place = ROOT / "src/llm_fsm/releases/release.schema.json"
    schema = json.loads(place.read_text(encoding="utf-8"))
    assert schema == release_schema(), f"run: llm-fsm schema --release > {place}"
    fits = jsonschema_rs.Draft202012Validator(schema).is_valid
    assert fits(RELEASE)
    assert not fits({**RELEASE, "share": 2})
    assert all("description" in member for member in schema["properties"].values())
