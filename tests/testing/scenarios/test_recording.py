"""Recordings of cases: what is kept, what is not, and what is said when one does not fit any more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llm_fsm.testing import HttpReply, serve_scripted
from llm_fsm.testing.scenarios.cassette import place_of
from llm_fsm.testing.scenarios.problems import SuiteError
from llm_fsm.testing.scenarios.session import FileResult, PlayOptions, play_file

PIN = "4711-secret"
DEFINITION: dict[str, Any] = {
    "name": "desk",
    "initial_state": "ask",
    "persona": "A porter",
    "context_schema": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "pin": {"type": "string", "x-secret": True, "pattern": "^[0-9]{4}-[a-z]+$"},
        },
    },
    "states": {
        "ask": {"purpose": "Learn name and PIN", "transitions": [{"target_state": "done"}]},
        "done": {"reply": "Thank you, {{ name }}."},
    },
}
CASE = {
    "name": "enters",
    "steps": [
        {"say": "Ada", "expect": {"state": "ask", "context": {"name": "Ada"}}},
        {"say": f"it is {PIN}", "expect": {"state": "done", "context": {"pin": PIN}}},
    ],
}
REPLIES = [
    {
        "transition": {"target_state": "ask", "context_update": {"name": "Ada"}},
        "message": "Your PIN?",
    },
    {"transition": {"target_state": "done", "context_update": {"pin": PIN}}, "message": ""},
]


def write(folder: Path, *cases: Any, definition: Any = DEFINITION) -> str:
    (folder / "desk.json").write_text(json.dumps(definition))
    path = folder / "desk.test.json"
    path.write_text(
        json.dumps({"definition": "desk.json", "cases": list(cases or (CASE,))}, indent=1)
    )
    return str(path)


def recorded(folder: Path, monkeypatch: pytest.MonkeyPatch, replies: Any = REPLIES) -> str:
    """A file with its cassette, recorded over HTTP."""
    file = write(folder)
    monkeypatch.setenv("LLM_FSM_API_KEY", "sk-very-secret-key")
    with serve_scripted(replies) as server:
        done = play_file(file, PlayOptions(mode="record", model="any", base_url=server.base_url))
    assert done.passed, done
    return file


def told(done: FileResult) -> list[str]:
    return [
        f"{found.line}: {found.step}: {found.message}"
        for result in done.results
        for found in result.failures
    ]


def said(file: str, **options: Any) -> list[str]:
    """What is wrong when a file is played."""
    try:
        return told(play_file(file, PlayOptions(**options)))
    except SuiteError as error:
        return [str(fault) for fault in error.faults]


def test_what_was_recorded_is_played_without_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = recorded(tmp_path, monkeypatch)
    for match in ("exact", "words"):
        done = play_file(file, PlayOptions(match=match))
        assert (done.passed, [turn.text for turn in done.results[0].said]) == (
            True,
            ["", "Your PIN?", "Thank you, Ada."],
        )


def test_no_secret_and_no_key_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {**REPLIES[0], "message": "sk-very-secret-key is my key"}
    file = recorded(tmp_path, monkeypatch, [told, REPLIES[1]])
    text = Path(place_of(file)).read_text()
    assert PIN not in text
    assert "sk-very-secret-key" not in text
    assert "⟦say 2 6 17⟧" in text


def test_parts_of_secrets_and_refused_ones_are_not_kept_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = json.loads(json.dumps(DEFINITION))
    definition["context_schema"]["properties"]["cards"] = {"type": "array", "x-secret": True}
    told = "4111 for shopping, 5500, and the PIN is wrong-1"
    case = {
        "name": "c",
        "steps": [{"say": told, "expect": {"context": {"cards": ["4111", {"no": 5500}]}}}],
    }
    file = write(tmp_path, case, definition=definition)
    update = {"cards": ["4111", {"no": 5500}], "pin": "wrong-1"}
    reply = {"transition": {"target_state": "ask", "context_update": update}, "message": "So 4111."}
    monkeypatch.setenv("LLM_FSM_API_KEY", "sk-very-secret-key")
    again = {"target_state": "ask", "context_update": {}, "message": "So 4111, not wrong-1."}
    with serve_scripted([reply, again]) as server:
        assert play_file(
            file, PlayOptions(mode="record", model="any", base_url=server.base_url)
        ).passed
    kept = Path(place_of(file)).read_text()
    assert [
        part for part in ("4111", "5500", "wrong-1") if part in kept.partition('"text"')[2]
    ] == []
    assert play_file(file).passed


def test_secrets_of_a_called_definition_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inner.json").write_text(json.dumps({**DEFINITION, "name": "inner"}))
    outer = {
        "name": "outer",
        "initial_state": "in",
        "states": {
            "in": {"kind": "subflow", "flow": "inner.json", "transitions": ["end"]},
            "end": {},
        },
    }
    file = write(tmp_path, {"name": "c", "steps": [{"say": f"it is {PIN}"}]}, definition=outer)
    monkeypatch.setenv("LLM_FSM_API_KEY", "sk-very-secret-key")
    with serve_scripted([{**REPLIES[1], "message": PIN}] * 3) as server:
        play_file(file, PlayOptions(mode="record", model="any", base_url=server.base_url))
    assert "⟦say 1 6 17⟧" in Path(place_of(file)).read_text()
    assert PIN not in Path(place_of(file)).read_text()


@pytest.mark.parametrize(("given", "masked"), [("1234-abc", '"1111-xxx"'), (1234, "1111}")])
def test_a_secret_that_nobody_said_is_masked_in_its_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Any, masked: str
) -> None:
    file = write(tmp_path, {"name": "c", "steps": [{"say": "guess"}]})
    told = {"transition": {"target_state": "ask", "context_update": {"pin": given}}, "message": ""}
    again = {"target_state": "ask", "context_update": {}, "message": "Which PIN?"}
    with serve_scripted([told, again]) as server:
        play_file(file, PlayOptions(mode="record", model="any", base_url=server.base_url))
    kept = Path(place_of(file)).read_text().replace('\\"', '"')
    assert str(given) not in kept
    assert masked in kept
    assert play_file(file).passed


def test_recording_one_case_keeps_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = recorded(tmp_path, monkeypatch)
    write(tmp_path, CASE, {"name": "second", "steps": [{"say": "x", "expect": "ask"}]})
    with serve_scripted([REPLIES[0]]) as server:
        options = PlayOptions(mode="record", model="any", base_url=server.base_url)
        assert play_file(file, options, names=("second",)).passed
    done = play_file(file)
    assert [(result.name, result.passed) for result in done.results] == [
        ("enters", True),
        ("second", True),
    ]


def lines_of(file: str) -> list[str]:
    return Path(place_of(file)).read_text().splitlines(keepends=True)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda lines: lines[:-1],
            "desk.cassette.jsonl:3:1: error: the recording was cut off: its end is missing",
        ),
        (
            lambda lines: [*lines[:2], lines[2][:40]],
            "desk.cassette.jsonl:3:1: error: the recording was cut off or is damaged",
        ),
        (lambda lines: [], "desk.cassette.jsonl:1:1: error: this is no cassette"),
        (
            lambda lines: ["[1]\n", *lines],
            "desk.cassette.jsonl:1:1: error: each line of a cassette is one JSON object",
        ),
        (
            lambda lines: [lines[0], '{"case": "x"}\n', '{"end": 1}\n'],
            "desk.cassette.jsonl:2:1: error: this line is no recorded",
        ),
        (
            lambda lines: [lines[0].replace('"desk"', '"other"'), *lines[1:]],
            "desk.cassette.jsonl:1:1: error: this cassette was recorded with the definition 'other'",
        ),
    ],
)
def test_a_cassette_that_cannot_be_used_is_told_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any, told: str
) -> None:
    file = recorded(tmp_path, monkeypatch)
    Path(place_of(file)).write_text("".join(change(lines_of(file))))
    [found] = said(file)
    assert told in found


def test_a_definition_that_changed_is_told_with_the_turn_and_the_part_of_the_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = recorded(tmp_path, monkeypatch)
    write(tmp_path, definition={**DEFINITION, "persona": "A king"})
    first, *_ = said(file)
    assert first.startswith(
        "7: step 1: the prompt differs from the recorded one in <persona> (the definition has changed"
    )
    assert play_file(file, PlayOptions(match="words")).passed


@pytest.mark.parametrize(
    ("case", "told"),
    [
        (
            {**CASE, "steps": [{"say": "Bob"}]},
            "step 1: the user's message is another one than when it was recorded",
        ),
        (
            {**CASE, "steps": [*CASE["steps"], {"end": True}], "greet": True},
            "start: the model is asked in state 'ask', and the recording has no further",
        ),
        ({**CASE, "name": "another"}, "has no recording of this case"),
    ],
)
def test_a_case_that_changed_is_told_with_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Any, told: str
) -> None:
    file = recorded(tmp_path, monkeypatch)
    write(tmp_path, case)
    assert any(told in found for found in said(file, mode="replay", match="words"))


def test_replies_that_are_not_asked_for_any_more_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = recorded(tmp_path, monkeypatch)
    first, _ = CASE["steps"]
    write(tmp_path, {**CASE, "steps": [first, {"end": True}]})
    assert [found.split(": ", 1)[1] for found in said(file)] == [
        "step 2: a recorded reply was never asked for"
    ]


def test_there_is_nothing_to_replay(tmp_path: Path) -> None:
    assert (
        "there is no recording of this file; record one with --record"
        in said(write(tmp_path), mode="replay")[0]
    )


def test_live_cases_have_a_rate_and_pass_by_the_threshold(tmp_path: Path) -> None:
    file = write(
        tmp_path, {"name": "c", "steps": [{"say": "Ada", "expect": {"context": {"name": "Ada"}}}]}
    )
    wrong = {**REPLIES[0], "transition": {"target_state": "ask", "context_update": {"name": "Bob"}}}
    for threshold, passed in ((0.5, True), (0.75, False)):
        with serve_scripted([REPLIES[0], wrong, HttpReply(status=400), REPLIES[0]]) as server:
            options = PlayOptions(
                mode="live", model="any", base_url=server.base_url, times=4, threshold=threshold
            )
            [result] = play_file(file, options).results
        assert (result.passes, result.runs, result.passed) == (2, 4, passed)
        assert result.failures


def test_scripted_replies_come_before_a_recording_unless_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = recorded(tmp_path, monkeypatch)
    scripted = [
        {"say": "Ada", "reply": {"message": "scripted"}},
        {"say": f"it is {PIN}", "reply": {"message": "scripted"}},
    ]
    write(tmp_path, {**CASE, "steps": scripted})
    for mode, words in (("scripted", "scripted"), ("replay", "Your PIN?")):
        assert play_file(file, PlayOptions(mode=mode)).results[0].said[1].text == words


def test_a_failed_recording_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = recorded(tmp_path, monkeypatch)
    before = Path(place_of(file)).read_text()
    with serve_scripted([REPLIES[0], HttpReply(status=400)]) as server:
        done = play_file(file, PlayOptions(mode="record", model="any", base_url=server.base_url))
    assert (done.passed, Path(place_of(file)).read_text()) == (False, before)
    assert (
        done.recorded
        == f"recorded 0 of 1 case in {place_of(file)}; where the model failed, nothing was changed"
    )


def test_what_was_recorded_with_an_older_definition_says_so_when_it_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path, monkeypatch)
    other = {"name": "other", "steps": [{"say": "Bob", "expect": "ask"}]}
    file = write(tmp_path, CASE, other, definition={**DEFINITION, "persona": "A grumpy porter"})
    with serve_scripted(REPLIES) as server:
        options = {"mode": "record", "model": "any", "base_url": server.base_url}
        assert play_file(file, PlayOptions(**options), names=("other",)).recorded.startswith(
            "recorded 1 of 1 case in"
        )
    found = play_file(file)
    assert [result.passed for result in found.results] == [False, True]
    assert "step 1: the prompt differs" in told(found)[0]
    assert "the definition has changed since" in told(found)[0]


def test_a_case_that_nobody_recorded_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path, monkeypatch)
    file = write(tmp_path, {**CASE, "name": "comes in"})
    [first, _] = said(file)
    assert first.endswith(
        "desk.cassette.jsonl has no recording of this case; record again with --record"
    )


def test_a_subflow_that_changed_is_a_definition_that_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = {
        "name": "inner",
        "initial_state": "ask",
        "states": {"ask": {"purpose": "Ask"}, "end": {}},
    }
    inner["states"]["ask"]["transitions"] = [{"target_state": "end", "description": "Said"}]
    outer = {
        "name": "outer",
        "initial_state": "in",
        "states": {"in": {"kind": "subflow", "flow": "inner.json"}},
    }
    outer["states"] |= {"bye": {"reply": "Bye"}}
    outer["states"]["in"]["transitions"] = [{"target_state": "bye"}]
    case = {"name": "a", "steps": [{"say": "x", "expect": "bye"}]}
    (tmp_path / "inner.json").write_text(json.dumps(inner))
    file = write(tmp_path, case, definition=outer)
    with serve_scripted(
        [{"transition": {"target_state": "end", "context_update": {}}, "message": "M"}]
    ) as server:
        assert play_file(
            file, PlayOptions(mode="record", model="any", base_url=server.base_url)
        ).passed
    assert play_file(file).passed
    (tmp_path / "inner.json").write_text(json.dumps(inner).replace("Ask", "Ask again"))
    assert "the definition has changed since" in said(file)[0]


@pytest.mark.parametrize(
    "change",
    [
        {"step": "1"},
        {"case": ["enters"]},
        {"prompt": [1]},
        {"prompt": {"system": "x"}},
        {"prompt": {"system": {"task": 1}}},
        {"reply": {"text": 5}},
        {"reply": {"text": "x", "seconds": None}},
        {"reply": {"text": "x", "tool_calls": [{"id": 1, "name": "a", "arguments": "{}"}]}},
    ],
)
def test_a_line_with_values_of_another_type_is_told(
    change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = recorded(tmp_path, monkeypatch)
    place = Path(place_of(file))
    head, first, *rest = place.read_text().splitlines()
    place.write_text("\n".join([head, json.dumps({**json.loads(first), **change}), *rest]) + "\n")
    assert said(file) == [
        f"{place}:2:1: error: this line is no recorded reply; record again with --record"
    ]
