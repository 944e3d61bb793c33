from __future__ import annotations

import subprocess
import sys

import pytest

from llm_fsm import FSM, ToolRegistry, generate_orchestrator_guide, tools_to_google_ai_schema

STATES = {
    "start": ["researching"],
    "researching": ["writing"],
    "writing": ["reviewing"],
    "reviewing": ["writing", "end"],
    "end": [],
}


def article() -> FSM:
    return FSM(states=STATES, initial_state="start", terminal_states=["end"])


def toolbox() -> ToolRegistry:
    tools = ToolRegistry()

    @tools.register
    def research_web(topic: str) -> str:
        """Research a topic
        on the web."""
        return f"Research completed: {topic}"

    @tools.register(scope=["reviewing"])
    def review(article: str, strict: bool = False) -> str:
        return f"{article} {strict}"

    return tools


def test_a_map_walks_its_transitions_and_knows_its_end() -> None:
    fsm = article()
    assert (fsm.current_state, fsm.get_next_states(), fsm.is_terminal()) == (
        "start",
        ["researching"],
        False,
    )
    for state in ("researching", "writing", "reviewing", "writing", "reviewing", "end"):
        assert fsm.transition(state) == state
    assert fsm.get_next_states() == []
    assert fsm.is_terminal()
    fsm.reset()
    assert fsm.current_state == "start"


def test_a_move_that_is_not_allowed_is_refused_with_those_that_are_and_changes_nothing() -> None:
    fsm = article()
    for state in ("researching", "writing", "reviewing"):
        fsm.transition(state)
    with pytest.raises(ValueError, match="from 'reviewing' to 'start'; allowed: writing, end"):
        fsm.transition("start")
    assert fsm.current_state == "reviewing"


def test_what_was_given_and_what_is_returned_are_copies() -> None:
    states = {"a": ["b"], "b": []}
    fsm = FSM(states, "a")
    states["a"].append("c")
    fsm.get_next_states().clear()
    assert fsm.get_next_states() == ["b"]


def test_states_that_nothing_follows_are_terminal_unless_others_are_named() -> None:
    assert FSM({"a": []}, "a").is_terminal()
    assert not FSM({"a": [], "b": []}, "a", ["b"]).is_terminal()
    assert FSM({"a": ["end"]}, "a", ["end"]).transition("end") == "end"


@pytest.mark.parametrize(
    ("states", "initial", "words"),
    [
        ({"a": []}, "b", "no state 'b'; the states are a"),
        ({"a": ["c"]}, "a", "no state 'c'"),
        ({"a": "c"}, "a", "write \\['c'\\]"),
    ],
)
def test_a_map_that_names_an_unknown_state_is_refused(states, initial, words) -> None:
    with pytest.raises(ValueError, match=words):
        FSM(states, initial)


@pytest.mark.parametrize("end", ["zz", "End", ""])
def test_an_end_that_no_list_names_is_refused(end: str) -> None:
    with pytest.raises(ValueError, match=f"no state '{end}'"):
        FSM({"a": ["end"], "end": []}, "a", [end])


def test_the_guide_names_state_next_states_and_the_tools_that_are_usable_now() -> None:
    fsm, tools = article(), toolbox()
    guide = generate_orchestrator_guide(fsm, tools)
    assert guide.splitlines() == [
        "Current State: start",
        "Available Next States: researching",
        "Available Tools:",
        "- research_web: Research a topic on the web.",
    ]
    for state in ("researching", "writing", "reviewing"):
        fsm.transition(state)
    guide = generate_orchestrator_guide(fsm, tools)
    assert "Available Next States: writing, end" in guide
    assert "- review" in guide
    fsm.transition("end")
    guide = generate_orchestrator_guide(fsm, ToolRegistry())
    assert guide.splitlines()[1:] == [
        "Available Next States: none",
        "This is a terminal state: the work is done.",
        "Available Tools: none",
    ]


def test_google_is_given_one_tool_of_all_declarations() -> None:
    [tool] = tools_to_google_ai_schema(toolbox())
    assert [one["name"] for one in tool["function_declarations"]] == ["research_web", "review"]
    assert tool["function_declarations"][0]["parameters"]["properties"] == {
        "topic": {"type": "STRING"}
    }
    assert tools_to_google_ai_schema(ToolRegistry()) == []


def test_a_map_needs_nothing_else_of_the_package() -> None:
    code = "import sys, llm_fsm; llm_fsm.FSM; print([n for n in sys.modules if n.startswith(('llm_fsm', 'pydantic'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["['llm_fsm',", "'llm_fsm.primitives']"]
