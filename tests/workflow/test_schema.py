from __future__ import annotations

import json
import runpy

import pytest

from llm_fsm.conditions import evaluate
from llm_fsm.documents.loader import load_dict
from llm_fsm.testing import ScriptedLLM
from llm_fsm.workflow import (
    KeyResult,
    StateSpec,
    Workflow,
    WorkflowError,
    run_objective,
    validate_workflow_json,
    workflow_from_json,
    workflow_to_json,
    workflow_to_python,
)
from llm_fsm.workflow.expressions import expression_to_logic, lambda_to_logic

NONE = ScriptedLLM([])


def look(at: str) -> str:
    """Look."""
    return at


def plan(ctx):
    return {"_transition": "go", "text": "# a"}


def is_fine(output):
    return "text" in output


def pick(output):
    return None


def whole() -> Workflow:
    nasty = 'quote " back \\ line\nbreak {brace} """triple""" \u2028 été'
    states = [
        StateSpec(
            "plan it",
            nasty,
            [KeyResult("fine", nasty, check=is_fine)],
            plan,
            [look],
            0,
            is_initial=True,
        ),
        StateSpec(
            'say "it"',
            "Say",
            [
                KeyResult("long", "Long", check=lambda o: len(str(o)) > 2),
                KeyResult("kind", "It is kind"),
                KeyResult("rule", "", check={"!": [{"var": "input.x"}]}),
            ],
            run_objective,
        ),
        StateSpec("pass", "Pass"),
        StateSpec("last", "End", is_final=True),
    ]
    ways = {"plan it": {"go": 'say "it"', "default": "plan it"}, 'say "it"': "pass", "pass": pick}
    return Workflow(nasty, states, ways, NONE)


FUNCTIONS = {
    "tools": {"look": look},
    "execute_fns": {"plan it": plan},
    "checks": {"is_fine": is_fine},
    "routes": {"pick": pick},
}


def test_a_workflow_goes_to_json_and_back_without_loss() -> None:
    data = workflow_to_json(whole())
    assert json.loads(json.dumps(data)) == data
    assert data["version"] == "2.0"
    again = workflow_from_json(data, llm=NONE, **FUNCTIONS)
    assert workflow_to_json(again) == data
    assert [spec.name for spec in again.states.values()] == ["plan it", 'say "it"', "pass", "last"]


def test_what_came_from_json_runs() -> None:
    llm = ScriptedLLM(["good words"])
    judge = ScriptedLLM([{"kind": True}])
    again = workflow_from_json(workflow_to_json(whole()), llm=llm, validator_llm=judge, **FUNCTIONS)
    result = again.run()
    assert [one.state_name for one in result.history] == ["plan it", 'say "it"', "pass"]
    assert result.history[1].key_results_met == {"long": True, "kind": True, "rule": True}


@pytest.mark.parametrize("missing", list(FUNCTIONS))
def test_a_function_that_was_not_given_is_an_error_and_no_silent_pass(missing) -> None:
    given = {name: functions for name, functions in FUNCTIONS.items() if name != missing}
    with pytest.raises(WorkflowError, match=f"was not given; give {missing}="):
        workflow_from_json(workflow_to_json(whole()), llm=NONE, **given)


def test_a_function_for_no_state_is_an_error() -> None:
    given = {**FUNCTIONS, "execute_fns": {"plan it": plan, "plant": plan}}
    with pytest.raises(WorkflowError, match="execute_fns names 'plant'"):
        workflow_from_json(workflow_to_json(whole()), llm=NONE, **given)


def test_a_lambda_that_json_cannot_say_has_the_name_of_its_place_and_must_be_given_back() -> None:
    limit = 3
    for check in (
        lambda o: isinstance(o, dict),
        lambda o: len(o) > limit,
        lambda o: o.strip() == "",
    ):
        spec = StateSpec("a", "", [KeyResult("k", "", check=check)])
        data = workflow_to_json(Workflow("W", [spec], {"a": lambda output: None}, NONE))
        assert data["states"]["a"]["key_results"][0]["check"] == {"registered": "a.k"}
        assert data["transitions"] == {"a": {"route": "a.route"}}
        with pytest.raises(WorkflowError, match=r"give checks=\{'a\.k': function\}"):
            workflow_from_json(data, llm=NONE, routes={"a.route": pick})
        with pytest.raises(WorkflowError, match=r"give routes=\{'a\.route': function\}"):
            workflow_from_json(data, llm=NONE, checks={"a.k": is_fine})
        again = workflow_from_json(
            data, llm=NONE, checks={"a.k": is_fine}, routes={"a.route": pick}
        )
        assert workflow_to_json(again)["states"] == data["states"]


CHECKS = [
    (lambda o: len(str(o)) > 3, ["long", "abc", 1234, 12]),
    (lambda o: str(o).count("#") >= 2, ["##", "#", ""]),
    (lambda o: "#" in str(o), ["#", "x"]),
    (lambda o: "sub" not in o.lower(), ["SUB", "x", 7]),
    (lambda o: o == "a" or o == "b", ["a", "b", "c", 1]),  # noqa: PLR1714 - what is read
    (lambda o: not o.startswith("a."), ["a.b", "axb", 3]),
    (lambda o: o.endswith("."), ["a.", "a"]),
    (
        lambda o: o["score"] >= 8 and o["ok"] is not None,
        [{"score": 8, "ok": 1}, {"score": 7, "ok": 1}, {"score": "9", "ok": 1}],
    ),
    (lambda o: o > 3, [4, 3, 2.5, 4.5]),
    (lambda o: 2 < len(o) <= 4, ["abc", "ab", [1, 2, 3], [1], "abcde"]),
    (lambda o: len(o) % 2 == 0, ["ab", "a"]),
]


