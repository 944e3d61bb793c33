"""A conversation that was held becomes a file of tests, which passes when it is played."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from cli_command import Desk, desk
from llm_fsm import AsyncMachine
from llm_fsm.cli import exit_codes as exits
from llm_fsm.documents.discovery import definition_paths
from llm_fsm.llm.scripted import ScriptedLLM, calls
from llm_fsm.session.turn_record import parse
from llm_fsm.testing.scenarios.save import document_of
from llm_fsm.testing.scenarios.session import FileResult, play_file

__all__ = ["desk"]

OFFLINE = {
    "appointment": ["a check-up", "2099-11-24 at 9:30", "Ada Lovelace, 030 555 0188", "yes"],
    "order": ["two large diavola", "pickup", "yes"],
    "registration": ["Ada Lovelace", "ada@example.com", "no thanks", "yes"],
    "returns": ["R-204518 and 4711", "the lamp"],
    "quiz": ["yes", "Canberra", "the Volga", "nine", "pass", "count"],
}
DESK: dict[str, Any] = {
    "name": "desk",
    "initial_state": "ask",
    "context_schema": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "pin": {"type": "string", "x-secret": True, "pattern": "^[0-9]{4}$"},
        },
    },
    "tools": {"find": {"registered": "find"}},
    "states": {
        "ask": {"purpose": "Ask", "tools": ["find"], "transitions": [{"target_state": "done"}]},
        "done": {"reply": "Thank you, {{ name }}."},
    },
}


def find(id: int) -> str:
    if id > 8:
        raise ValueError("too many")
    return f"number {id}"


def played(document: Any, folder: Path) -> FileResult:
    path = folder / "x.test.json"
    path.write_text(json.dumps(document))
    return play_file(str(path))


def saved(
    document: dict[str, Any], replies: list[Any], *said: str | None, tools: list[Any] | None = None
) -> dict[str, Any]:
    """The test of a conversation; None in `said` takes the last turn back."""

    async def hold() -> dict[str, Any]:
        async with AsyncMachine.from_dict(
            document,
            model=ScriptedLLM(replies),
            store="memory",
            tools=tools or ([find] if document is DESK else ()),
        ) as machine:
            chat = await machine.start(context={"name": "Ada"}, greet=False)
            for text in said:
                await (chat.undo() if text is None else chat.send(text))
            records = [parse(record) for record in await machine.store.records(chat.id)]
            return {**document_of(machine.program, "", records, "held"), "definition": document}

    return asyncio.run(hold())


@pytest.mark.parametrize("name", sorted(OFFLINE))
def test_a_conversation_in_the_terminal_is_saved_as_a_test_that_passes(
    desk: Desk, name: str
) -> None:
    typed = "\n".join(OFFLINE[name]).encode()
    done = desk.run(
        "chat", name, "--model", "offline", "--save-test", "held.test.json", stdin=typed
    )
    assert (
        done.code,
        "saved to held.test.json; to play it: llm-fsm test held.test.json" in done.err,
    ) == (0, True)
    again = desk.run("test", "held.test.json")
    assert again.code == 0, again.out
    document = json.loads((desk.folder / "held.test.json").read_text())
    assert document["definition"] == name
    said = [step["say"] for step in document["cases"][0]["steps"] if "say" in step]
    assert len(said) == len(OFFLINE[name])


def test_the_definition_is_named_from_the_folder_of_the_test(desk: Desk) -> None:
    (desk.folder / "tests").mkdir()
    options = desk.replies({"message": "Hello!"})
    assert (
        desk.run("chat", "greeter.json", *options, "--save-test", "tests/held.test.json").code == 0
    )
    assert (
        json.loads((desk.folder / "tests" / "held.test.json").read_text())["definition"]
        == "../greeter.json"
    )
    assert desk.run("test", "tests").code == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("held.json", "ends in .test.json, which held.json does not"),
        ("there.test.json", "there.test.json exists already and is not overwritten"),
        ("none/held.test.json", "there is no folder none"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused_before_anything_is_said(
    desk: Desk, name: str, said: str
) -> None:
    desk.write("there.test.json", "{}")
    done = desk.run(
        "chat", "greeter.json", "--model", "offline", "--save-test", name, stdin=b"Ada\n"
    )
    assert (done.code, done.out, said in done.err) == (2, "", True)


def test_a_test_that_could_not_be_written_is_told_by_the_exit_code(desk: Desk) -> None:
    command = (
        "chat",
        "greeter.json",
        "--model",
        "offline",
        "--save-test",
        f"{'x' * 300}.test.json",
    )
    done = desk.run(*command, stdin=b"Ada\n")
    assert done.code == exits.OUTPUT
    assert "cannot be written: file name too long" in done.err


def test_replies_that_were_refused_or_were_none_are_part_of_it(tmp_path: Path) -> None:
    replies = [
        "no reply",
        {
            "transition": {"target_state": "nowhere", "context_update": {"name": None}},
            "message": "x",
        },
        {
            "transition": {
                "target_state": "ask",
                "context_update": {"_clear": ["name"], "_quotes": {"_clear": "two"}},
            },
            "message": "Who?",
            "reasoning": "r",
        },
        {
            "transition": {"target_state": "done", "context_update": {"name": "Bob"}, "odd": 1},
            "message": "",
        },
    ]
    document = saved(DESK, replies, "one", "two", "three")
    steps = document["cases"][0]["steps"]
    assert steps[0]["replies"][0] == "no reply"
    assert steps[1]["reply"] == {
        "to": "ask",
        "clear": ["name"],
        "message": "Who?",
        "reasoning": "r",
    }
    assert steps[2]["reply"] == {"raw": replies[3]}
    assert played(document, tmp_path).passed


def test_a_lone_reply_that_moves_nowhere_is_part_of_it(tmp_path: Path) -> None:
    lost = {"transition": {"target_state": "nowhere", "context_update": {}}, "message": "x"}
    document = saved({**DESK, "limits": {"llm_calls": 1}}, [lost], "one", tools=[find])
    assert document["cases"][0]["steps"][0]["reply"] == {"raw": lost}
    assert played(document, tmp_path).passed


def test_what_was_taken_back_is_not_part_of_it(tmp_path: Path) -> None:
    stay = {"transition": {"target_state": "ask", "context_update": {}}, "message": "Hm"}
    document = saved(DESK, [stay, stay, stay], "one", "two", None, "three")
    assert [step["say"] for step in document["cases"][0]["steps"]] == ["one", "three"]
    assert played(document, tmp_path).passed


def test_calls_of_tools_become_fixtures(tmp_path: Path) -> None:
    end = {"transition": {"target_state": "done", "context_update": {}}, "message": ""}
    document = saved(DESK, [calls(("find", {"id": 7}), ("find", {"id": 9})), end], "find it")
    assert document["cases"][0]["tools"] == {
        "find": [{"result": "number 7"}, {"error": "ValueError: too many"}]
    }
    assert played(document, tmp_path).passed


def test_calls_that_a_tool_did_not_take_and_those_of_the_memory_are_played_again(
    tmp_path: Path,
) -> None:
    states = {**DESK["states"], "ask": {**DESK["states"]["ask"], "memory": True}}
    wrong = calls(
        ("find", {"no": 7}),
        ("find", "{"),
        ("lose", {}),
        ("set_memory", {"bucket_index": 1, "content": "x"}),
    )
    end = {"transition": {"target_state": "done", "context_update": {}}, "message": ""}
    document = saved(
        {**DESK, "states": states},
        [wrong, calls(("find", {"id": 7})), end],
        "find it",
        tools=[find],
    )
    tools = document["cases"][0]["tools"]
    refused, found = tools["find"]
    assert (list(tools), list(refused), found) == (["find"], ["error"], {"result": "number 7"})
    assert played(document, tmp_path).passed


def test_secrets_are_replaced_everywhere(tmp_path: Path) -> None:
    told = {
        "transition": {"target_state": "done", "context_update": {"pin": "4711"}},
        "message": "4711, thanks",
    }
    document = saved(DESK, [told], "my PIN is 4711")
    assert "4711" not in json.dumps(document["cases"])
    assert document["cases"][0]["steps"][0]["say"] == "my PIN is 1111"
    assert played(document, tmp_path).passed


def test_parts_of_secrets_are_replaced_too(tmp_path: Path) -> None:
    properties = {
        "cards": {"type": "array", "x-secret": True},
        "sum": {"type": "number", "x-secret": True},
    }
    schema = {
        "type": "object",
        "properties": {**DESK["context_schema"]["properties"], **properties},
    }
    update = {"cards": ["4111", {"no": 5500}], "sum": 97.25, "pin": "98765"}
    told = {
        "transition": {"target_state": "done", "context_update": update},
        "message": "97.25 of 4111",
    }
    plain = {
        "ask": {"purpose": "x", "transitions": [{"target_state": "done"}]},
        "done": {"reply": "Thanks."},
    }
    desk = {**DESK, "tools": {}, "states": plain, "context_schema": schema}
    again = {"target_state": "done", "context_update": {}, "message": "97.25 of 4111"}
    document = saved(desk, [told, again], "4111 and 5500, PIN 98765, 97.25")
    text = json.dumps(document["cases"])
    assert [part for part in ("4111", "5500", "98765", "97.25") if part in text] == []
    assert document["cases"][0]["steps"][0]["replies"][0]["set"]["sum"] == 11.11


def test_the_shortest_values_that_were_refused_are_no_secrets(tmp_path: Path) -> None:
    states = {
        "ask": {"purpose": "x", "transitions": [{"target_state": "notify"}]},
        "notify": {"reply": "I know."},
    }
    told = {
        "transition": {"target_state": "notify", "context_update": {"pin": "no"}},
        "message": "",
    }
    again = {"target_state": "notify", "context_update": {}, "message": ""}
    document = saved({**DESK, "tools": {}, "states": states}, [told, again], "no")
    assert document["cases"][0]["steps"][0]["expect"] == {
        "state": "notify",
        "text": "I know.",
        "ended": True,
    }


@pytest.mark.parametrize(
    "later", [[], [calls(("find", {"id": 7}))]], ids=["refused", "refused, then asked about"]
)
def test_nobody_is_asked_about_a_call_whose_arguments_were_not_taken(
    tmp_path: Path, later: list[Any]
) -> None:
    desk = {**DESK, "tools": {"find": {"registered": "find", "approval": True}}}
    end = {"transition": {"target_state": "ask", "context_update": {}}, "message": "Which one?"}
    document = saved(desk, [calls(("find", {"no": 7})), *(later or [end])], "find it", tools=[find])
    assert ("paused" in document["cases"][0]["steps"][0]["expect"]) is bool(later)
    assert played(document, tmp_path).passed


def test_nobody_is_asked_about_such_a_call_of_a_called_definition(tmp_path: Path) -> None:
    tools = {"find": {"registered": "find", "approval": True}}
    inner = {
        **DESK,
        "name": "inner",
        "tools": tools,
        "states": {**DESK["states"], "done": {"kind": "final"}},
    }
    outer = {"name": "outer", "initial_state": "sub", "states": {
        "sub": {"kind": "subflow", "flow": "inner.json", "transitions": [{"target_state": "end"}]}, "end": {},
    }}  # fmt: skip
    for definition in (inner, outer):
        (tmp_path / f"{definition['name']}.json").write_text(json.dumps(definition))
    end = {"transition": {"target_state": "ask", "context_update": {}}, "message": "Which one?"}

    async def hold() -> dict[str, Any]:
        model = ScriptedLLM([calls(("find", {"no": 7})), end])
        async with AsyncMachine.from_file(
            tmp_path / "outer.json", model=model, tools=[find]
        ) as machine:
            chat = await machine.start(greet=False)
            await chat.send("find it")
            records = [parse(record) for record in await machine.store.records(chat.id)]
            return document_of(machine.program, "outer.json", records, "held")

    assert played(asyncio.run(hold()), tmp_path).passed


@pytest.mark.parametrize(("secret", "said", "kept"), [
    ("a", "As always, a: an A and 'a', grade=a", "As always, x: an A and 'x', grade=x"),
    ("7b", "7b, not 17b or 7bis: PIN7b", "1x, not 17b or 7bis: PIN1x"),
    ("金", "名前は金です", "名前はxです"),
])  # fmt: skip
def test_the_shortest_secrets_are_replaced_as_words_of_their_own(
    secret: str, said: str, kept: str
) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {}, "pin": {"type": "string", "x-secret": True}},
    }
    told = {
        "transition": {"target_state": "done", "context_update": {"pin": secret}},
        "message": "Thanks a lot",
    }
    [step] = saved({**DESK, "context_schema": schema}, [told], said, tools=[find])["cases"][0][
        "steps"
    ]
    assert (step["say"], step["reply"]["set"]) == (kept, {"pin": "1x" if secret == "7b" else "x"})


@pytest.mark.parametrize(("secret", "said", "kept"), [
    ("Ada Lovelace", "ada lovelace, or LOVE LACE", "xxx xxxxxxxx, or LOVE LACE"),
    ("123456", "12-34-56 or 1234", "11-11-11 or 1234"),
    ("हिन्दी", "नाम हिन्दी है", "नाम xxxxxx है"),
    ("Zoë", 'I got {"name": "Zo\\u00eb"}', 'I got {"name": "xxx"}'),
    ('a"b"c', '{"name": "a\\"b\\"c"', '{"name": "x\\"x\\"x"'),
])  # fmt: skip
def test_secrets_are_replaced_however_they_are_written(secret: str, said: str, kept: str) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {}, "pin": {"type": "string", "x-secret": True}},
    }
    told = {
        "transition": {"target_state": "done", "context_update": {"pin": secret}},
        "message": "Thanks a lot",
    }
    [step] = saved({**DESK, "context_schema": schema}, [told], said, tools=[find])["cases"][0][
        "steps"
    ]
    assert step["say"] == kept


def test_a_secret_value_that_no_model_read_is_another_value_in_the_test_too(tmp_path: Path) -> None:
    born = {"type": "string", "format": "date", "x-secret": True, "x-fast": True}
    schema = {"type": "object", "properties": {"born": born}}
    needs = [{"requires_context_keys": ["born"]}]
    states = {
        "hello": {"purpose": "Greet", "transitions": [{"target_state": "ask"}]},
        "ask": {"purpose": "Ask", "reply": "When were you born?", "required_context_keys": ["born"],
                "transitions": [{"target_state": "done", "conditions": needs}]},
        "done": {"reply": "Thanks."},
    }  # fmt: skip
    definition = {
        "name": "born",
        "initial_state": "hello",
        "context_schema": schema,
        "states": states,
    }
    greets = {"transition": {"target_state": "ask", "context_update": {}}, "message": ""}
    document = saved(definition, [greets], "hi", "1990-05-17")
    assert document["cases"][0]["steps"][1]["expect"]["context"] == {"born": "1111-11-11"}
    assert played(document, tmp_path).passed


def test_names_of_the_definition_stay_where_a_secret_is_a_part_of_them(tmp_path: Path) -> None:
    states = {
        "ask2": {"purpose": "x", "transitions": [{"target_state": "end42"}]},
        "end42": {"reply": "Thanks."},
    }
    schema = {
        "type": "object",
        "properties": {"name": {}, "age": {"type": "integer", "x-secret": True}},
    }
    told = {"transition": {"target_state": "end42", "context_update": {"age": 42}}, "message": ""}
    document = {
        **DESK,
        "initial_state": "ask2",
        "tools": {},
        "states": states,
        "context_schema": schema,
    }
    found = saved(document, [told], "I am 42")
    [step] = found["cases"][0]["steps"]
    assert (step["say"], step["reply"]) == ("I am 11", {"to": "end42", "set": {"age": 11}})
    assert played(found, tmp_path).passed


def test_secrets_that_are_names_in_results_are_replaced_and_names_of_the_definition_are_not(
    tmp_path: Path,
) -> None:
    schema = {"type": "object", "properties": {
        "name": {"type": "object", "properties": {"total": {"type": "integer"}}},
        "pin": {"type": "string", "x-secret": True},
    }}  # fmt: skip
    end = {
        "transition": {
            "target_state": "done",
            "context_update": {"pin": "99887766", "name": {"total": 3}},
        }
    }

    def find(id: int) -> dict[str, Any]:
        return {
            "accounts": {"99887766": {"total": 3, "DE 99887766": 1}},
            "found": [{"99887766": id}],
        }

    desk = {**DESK, "context_schema": schema}
    document = {**desk, "states": {**DESK["states"], "done": {"reply": "Total {{ name.total }}."}}}

    async def hold() -> dict[str, Any]:
        replies = [calls(("find", {"id": 7})), {**end, "message": ""}]
        async with AsyncMachine.from_dict(
            document, model=ScriptedLLM(replies), tools=[find]
        ) as machine:
            chat = await machine.start(greet=False)
            await chat.send("total?")
            records = [parse(record) for record in await machine.store.records(chat.id)]
            return {**document_of(machine.program, "", records, "held"), "definition": document}

    saved = asyncio.run(hold())
    [case] = saved["cases"]
    assert case["tools"]["find"] == [
        {
            "result": {
                "accounts": {"11111111": {"total": 3, "DE 11111111": 1}},
                "found": [{"11111111": 7}],
            }
        }
    ]
    assert case["steps"][0]["expect"]["context"] == {"name": {"total": 3}, "pin": "11111111"}
    assert played(saved, tmp_path).passed


def test_members_of_a_result_stay_apart_where_their_secret_names_look_alike_now(
    tmp_path: Path,
) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {}, "pins": {"type": "array", "x-secret": True}},
    }
    end = {
        "transition": {
            "target_state": "done",
            "context_update": {"pins": ["99887766", "44332211"]},
        },
        "message": "A",
    }

    def find(id: int) -> dict[str, Any]:
        return {"99887766": 1, "44332211": 2}

    document = saved(
        {**DESK, "context_schema": schema},
        [calls(("find", {"id": 7})), end],
        "total?",
        tools=[find],
    )
    assert document["cases"][0]["tools"]["find"] == [{"result": {"11111111": 1, "111111111": 2}}]


def test_a_secret_that_is_a_word_of_tests_leaves_their_form_alone(tmp_path: Path) -> None:
    told = {
        "transition": {"target_state": "done", "context_update": {"pin": "reply"}},
        "message": "I say reply",
    }
    schema = {
        "type": "object",
        "properties": {"name": {}, "pin": {"type": "string", "x-secret": True}},
    }
    document = saved({**DESK, "context_schema": schema}, [told], "reply", tools=[find])
    [step] = document["cases"][0]["steps"]
    assert (step["say"], step["reply"]) == (
        "xxxxx",
        {"to": "done", "set": {"pin": "xxxxx"}, "message": "I say xxxxx"},
    )
    assert played(document, tmp_path).passed


def test_time_that_matters_passes(tmp_path: Path) -> None:
    timed = {
        **DESK,
        "tools": {},
        "states": {
            "ask": {
                "purpose": "x",
                "transitions": [
                    {"target_state": "done", "conditions": [{"logic": {"<": [{"now": []}, 9e12]}}]}
                ],
            },
            "done": {"reply": "Thank you."},
        },
    }
    stay = {"transition": {"target_state": "ask", "context_update": {}}, "message": "Hm"}
    document = saved(timed, [stay, stay], "one", "two")
    assert any("wait" in step for step in document["cases"][0]["steps"])
    assert played(document, tmp_path).passed


def test_a_run_without_a_user_is_saved_with_its_answer(tmp_path: Path) -> None:
    definition = json.loads(
        """{"name": "sign", "initial_state": "write", "states": {
            "write": {"kind": "task", "transitions": [{"target_state": "sign"}]},
            "sign": {"kind": "wait", "wait_for": "signature", "output": {"by": "by"},
                     "transitions": [{"target_state": "end"}]},
            "end": {"kind": "final"}}}"""
    )

    async def hold() -> dict[str, Any]:
        async with AsyncMachine.from_dict(
            definition, model=ScriptedLLM(["a letter"]), store="memory"
        ) as machine:
            await machine.run("write!", conversation_id="r")
            await machine.answer("r", {"by": "Ada"})
            records = [parse(record) for record in await machine.store.records("r")]
            return {**document_of(machine.program, "", records, "held"), "definition": definition}

    document = asyncio.run(hold())
    [case] = document["cases"]
    assert (case["input"], case["start"]["reply"], case["steps"][0]["answer"]) == (
        "write!",
        "a letter",
        {"by": "Ada"},
    )
    assert played(document, tmp_path).passed


def test_the_shipped_definitions_used_here_are_shipped() -> None:
    assert set(OFFLINE) <= set(definition_paths())
