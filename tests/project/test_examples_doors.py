"""The examples of the front doors in Python run on a scripted server, with the SDK that they name."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from openai import OpenAI

from example_modules import file_of
from llm_fsm import create_llm_client
from llm_fsm.testing import calls, serve_scripted
from llm_fsm.workflow import OpenAIAdapter


def main_of(name: str) -> Any:
    return runpy.run_path(str(file_of(name)))["main"]


def test_the_report_proves_its_states(capsys) -> None:
    found = "Lamps are described in the handbook, chapter 4."
    replies = [
        "Too short.",
        calls(("search", {"query": "lamps"})),
        found,
        {"sourced": True},
        "# One\n# Two",
    ]
    with serve_scripted(replies) as server:
        main_of("workflow_report")(
            OpenAIAdapter(model="any", api_key="sk-any", base_url=server.base_url), "lamps"
        )
    assert capsys.readouterr().out == "# One\n# Two\n"
    assert "length" in str(server.requests[1].body["messages"])
    assert server.remaining == 0


def test_the_ooda_example_stops_when_its_task_is_done(capsys) -> None:
    acting = calls(("count", {"shelf": "A"}), ("move", {"source": "A", "target": "B", "boxes": 2}))
    replies = ["B is empty.", "A has three.", "Move two.", acting, "TASK COMPLETE: B holds two."]
    with serve_scripted(replies) as server:
        main_of("workflow_ooda")(
            OpenAIAdapter(model="any", api_key="sk-any", base_url=server.base_url)
        )
    assert capsys.readouterr().out == "TASK COMPLETE: B holds two.\n"
    assert "A: 1, B: 2" in str(server.requests[-1].body["messages"])


def test_support_waits_for_a_person_and_goes_on_elsewhere(capsys, tmp_path: Path) -> None:
    state = tmp_path / "support.json"
    asking = calls(("customer", {"name": "Ada"}), ("ask_supervisor", {"question": "Refund Ada?"}))
    replies = [
        asking,
        "We refund the lamp.",
        {"summary": "refunded", "todo_list": ["send the money"]},
    ]
    with serve_scripted(replies) as server:

        def client() -> Any:
            return create_llm_client(
                "openai", model="any", api_key="sk-any", base_url=server.base_url
            )

        main_of("openai_support")(client(), "My lamp is broken", str(state))
        main_of("openai_support")(client(), "", str(state), "Refund it")
    assert capsys.readouterr().out.splitlines() == [
        "Refund Ada? (saved in support.json)",
        "We refund the lamp.",
        "To do: send the money",
    ]
    assert "Refund it" in str(server.requests[1].body["messages"])


def test_a_machine_runs_inside_a_machine(capsys) -> None:
    with serve_scripted(["plan 1", "chapter 1", "plan 2", "chapter 2"]) as server:
        client = create_llm_client(
            "openai", model="any", api_key="sk-any", base_url=server.base_url
        )
        main_of("nested_machines")(client)
    assert capsys.readouterr().out == "chapter 1\nchapter 2\n"
    assert "plan 2" in str(server.requests[3].body["messages"])


def test_other_frameworks_go_into_states(capsys) -> None:
    main_of("other_frameworks")()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("generated: a text on lamps")
    assert lines[1].startswith("critic: GENERATED")
    assert lines[2] == "['drafting', 'reviewing']"


def test_an_own_loop_walks_the_map_to_its_end(capsys) -> None:
    steps = ["researching", "nowhere", "writing", "reviewing", "end"]
    replies: list[Any] = [calls(("transition_state", {"next_state": step})) for step in steps]
    replies.insert(1, calls(("research_web", {"topic": "lighthouses"})))
    with serve_scripted(replies) as server:
        main_of("own_loop")(OpenAI(api_key="sk-any", base_url=server.base_url), model="any")
    assert capsys.readouterr().out == "end after 13 messages\n"
    bodies = [request.body["messages"] for request in server.requests]
    assert "Current State: start" in bodies[0][0]["content"]
    assert bodies[2][-1]["content"] == "Research completed: lighthouses"
    assert (
        "no transition from 'researching' to 'nowhere'; allowed: writing"
        in bodies[3][-1]["content"]
    )
    assert "- review_article" in bodies[5][0]["content"]
