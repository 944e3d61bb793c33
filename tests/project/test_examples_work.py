"""The examples that work: each plays the shipped definition of its name, in the process and as a
program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from example_modules import example, file_of
from llm_fsm.documents.check import check
from llm_fsm.documents.discovery import definition_paths
from llm_fsm.documents.loader import load
from llm_fsm.engine.conversation import Turn
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.llm.scripted import ScriptedLLM, calls
from llm_fsm.session import events as ev
from llm_fsm.testing.server.server import serve_scripted

pytestmark = pytest.mark.anyio

__all__ = ["example"]

WORKING = ("cleanup", "code_review", "refund", "research")


def made(module: ModuleType, *replies: Any, **options: Any) -> AsyncMachine:
    """The machine of an example, with a scripted model."""
    model = ScriptedLLM(list(replies))
    return AsyncMachine.from_file(
        module.DEFINITION, model=model, tools=module.TOOLS, functions=module.FUNCTIONS, **options
    )


def program(
    folder: Path, name: str, model: str | list[Any], said: str = "", **environment: str
) -> str:
    """What an example prints when it is run as its docstring says; `model`: a name, or the replies
    of a script.
    """
    if not isinstance(model, str):
        (folder / "replies.json").write_text(json.dumps(model), encoding="utf-8")
        model = "scripted:replies.json"
    kept = {key: value for key, value in os.environ.items() if not key.startswith("LLM_FSM_")}
    done = subprocess.run(
        [sys.executable, str(file_of(name)), model],
        input=said,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=folder,
        env={**kept, **environment},
    )
    told = done.stderr.splitlines()
    assert all(
        line.startswith("tool 'read' failed: ValueError: there is no document") for line in told
    ), told
    return done.stdout


def verdicts(**passed: bool) -> dict[str, Any]:
    return {
        "verdicts": [{"name": name, "reason": "why", "passed": ok} for name, ok in passed.items()]
    }


def states_of(turn: Turn) -> list[str]:
    return [event.state for event in turn.events if isinstance(event, ev.StateEntered)]


def failed(turn: Turn) -> list[str]:
    """The key results that attempts failed by."""
    return [
        item["name"]
        for event in turn.events
        if isinstance(event, ev.AttemptFailed)
        for item in event.failures
    ]


@pytest.mark.parametrize("name", WORKING)
def test_nothing_is_to_be_said_against_a_definition_that_works(name: str) -> None:
    assert check(definition_paths()[name]) == []
    definition = load(definition_paths()[name])
    assert definition.name == name
    assert definition.description
    assert definition.version


# -- research

PLAN = ["What lamps are used?", "What feeds them?"]
FINDINGS = [
    {"question": PLAN[0], "answer": "LED of 60 watts", "source": "led-2019"},
    {"question": PLAN[1], "answer": "Solar panels", "source": "solar-2021"},
]
NOTES = {
    "summary": "LED and solar.",
    "todo_list": ["write"],
    "observe": "",
    "orient": "",
    "decide": "",
    "act": "",
}
ARTICLE = (
    "Lighthouses changed from halogen to LED lamps, which take 60 instead of 1000 watts [led-2019]. "
    "Where there are no mains, solar panels charge their batteries [solar-2021]."
)
RESEARCH: list[Any] = [
    json.dumps(PLAN),
    calls(("search", {"words": "lighthouse LED lamp"}), ("search", {"words": "solar panels"})),
    calls(
        ("read", {"id": "led-2019"}),
        ("read", {"id": "nowhere"}),
        ("set_memory", {"bucket_index": 0, "content": "LED"}),
    ),
    json.dumps(FINDINGS),
    NOTES,
    ARTICLE.replace("[solar-2021]", ""),
    ARTICLE,
    verdicts(faithful=False),
    ARTICLE,
    verdicts(faithful=True),
]


async def test_research_searches_remembers_summarises_and_writes_what_a_judge_accepts(
    example: Any,
) -> None:
    machine = made(example("research"), *RESEARCH)
    turn = await machine.run("How do lighthouses save power?")
    assert (turn.outcome, turn.output, turn.text) == ("passed", ARTICLE, "")
    assert states_of(turn) == ["gather", "write", "done"]
    returned = [event for event in turn.events if isinstance(event, ev.ToolReturned)]
    assert [event.name for event in returned] == ["search", "search", "read", "read", "set_memory"]
    assert returned[0].result[0]["id"] == "led-2019"
    assert returned[3].error is not None
    assert "search gives the ids" in returned[3].error
    assert [event.summary for event in turn.events if isinstance(event, ev.Summarised)] == [
        "LED and solar."
    ]
    assert failed(turn) == ["cites", "faithful"]
    assert machine.llm.remaining == 0  # type: ignore[attr-defined]


async def test_research_says_what_it_could_not_source(example: Any) -> None:
    wrong = json.dumps([{"question": "?", "answer": "yes", "source": "the internet"}])
    machine = made(example("research"), RESEARCH[0], *[wrong] * 4, NOTES)
    turn = await machine.run("How?")
    assert (turn.state, failed(turn)) == ("unanswered", ["sourced"] * 4)


def test_research_runs_as_a_program(tmp_path: Path) -> None:
    printed = program(tmp_path, "research", RESEARCH)
    assert printed.splitlines()[-1] == ARTICLE
    assert printed.startswith("write, attempt 1: [")


# -- code_review

GOOD = "def total(prices=()):\n    return sum(prices)"
REVIEW: list[Any] = [
    "[]",
    calls(("lint", {"source": GOOD.replace("=()", "=[]")})),
    GOOD.replace("=()", "=[]"),
    GOOD.replace("total", "add"),
    GOOD,
    verdicts(same_behaviour=False),
    GOOD,
    verdicts(same_behaviour=True),
    "[]",
]


async def test_code_review_repairs_until_the_linter_is_silent(example: Any) -> None:
    module = example("code_review")
    turn = await made(module, *REVIEW).run(module.SAMPLE)
    assert (turn.outcome, turn.state) == ("passed", "approved")
    assert turn.output == {"_transition": "approve", "source": GOOD, "findings": []}
    assert states_of(turn) == ["repair", "review", "approved"]
    assert [name for name in failed(turn) if name != "same_behaviour"] == ["lints", "keeps_names"]
    reports = [event.report for event in turn.events if isinstance(event, ev.Progressed)]
    assert reports == [{"linter": 3}, {"linter": 0}]


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        ("def f(:", "does not compile"),
        ("return 1", "does not compile"),
        ("import os", "os is imported and not used"),
        ("import os.path as p\np", ""),
        ("def f(x={}):\n    return x", "f keeps a mutable default"),
        ("def list():\n    pass", "list hides the builtin"),
        ("try:\n    pass\nexcept:\n    pass", "a bare except"),
        ("x = 1", ""),
    ],
)
def test_the_linter_finds(example: Any, source: str, finding: str) -> None:
    found = example("code_review").lint(source)
    assert len(found) == (1 if finding else 0)
    assert all(finding in item for item in found)


async def test_code_that_cannot_be_repaired_is_rejected(example: Any) -> None:
    module = example("code_review")
    tries = ["not python(", *["import os"] * 3]
    turn = await made(module, "[]", *tries).run(module.SAMPLE)
    assert (turn.state, turn.outcome) == ("rejected", "passed")


def test_code_review_runs_as_a_program(tmp_path: Path) -> None:
    printed = program(tmp_path, "code_review", REVIEW).splitlines()
    assert printed[0] == "✓ decided "
    assert "✗ keeps_names gone: total" in printed
    assert printed[-3:] == ["-- approved", *GOOD.splitlines()]


# -- refund

DECIDED: dict[str, Any] = {"_transition": "refund", "amount": 49, "reason": "It came broken."}
ASSESS: list[Any] = [calls(("find_order", {"number": "R-204518"})), DECIDED]
PAY = calls(("pay_back", {"order_number": "R-204518", "amount": 49}))


async def test_refund_waits_for_approval_and_pays_once(example: Any, tmp_path: Path) -> None:
    module = example("refund")
    store = f"sqlite:///{tmp_path}/refunds.db"
    async with made(module, *ASSESS, PAY, store=store) as machine:
        turn = await machine.run("broken", conversation_id="w")
    assert turn.paused is not None
    assert (turn.outcome, turn.paused.kind, turn.paused.what) == ("paused", "approval", "pay_back")
    assert turn.paused.call is not None
    assert turn.paused.call["arguments"] == {"order_number": "R-204518", "amount": 49}
    assert module.PAYMENTS == {}
    async with made(module, {"_transition": "paid"}, store=store) as machine:
        turn = await machine.answer("w", {"approved": True})
    assert (turn.outcome, turn.state, turn.text) == (
        "passed",
        "paid_back",
        "Order R-204518: paid back as P-1.",
    )
    assert list(module.PAYMENTS.values()) == [{"order": "R-204518", "amount": 49}]


async def test_refund_that_a_person_declines_pays_nothing(example: Any) -> None:
    module = example("refund")
    machine = made(module, *ASSESS, PAY, {"_transition": "declined", "reason": "no"})
    await machine.run("broken", conversation_id="w")
    turn = await machine.answer("w", {"approved": False, "reason": "ask for a photo"})
    assert (turn.state, module.PAYMENTS) == ("refused", {})
    last = machine.llm.requests[-1].messages[-1]  # type: ignore[attr-defined]
    assert "ask for a photo" in last.content


@pytest.mark.parametrize(
    ("replies", "state"),
    [
        ([{"_transition": "refuse", "amount": 0, "reason": "too late"}], "refused"),
        (
            [calls(("pay_back", {"order_number": "R-204518", "amount": 49})), *[DECIDED] * 4],
            "by_hand",
        ),
        (
            [
                calls(("find_order", {"number": "R-204518"})),
                {**DECIDED, "amount": 5000},
                *[DECIDED] * 3,
            ],
            "by_hand",
        ),
        ([*ASSESS, {"_transition": "paid"}], "by_hand"),
    ],
)
async def test_refund_pays_nothing_unless_all_is_in_order(
    example: Any, replies: list[Any], state: str
) -> None:
    module = example("refund")
    turn = await made(module, *replies).run("give me money")
    assert (turn.state, turn.paused, module.PAYMENTS) == (state, None, {})


async def test_refund_bounds_the_payment_itself(example: Any) -> None:
    module = example("refund")
    too_much = calls(("pay_back", {"order_number": "R-204518", "amount": 5000}))
    machine = made(module, *ASSESS, too_much, {"_transition": "declined", "reason": "no"})
    await machine.run("broken", conversation_id="w")
    turn = await machine.answer("w", {"approved": True})
    assert (turn.state, module.PAYMENTS) == ("refused", {})


@pytest.mark.parametrize(
    ("said", "last", "end"),
    [
        ("yes", {"_transition": "paid"}, "Order R-204518: paid back as P-1. passed"),
        ("no", {"_transition": "declined", "reason": "no"}, "Nothing was paid back. passed"),
    ],
)
def test_refund_runs_as_a_program(tmp_path: Path, said: str, last: Any, end: str) -> None:
    with serve_scripted([*ASSESS, PAY, last]) as server:
        printed = program(
            tmp_path, "refund", "any", said, LLM_FSM_BASE_URL=server.base_url
        ).splitlines()
    assert printed[0].startswith("approval: pay_back {'order_number': 'R-204518', 'amount': 49}")
    assert printed[-1] == end


# -- cleanup

ROWS: list[dict[str, Any]] = [
    {"name": "Ada Lovelace", "email": "ada@example.com", "born": "1815-12-10"},
    {"name": "Grace Hopper", "email": None, "born": None},
]
CLEAN: list[Any] = [
    json.dumps(ROWS[:1]),
    json.dumps([{**ROWS[0], "born": "10.12.1815"}, {**ROWS[1], "email": "grace(at)example.com"}]),
    json.dumps(ROWS),
    verdicts(nothing_made_up=True),
]


async def test_cleanup_is_judged_and_signed_off(example: Any) -> None:
    module = example("cleanup")
    machine = made(module, *CLEAN)
    turn = await machine.run(module.ROWS, conversation_id="c")
    assert (turn.outcome, turn.output, failed(turn)) == (
        "paused",
        ROWS,
        ["complete", "well_formed"],
    )
    assert turn.paused is not None
    with pytest.raises(ValueError, match="does not fit"):
        await machine.answer("c", {"accepted": True})
    turn = await machine.answer("c", {"accepted": True, "by": "Eve"})
    assert (turn.state, turn.text) == ("published", "Signed off by Eve.")


async def test_cleanup_reminds_and_gives_up(example: Any) -> None:
    module = example("cleanup")
    machine = made(module, *CLEAN)
    turn = await machine.run(module.ROWS, conversation_id="c")
    assert turn.paused is not None
    assert turn.paused.expires is not None
    began = turn.paused.expires - 259_200
    assert await machine.run_due(began + 86_399) == ()
    (reminded,) = await machine.run_due(began + 86_401)
    assert reminded.outcome == "paused"
    (late,) = await machine.run_due(began + 259_201)
    assert (late.state, late.outcome) == ("by_hand", "passed")


WHOLE = json.dumps([{"name": "x", "email": None, "born": None}])


@pytest.mark.parametrize("replies", [["[]"], [WHOLE, "nonsense", "nonsense"]])
async def test_cleanup_that_fails_is_done_by_hand(example: Any, replies: list[Any]) -> None:
    turn = await made(example("cleanup"), *replies * 3).run([{"name": "x"}])
    assert (turn.state, turn.outcome) == ("by_hand", "passed")


@pytest.mark.parametrize(
    ("said", "end"), [("Eve\n", "Signed off by Eve."), ("\n", "Somebody has to")]
)
def test_cleanup_runs_as_a_program(tmp_path: Path, said: str, end: str) -> None:
    assert end in program(tmp_path, "cleanup", CLEAN, said).splitlines()[-1]
