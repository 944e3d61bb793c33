"""Operators over every door: what waits, their words by name, the hand-back; and what the user
reads meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from desks import desk
from llm_fsm import AsyncMachine
from llm_fsm.server import create_app
from llm_fsm.server.tokens import Right, Tokens, add_token
from llm_fsm.server.views import TAKEN_OVER
from llm_fsm.testing import ScriptedLLM, calls
from refunds import PAID, REFUNDS
from served import client_at, served

RIGHTS: dict[str, tuple[list[Right], bool]] = {
    "web": (["talk"], True),
    "anna": (["answer"], False),
    "ben": (["talk", "answer"], False),
    "own": (["talk", "answer"], True),
    "boss": (["manage"], False),
}


def refund(amount: int) -> str:
    return f"refunded {amount}"


class Door:
    """A server, and requests by the name of a token."""

    def __init__(self, client: httpx.Client, tokens: dict[str, str]) -> None:
        self._client = client
        self._tokens = tokens

    def ask(self, name: str, path: str, body: Any = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self._tokens[name]}"}
        return self._client.request(
            "GET" if body is None else "POST", path, json=body, headers=headers
        )

    def begin(self, name: str, definition: str, text: str) -> str:
        wish = {"definition": definition, "greet": False, "metadata": {"user": "ada"}}
        place: str = self.ask(name, "/conversations", wish).json()["id"]
        assert self.ask(name, f"/conversations/{place}/messages", {"text": text}).json()["paused"]
        return place

    def pauses(self, name: str, query: str = "") -> Any:
        answer = self.ask(name, f"/pauses{query}")
        assert answer.status_code == 200, answer.text
        return answer.json()


@contextmanager
def door(tmp_path: Path, *machines: AsyncMachine) -> Iterator[Door]:
    file = str(tmp_path / "tokens.json")
    tokens = {
        name: add_token(file, name, rights=rights, own=own)
        for name, (rights, own) in RIGHTS.items()
    }
    app = create_app(machines, tokens=Tokens.from_file(file), closes=True, due_seconds=None)
    with served(app) as url, client_at(url) as client:
        yield Door(client, tokens)


def refunds(conversations: int = 1) -> AsyncMachine:
    asks = [calls(("refund", {"amount": 5}))] * conversations
    return AsyncMachine.from_dict(REFUNDS, model=ScriptedLLM([*asks, PAID]), tools=[refund])


def test_operators_list_what_waits_and_nobody_else_does(tmp_path: Path) -> None:
    with door(tmp_path, desk(2), refunds()) as at:
        first = at.begin("web", "desk", "A person, please")
        second = at.begin("web", "refunds", "5 back")
        third = at.begin("own", "desk", "A person, please")
        found = at.pauses("anna")
        assert [one["conversation_id"] for one in found["pauses"]] == [
            f"web~{first}",
            f"web~{second}",
            f"own~{third}",
        ]
        assert found["next"] is None
        hold, approval, _ = found["pauses"]
        assert (hold["kind"], hold["what"], hold["messages"], hold["call"]) == (
            "wait",
            "colleague",
            "record",
            None,
        )
        assert hold["metadata"] == {"user": "ada"}
        assert hold["schema"]["required"] == ["settled"]
        assert approval["kind"] == "approval"
        assert approval["call"] | {"id": ""} == {
            "id": "",
            "name": "refund",
            "arguments": {"amount": 5},
        }
        assert at.ask("anna", "/v1/pauses").json() == found
        assert [one["id"] for one in at.pauses("anna", "?kind=approval")["pauses"]] == [
            approval["id"]
        ]
        assert [one["id"] for one in at.pauses("anna", "?definition=desk&limit=1")["pauses"]] == [
            hold["id"]
        ]
        assert [one["conversation_id"] for one in at.pauses("own")["pauses"]] == [third]
        for name in ("web", "boss"):
            refused = at.ask(name, "/pauses")
            assert refused.status_code == 403
            assert "the right answer" in refused.json()["detail"]
        assert at.ask("anna", "/pauses?kind=approvals").status_code == 422


def test_the_list_goes_on_page_by_page(tmp_path: Path) -> None:
    with door(tmp_path, desk(3)) as at:
        began = [f"web~{at.begin('web', 'desk', 'A person, please')}" for _ in range(3)]
        seen, query = [], "?limit=1"
        while query:
            page = at.pauses("ben", query)
            seen += [one["conversation_id"] for one in page["pauses"]]
            query = f"?limit=1&after={page['next']}" if page["next"] else ""
        assert seen == began


def test_a_person_speaks_by_name_and_hands_back(tmp_path: Path) -> None:
    with door(tmp_path, desk()) as at:
        place = at.begin("web", "desk", "A person, please")
        mine = f"/conversations/{place}"
        paused = at.ask("web", mine).json()["paused"]
        assert (paused["what"], paused["may_answer"], paused["messages"]) == (
            TAKEN_OVER,
            False,
            "record",
        )
        assert paused["schema"] == {}
        assert [at.ask("web", f"{mine}/messages", {"text": text}).json()["text"] for text in ("Hello?", "Hm")] == [
            "A colleague will be with you soon.", "",
        ]  # fmt: skip
        (waits,) = at.pauses("anna")["pauses"]
        theirs = f"/conversations/{waits['conversation_id']}"
        said = at.ask("anna", f"{theirs}/say", {"text": "Anna here.", "by": "Anna"})
        assert (said.json()["text"], said.json()["by"]) == ("Anna here.", "Anna")
        assert at.ask("web", f"{mine}/say", {"text": "I agree", "by": "Anna"}).status_code == 403
        assert at.pauses("ben")["pauses"][0]["by"] == "Anna"
        assert at.ask("web", f"{mine}/answer", {"value": {"settled": True}}).status_code == 403
        back = at.ask(
            "anna", f"{theirs}/answer", {"value": {"settled": False}, "pause": waits["id"]}
        ).json()
        assert (back["text"], back["paused"], back["by"]) == ("Is there anything else?", None, "")
        assert at.pauses("anna")["pauses"] == []
        messages = at.ask("web", f"{mine}/history").json()["messages"]
        assert [(one["by"], one["text"]) for one in messages if one["role"] == "assistant"] == [
            ("", "Of course.\n\nA colleague will be with you soon."),
            ("", "A colleague will be with you soon."),
            ("Anna", "Anna here."),
            ("", "Is there anything else?"),
        ]


def test_of_two_operators_one_wins_and_the_other_is_told(tmp_path: Path) -> None:
    with door(tmp_path, refunds()) as at:
        at.begin("web", "refunds", "5 back")
        (waits,) = at.pauses("anna")["pauses"]
        place = f"/conversations/{waits['conversation_id']}/answer"
        wish = {"value": {"approved": True}, "pause": waits["id"]}
        assert at.ask("anna", place, wish).status_code == 200
        late = at.ask("ben", place, {**wish, "value": {"approved": False}})
        assert late.status_code == 409
        assert "this answer was not used" in late.json()["detail"]


def test_a_message_in_a_hold_streams_as_a_turn_with_no_words() -> None:
    with (
        served(create_app(desk(), closes=True, due_seconds=None)) as url,
        httpx.Client(base_url=url) as client,
    ):
        place = client.post("/conversations", json={"definition": "desk", "greet": False}).json()[
            "id"
        ]
        texts = []
        for text in ("A person, please", "Hello?", "Are you there?"):
            answer = client.post(
                f"/conversations/{place}/messages",
                json={"text": text},
                headers={"Accept": "text/event-stream"},
            )
            last = [line for line in answer.text.splitlines() if line.startswith("data: ")][-1]
            texts.append(json.loads(last.removeprefix("data: "))["text"])
        assert texts[1:] == ["A colleague will be with you soon.", ""]


@pytest.mark.parametrize("name", ["web", "ben"])
def test_the_openai_form_goes_on_while_a_person_has_taken_over(name: str, tmp_path: Path) -> None:
    with door(tmp_path, desk()) as at:
        messages: list[dict[str, str]] = []
        said = []
        for text in ("A person, please", "Hello?", "Are you there?", "Thank you"):
            messages.append({"role": "user", "content": text})
            answer = at.ask(name, "/v1/chat/completions", {"model": "desk", "messages": messages})
            assert answer.status_code == 200, answer.text
            choice = answer.json()["choices"][0]
            assert choice["finish_reason"] == "stop"
            said.append(choice["message"]["content"] or "")
            messages.append({"role": "assistant", "content": said[-1]})
        assert said[1:] == ["A colleague will be with you soon.", "", ""]
        assert len(at.pauses("anna")["pauses"]) == 1


def test_ag_ui_goes_on_while_a_person_has_taken_over_and_names_them(tmp_path: Path) -> None:
    with door(tmp_path, desk()) as at:

        def run(run_id: str, *messages: str) -> list[dict[str, Any]]:
            said = [{"id": f"m{text}", "role": "user", "content": text} for text in messages]
            body = {"threadId": "t", "runId": run_id, "messages": said}
            lines = at.ask("web", "/ag-ui/desk", body).text.splitlines()
            return [
                json.loads(line.removeprefix("data: "))
                for line in lines
                if line.startswith("data: ")
            ]

        for number, text in enumerate(("A person, please", "Hello?", "Are you there?")):
            last = run(f"r{number}", text)[-1]
            assert (last["type"], last["outcome"]["type"]) == ("RUN_FINISHED", "success")
        (waits,) = at.pauses("anna")["pauses"]
        at.ask(
            "anna",
            f"/conversations/{waits['conversation_id']}/say",
            {"text": "Anna here.", "by": "Anna"},
        )
        snapshot = next(event for event in run("r9") if event["type"] == "MESSAGES_SNAPSHOT")
        assert snapshot["messages"][-1]["name"] == "Anna"
