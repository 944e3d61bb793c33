"""`llm-fsm release`: check, start, status, promote, back."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from llm_fsm import AsyncMachine
from llm_fsm.cli import main
from shops import CANDIDATE, STABLE, write_release

RENAMED = json.loads(json.dumps(CANDIDATE).replace('"ask"', '"product"'))
MAP = {"states": {"ask": "product"}}
NEEDED = ("stable", "candidate", "share")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(place: Path) -> Any:
    return json.loads((place / "shop.release.json").read_text())


def talked(place: Path, names: str, **changes: Any) -> str:
    """Begin conversations, and return the URL of their store."""
    url = f"sqlite:///{place / 'shop.db'}"

    async def talk() -> None:
        async with AsyncMachine.from_release(
            write_release(place, **changes), model="offline", store=url
        ) as machine:
            for name in names:
                chat = await machine.start(conversation_id=name)
                if name.isupper():
                    await chat.send("tea")

    asyncio.run(talk())
    return url


def run(*arguments: str) -> int:
    return main(["release", *arguments])


def test_start_and_back_change_the_share_alone(place: Path) -> None:
    path = write_release(place, share=0, guards=[{"figure": "errors", "above": 3}])
    text = "// ours\n" + path.read_text().replace("{", "{\n  ", 1)
    path.write_text(text)
    assert run("start", "shop.release.json", "--share", "0.25") == 0
    assert path.read_text() == text.replace('"share": 0,', '"share": 0.25,')
    assert run("back", "shop.release.json") == 0
    assert path.read_text() == text


def test_a_start_needs_a_share(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_release(place, share=0)
    for share in ((), ("--share", "0"), ("--share", "1.1")):
        assert run("start", "shop.release.json", *share) == 2
        assert "--share" in capsys.readouterr().err


def test_a_promotion_and_the_way_back(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_release(place)
    assert run("promote", "shop.release.json") == 0
    after = written(place)
    assert (after["stable"], after["share"], after["previous"]) == ("shop-2.json", 0, "shop.json")
    assert "candidate" not in after
    assert run("promote", "shop.release.json") == 2
    assert "no candidate to promote" in capsys.readouterr().err
    assert run("back", "shop.release.json") == 0
    after = written(place)
    assert [after[name] for name in NEEDED] == ["shop.json", "shop-2.json", 0]


BROKEN = {**CANDIDATE, "initial_state": "nowhere"}
TEST = {
    "definition": "shop-2.json",
    "start": {"expect": {"text": "Which item?"}},
    "steps": [
        {"say": "tea", "reply": {"to": "booked", "set": {"item": "tea"}}, "expect": "booked"}
    ],
}


@pytest.mark.parametrize(
    ("candidate", "changes", "said"),
    [
        (BROKEN, {}, "nowhere"),
        (None, {}, "no such file"),
        ({**CANDIDATE, "name": "other"}, {}, "one name"),
        (RENAMED, {}, "write a map"),
        (RENAMED, {"map": {"states": {"ask": "produkt"}}}, "did you mean 'product'?"),
        (CANDIDATE, {"by": "context.plna"}, "did you mean 'plan'?"),
        (CANDIDATE, {"share": 2}, "from 0 to 1"),
    ],
)
def test_a_candidate_with_an_error_never_starts(
    place: Path, capfd: pytest.CaptureFixture[str], candidate: Any, changes: Any, said: str
) -> None:
    path = write_release(place, candidate=candidate, **changes)
    before = path.read_text()
    for command in (["check"], ["start", "--share", "0.5"]):
        assert run(*command, "shop.release.json") in (1, 2)
        assert capfd.readouterr().err.count(said) == 1
    assert path.read_text() == before


def test_tests_of_both_definitions_count(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_release(place, share=0)
    (place / "shop.test.json").write_text(json.dumps(TEST))
    assert run("start", "shop.release.json", "--share", "1") == 1
    assert "fails; run llm-fsm test" in capsys.readouterr().err
    (place / "shop.test.json").write_text(json.dumps({**TEST, "definition": "shop.json"}))
    assert run("start", "shop.release.json", "--share", "1") == 0
    assert json.loads(path.read_text())["share"] == 1


def test_a_check_plays_the_last_conversations_again(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = talked(place, "ABc", share=0)
    write_release(place, candidate=RENAMED, map=MAP)
    (place / "good.test.json").write_text(json.dumps({**TEST, "definition": "shop.json"}))
    assert run("check", "shop.release.json", "--db", url, "--last", "2") == 0
    shown = capsys.readouterr()
    assert "2 conversations" in shown.err
    assert "B: turn 0: state: ask → product" in shown.out
    assert "A:" not in shown.out


def test_status_as_a_table_and_as_json(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = talked(place, "ABCDEFGHIJ")
    assert run("status", "shop.release.json", "--db", url, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(arm["conversations"] for arm in found["arms"].values()) == 10
    [booked] = [line for line in found["figures"] if line["figure"] == "outcome:booked"]
    assert booked["candidate"]["value"] == booked["stable"]["value"] == 1
    assert booked["worse_by"]["low"] < 0 < booked["worse_by"]["high"]
    assert run("status", "shop.release.json", "--db", url) == 0
    shown = capsys.readouterr().out
    assert "outcome:booked" in shown
    assert "1.000 (" in shown


def test_stats_count_one_arm(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = talked(place, "ABCDEFGHIJ")
    counts = []
    for arm in ("stable", "candidate"):
        label = ("--label", "release=shop", "--label", f"arm={arm}")
        assert main(["conversations", "stats", "--db", url, "--json", *label]) == 0
        counts.append(json.loads(capsys.readouterr().out)["conversations"])
    assert sum(counts) == 10
    assert min(counts) > 0


def test_back_moves_the_conversations_of_the_candidate_alone(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = talked(place, "a", share=0)
    url = talked(place, "bcD", candidate=RENAMED, map=MAP, share=1)
    assert run("back", "shop.release.json", "--move", "--db", url) == 0
    assert "2 conversations carried over" in capsys.readouterr().err

    async def greeted() -> dict[str, str]:
        async with AsyncMachine.from_release(
            "shop.release.json", model="offline", store=url
        ) as machine:
            assert (await machine.start()).greeting == "Which item?"
            lines = await machine.conversations(limit=3)
            names = [line.conversation_id for line in lines if not line.ended]
            found = {name: await machine.definition_of(name) for name in names}
            return {name: one.initial_state for name, one in found.items()}

    assert set(asyncio.run(greeted()).values()) == {STABLE["initial_state"]}


# -- a release in the store


@pytest.fixture
def url(place: Path) -> str:
    """A store, and a folder with both definitions and a draft of a release."""
    write_release(place, share=0, guards=[{"figure": "errors", "above": 3}]).rename("draft.json")
    return f"sqlite:///{place / 'shop.db'}"


def stored(url: str, capsys: pytest.CaptureFixture[str]) -> Any:
    capsys.readouterr()
    assert run("status", "shop.release.json", "--json", "--db", url) == 0
    return json.loads(capsys.readouterr().out)


def test_a_release_without_a_file_is_in_the_store(
    place: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stored(url, capsys)["version"] == 1
    begin = ("start", "shop.release.json", "--db", url, "--share")
    assert run(*begin, "0.25", "--from", "draft.json") == 0
    begun = stored(url, capsys)
    assert [begun[name] for name in NEEDED] == ["shop.json", "shop-2.json", 0.25]
    assert (begun["source"], begun["guards"][0]["above"]) == ("store", 3)
    assert run(*begin, "0.5") == 0
    assert stored(url, capsys)["share"] == 0.5
    assert run("check", "shop.release.json", "--db", url) == 0
    assert run("promote", "shop.release.json", "--db", url) == 0
    after = stored(url, capsys)
    assert (after["stable"], after["share"], after["previous"]) == ("shop-2.json", 0, "shop.json")
    assert run("back", "shop.release.json", "--db", url) == 0
    assert [stored(url, capsys)[name] for name in NEEDED] == ["shop.json", "shop-2.json", 0]
    assert not (place / "shop.release.json").exists()


def test_a_table_names_the_source(
    place: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for source in ("store", "file"):
        assert run("status", "shop.release.json", "--db", url) == 0
        assert f"share 0, from the {source}" in capsys.readouterr().out
        write_release(place, share=0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("promote",), "no candidate to promote"),
        (("start", "--share", "0.5"), "the release 'shop' in the store: it has no candidate"),
        (("start", "--share", "0.5", "--from", "none.json"), "none.json"),
        (("back",), "the release 'shop' in the store"),
    ],
)
def test_a_store_without_a_release_is_reported(
    place: Path, url: str, capsys: pytest.CaptureFixture[str], arguments: Any, said: str
) -> None:
    command, *options = arguments
    assert run(command, "shop.release.json", *options, "--db", url) in (1, 2)
    assert said in capsys.readouterr().err
    assert stored(url, capsys)["version"] == 1


def test_a_candidate_at_fault_does_not_start_from_the_store(
    place: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "shop-2.json").write_text(json.dumps(RENAMED))
    begin = ("start", "shop.release.json", "--db", url, "--share", "1", "--from", "draft.json")
    assert run(*begin) == 1
    assert "write a map" in capsys.readouterr().err
    assert stored(url, capsys)["share"] == 0
