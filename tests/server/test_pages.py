"""The chat page and the documentation page, as files and in a real browser."""

from __future__ import annotations

import json
import re
from pathlib import Path

from desks import DESK
from llm_fsm import AsyncMachine
from llm_fsm.server import create_app
from llm_fsm.server.pages import STATIC
from llm_fsm.server.tokens import Tokens, add_token
from llm_fsm.testing import ScriptedLLM, calls, reply
from npm_client import run
from refunds import PAID, REFUNDS
from served import client_at, served

BROWSER = ("playwright-core@1.65.1",)
CHAT = ("chat.html", "chat.js", "chat.css", "client.js")
OPERATOR = ("operator.html", "operator.js", "operator.css")


def refund(amount: int, to: str = "card") -> str:
    return f"refunded {amount} to {to}"


def machine() -> AsyncMachine:
    model = ScriptedLLM([{"message": "How can I help?"}, calls(("refund", {"amount": 5})), PAID])
    return AsyncMachine.from_dict(REFUNDS, model=model, tools=[refund])


def test_pages_name_no_outside_address_and_may_load_none() -> None:
    for name in (*CHAT, *OPERATOR, "docs.html"):
        assert not re.findall(
            r"(?:https?:)?//[a-z]", (STATIC / name).read_text().replace("// ", "")
        ), name
    with served(create_app(machine(), due_seconds=None)) as url, client_at(url) as client:
        assets = (f"/assets/{name}" for name in (*CHAT, *OPERATOR, "openapi-explorer.min.js"))
        for path in ("/", "/operator", "/docs", *assets):
            answer = client.get(path)
            assert answer.status_code == 200
            assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_vendored_files_bring_their_licence() -> None:
    assert "Apache License" in (STATIC / "openapi-explorer.LICENSE.txt").read_text()


def test_a_person_talks_approves_and_answers_with_the_keyboard_on_a_phone_in_the_dark(
    chromium_path: str,
) -> None:
    with served(create_app(machine(), due_seconds=None)) as url:
        seen = json.loads(run("chat_page.mjs", BROWSER, url, chromium_path))
    assert (seen["outside"], seen["errors"]) == ([], [])
    assert seen["focus"] == "Approve"
    assert "JSON" in seen["problem"]
    assert seen["messages"][:2] == ["Bot: How can I help?", "You: 5 back <b>please</b>"]
    assert seen["messages"][-2:] == ["Bot: Bye Eve.", "The conversation has ended."]
    assert (seen["state"], seen["fits"], seen["dark"]) == ("bye", True, True)
    assert 'list "Conversation"' in seen["names"]


def test_a_message_that_is_sent_before_the_first_conversation_has_begun_is_kept(
    chromium_path: str,
) -> None:
    model = ScriptedLLM([{"message": "How can I help?"}, {"message": "Hello Ada, how can I help?"}])
    app = create_app(AsyncMachine.from_dict(REFUNDS, model=model, tools=[refund]), due_seconds=None)
    with served(app) as url:
        seen = json.loads(run("chat_early.mjs", BROWSER, url, chromium_path))
    assert seen[:2] == ["Bot: How can I help?", "You: Ada"]


def test_a_page_that_is_loaded_again_goes_on_and_a_wrong_token_is_not_known(
    tmp_path: Path, chromium_path: str
) -> None:
    greetings = [{"message": "How can I help?"}, {"message": "A new start."}]
    answers = [reply("talk", "Hello Ada."), reply("talk", "Still here.")]
    model = ScriptedLLM([greetings[0], *answers, greetings[1]])
    file = tmp_path / "tokens.json"
    token = add_token(file, "web")
    chats = AsyncMachine.from_dict(REFUNDS, model=model, tools=[refund])
    app = create_app(chats, tokens=Tokens.from_file(file), due_seconds=None)
    with served(app) as url:
        seen = json.loads(run("chat_reload.mjs", BROWSER, url, token, chromium_path))
    assert (seen["first"], seen["refused"]) == (False, "This token is not known.")
    assert seen["before"] == ["Bot: How can I help?", "You: I am Ada", "Bot: Hello Ada."]
    assert seen["after"] == seen["before"]
    assert seen["state"] == REFUNDS["initial_state"]
    assert seen["fresh"] == ["Bot: A new start."]


def test_a_user_and_two_operators_talk_over_their_pages(chromium_path: str) -> None:
    model = ScriptedLLM([
        {"message": "How can I help you?"}, reply("human", "Of course."), {"message": "Is there anything else?"},
    ])  # fmt: skip
    desk = AsyncMachine.from_dict(DESK, model=model)
    with served(create_app(desk, due_seconds=None)) as url:
        seen = json.loads(run("operator_page.mjs", BROWSER, url, chromium_path))
    assert (seen["outside"], seen["errors"]) == ([], [])
    assert (seen["may_write"], seen["listed"], seen["fits"]) == (True, "Wants a person", True)
    assert seen["read"][1] == "UserA <b>person</b>, please"
    assert "your name" in seen["nameless"]
    assert seen["missing"] == "Settled is missing."
    assert seen["fields"] == ["Settled", "Team (optional)", "Amount (optional)", "Note (optional)"]
    assert seen["done"] == "Done: the bot goes on."
    assert (seen["other"], seen["cannot_act"]) == ("This was answered, or its time is over.", True)
    assert seen["messages"][-3:] == [
        "AnnaAnna here.",
        "You: Thank you!",
        "Bot: Is there anything else?",
    ]
    assert 'navigation "What waits"' in seen["names"]