@pytest.mark.parametrize(("check", "outputs"), CHECKS)
def test_a_rule_says_what_its_lambda_says_and_never_more(check, outputs) -> None:
    rule = lambda_to_logic(check)
    assert rule is not None
    for output in [*outputs, None, {}, []]:
        try:
            expected = bool(check(output))
        except Exception:
            expected = False
        try:
            found = evaluate(rule, {"output": output}) is True
        except Exception:
            found = False
        assert found is expected or (not found and output in ({}, [], None)), output


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "output.__class__",
        "len(output",
        "[1 for _ in output]",
        "open('x') == 1",
        "x > 1",
        "lambda: 1",
        "output",
    ],
)
def test_other_code_is_never_read(text) -> None:
    assert expression_to_logic(text) is None
    data = {"states": {"a": {"key_results": [{"name": "k", "check": text}]}}}
    with pytest.raises(WorkflowError, match="was not given"):
        workflow_from_json(data, llm=NONE)


def test_checks_as_text_of_older_files_are_read_or_must_be_given() -> None:
    results = [{"name": "k", "check": "len(str(output)) >= 3"}]
    data = {"states": {"a": {"key_results": results, "execute": "pass_through"}}}
    assert workflow_from_json(data, llm=NONE).run("abc").history[-1].output == "abc"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], "at least one state"),
        ({"states": {}}, "at least one state"),
        ({"states": {"a": 1}}, "is an object"),
        ({"states": {"a": {}}, "transitions": {"a": "b"}}, "'a' leads to 'b'"),
        ({"states": {"a": {}}, "transitions": {"b": None}}, "name the state 'b'"),
        (
            {"states": {"a": {"is_initial": True}, "b": {"is_initial": True}}},
            "one state is initial",
        ),
        ({"states": {"a": {"key_results": [{}]}}}, "it has no name"),
        ({"states": {"a": {"key_results": [{"name": "k", "check": {"eval": 1}}]}}}, "eval"),
        ({"states": {"a": {"key_results": [{"name": "k", "check": 7}]}}}, "JsonLogic, the name"),
    ],
)
def test_what_is_no_workflow_is_said_in_words(data, words) -> None:
    assert any(words in fault for fault in validate_workflow_json(data))
    with pytest.raises(WorkflowError, match="this is no workflow"):
        workflow_from_json(data, llm=NONE)
    assert validate_workflow_json(workflow_to_json(whole())) == []


def test_the_program_compiles_and_is_the_same_workflow(tmp_path) -> None:
    data = workflow_to_json(whole())
    path = tmp_path / "program.py"
    path.write_text(workflow_to_python(data), encoding="utf-8")
    built = runpy.run_path(str(path))["build"](ScriptedLLM(["planned"]))
    assert built.objective == data["objective"]
    assert [spec.objective for spec in built.states.values()] == [
        row["objective"] for row in data["states"].values()
    ]
    assert built.transitions["plan it"] == data["transitions"]["plan it"]
    with pytest.raises(WorkflowError, match="write the check"):
        built.run()


def test_a_program_of_objectives_alone_runs_to_its_end(tmp_path) -> None:
    states = [
        StateSpec("ask", "Ask", execute=run_objective),
        StateSpec(
            "class",
            "Tell",
            [KeyResult("long", "", check=lambda o: len(str(o)) > 2)],
            plan,
            is_final=True,
        ),
    ]
    data = workflow_to_json(
        Workflow("Two", states, {"ask": {"a": "class", "default": "ask"}}, NONE)
    )
    path = tmp_path / "program.py"
    path.write_text(workflow_to_python(data), encoding="utf-8")
    built = runpy.run_path(str(path))["build"](ScriptedLLM(["again", "a", "the end"]))
    assert [one.output for one in built.run("x").history] == ["again", "a", "the end"]


def test_the_engines_loader_reads_the_same_file() -> None:
    states = [
        StateSpec("first one", "Ask", [KeyResult("k", "Kind")], run_objective),
        StateSpec("b", execute=plan, is_final=True),
    ]
    loaded = load_dict(
        workflow_to_json(Workflow("Two", states, {"first one": "b"}, NONE))
    ).definition
    assert loaded.initial_state == "first_one"
    assert loaded.states["b"].execute == "plan"
    assert loaded.states["first_one"].transitions[0].target_state == "b"


def test_what_a_workflow_lacks_is_said_too() -> None:
    faults = validate_workflow_json(
        {"states": {"a": {"key_results": [{"name": "k", "check": "if else ("}]}}}
    )
    assert faults == [
        "no initial state: set is_initial on one",
        "no final state: set is_final on one",
        "state 'a' is missing an objective",
        "state 'a': invalid check expression 'if else ('",
    ]
