"""A conversation has one time zone. Everything that has a day in it goes by that zone."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm import Conversation, Machine, check
from llm_fsm._zones import zone_of
from llm_fsm.conditions import evaluate
from llm_fsm.errors import ConfigurationError
from llm_fsm.testing import ScriptedLLM, reply
from llm_fsm.turn.prompt.render import with_day

NOT_PAST = {">=": [{"+": [{"date": [{"var": "day"}]}, 86400]}, {"now": []}]}
DAY = {"type": "string", "format": "date", "description": "Day"}
ZONES = (
    "UTC",
    "America/Los_Angeles",
    "Asia/Tokyo",
    "Europe/Berlin",
    "Asia/Kolkata",
    "Pacific/Kiritimati",
)
# (zone, the moment, a day that is over there, though not in Greenwich or the other way round, today
# there)
MOMENTS = [
    ("America/Los_Angeles", "2026-12-06T02:00Z", "2026-12-04", "2026-12-05"),
    ("Asia/Tokyo", "2026-12-05T20:00Z", "2026-12-05", "2026-12-06"),
    ("UTC", "2026-12-05T20:00Z", "2026-12-04", "2026-12-05"),
]


def seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def visit(**keys: Any) -> dict[str, Any]:
    """A definition that takes no day that is over."""
    condition = {
        "description": "The day is not past",
        "requires_context_keys": ["day"],
        "logic": NOT_PAST,
    }
    ways = [{"target_state": "end", "description": "The day is known", "conditions": [condition]}]
    return {
        "name": "visit",
        "initial_state": "ask",
        "context_schema": {"properties": {"day": DAY}},
        "states": {
            "ask": {"purpose": "When?", "required_context_keys": ["day"], "transitions": ways},
            "end": {"reply": "See you on {{ day }}."},
        },
        **keys,
    }


@given(
    st.sampled_from(ZONES),
    st.datetimes(min_value=datetime(2026, 1, 1), max_value=datetime(2027, 12, 31)),
)
def test_conditions_and_prompts_agree_which_day_it_is(zone, moment):
    now = moment.replace(tzinfo=UTC).timestamp()
    shown = with_day("", now, zone).partition(", ")[2][:10]
    data = {"_timestamp": now, "_timezone": zone, "day": shown}
    before = datetime.fromisoformat(shown) - timedelta(days=1)
    assert evaluate({"<=": [{"date": [{"var": "day"}]}, {"now": []}]}, data)
    # A day may have 25 hours, so its last hour is left out.
    if datetime.fromtimestamp(now, zone_of(zone)).hour < 23:
        assert evaluate(NOT_PAST, data)
    if datetime.fromtimestamp(now, zone_of(zone)).hour > 0:
        assert not evaluate(NOT_PAST, {**data, "day": f"{before:%Y-%m-%d}"})


@pytest.mark.parametrize("by", ["definition", "start"])
@pytest.mark.parametrize(("zone", "moment", "over", "today"), MOMENTS)
def test_a_guard_goes_by_the_day_of_the_conversation(by, zone, moment, over, today):
    own = {"timezone": zone} if by == "definition" else {"timezone": "Asia/Kolkata"}
    named = {"timezone": zone} if by == "start" else {}
    model = ScriptedLLM(
        [reply("end", day=over), reply("ask", "It is over."), reply("end", day=today)]
    )
    with Machine.from_dict(visit(**own), model=model, clock=lambda: seconds(moment)) as machine:
        chat = machine.start(greet=False, **named)
        assert chat.send("then").state == "ask"
        assert f", {today}</today>" in model.requests[0].messages[0].content
        assert chat.send("today").state == "end"


@pytest.mark.parametrize(("zone", "moment", "over", "today"), MOMENTS)
def test_rules_for_values_go_by_that_day_whoever_writes(zone, moment, over, today):
    rule = {"logic": NOT_PAST, "description": "The day is not past"}
    keys = {"properties": {"day": {**DAY, "x-valid": [rule]}}}
    definition = visit(context_schema=keys, timezone=zone)
    model = ScriptedLLM([reply("ask", "ok", day=over), reply("ask", "ok", day=today)])
    with Machine.from_dict(definition, model=model, clock=lambda: seconds(moment)) as machine:
        with pytest.raises(ValueError, match="not past"):
            machine.start({"day": over}, greet=False)
        assert machine.start({"day": today}, greet=False).context["day"] == today
        chat = machine.start(greet=False)
        with pytest.raises(ValueError, match="not past"):
            chat.update({"day": over})
        chat.send("then")
        assert "day" not in chat.context
        chat.send("today")
        assert chat.context["day"] == today


@pytest.mark.parametrize(("zone", "moment", "over", "today"), MOMENTS)
def test_what_is_set_and_the_checks_of_tasks_go_by_that_day(zone, moment, over, today):
    definition = {
        "name": "work",
        "initial_state": "work",
        "timezone": zone,
        "states": {
            "work": {
                "kind": "task",
                "execute": "plan",
                "max_retries": 1,
                "set": {"begins": {"date": [today]}},
                "key_results": [
                    {
                        "name": "in time",
                        "check": {
                            ">=": [{"+": [{"date": [{"var": "output"}]}, 86400]}, {"now": []}]
                        },
                    }
                ],
                "transitions": [{"target_state": "end"}],
            },
            "end": {"kind": "final"},
        },
    }
    days = [today, over]
    with Machine.from_dict(definition, model="offline", clock=lambda: seconds(moment)) as machine:

        @machine.function
        def plan(ctx):
            return days.pop()

        turn = machine.run()
        assert turn.outcome == "passed"
        assert not days
        midnight = datetime.fromisoformat(today).replace(tzinfo=zone_of(zone)).timestamp()
        assert machine.resume(turn.conversation_id).context["begins"] == midnight


def test_a_moment_in_a_fixed_reply_is_told_in_that_zone():
    at = {"type": "string", "format": "date-time", "description": "When"}
    definition = visit(
        context_schema={
            "properties": {"at": at, "list": {"type": "array", "items": at, "description": "All"}}
        },
        language="en-GB",
        timezone="Asia/Tokyo",
    )
    definition["states"]["ask"] = {
        "reply": "{{ at }} / {{ list | first }}",
        "transitions": [{"target_state": "end"}],
    }
    definition["states"]["end"] = {"reply": "Bye."}
    moment = "2026-12-05T20:30:00Z"
    with Machine.from_dict(definition, model=ScriptedLLM([])) as machine:
        said = machine.start({"at": moment, "list": [moment]}).greeting
        assert said == "6 December 2026, 05:30 / 6 December 2026, 05:30"
        chat = machine.start(
            {"at": "2026-12-05T20:30:00", "list": [moment]}, timezone="Europe/Berlin"
        )
        assert chat.greeting == "5 December 2026, 20:30 / 5 December 2026, 21:30"


def began_in(chat: Conversation) -> str:
    return chat.turns[0].events[0].timezone


def test_a_conversation_keeps_the_zone_in_which_it_began():
    with Machine.from_dict(visit(timezone="Asia/Tokyo"), model="offline") as machine:
        assert began_in(machine.start()) == "Asia/Tokyo"
        assert began_in(machine.start(timezone="Europe/Berlin")) == "Europe/Berlin"
    with Machine.from_dict(visit(), model="offline") as machine:
        assert not began_in(machine.start())


@pytest.mark.parametrize("name", ["Europe/Nowhere", "Mars", "Europe", "CET+99"])
def test_no_zone_is_replaced_in_silence(name):
    with pytest.raises(ConfigurationError, match="is not known: an IANA name"):
        zone_of(name)
    assert "expected a name such as" in str(check(visit(timezone=name))[0])
    with (
        Machine.from_dict(visit(), model="offline") as machine,
        pytest.raises(ValueError, match="is not known"),
    ):
        machine.start(timezone=name)
    with pytest.raises(ValueError, match="is not known"):
        evaluate({"date": ["2026-12-05"]}, {"_timezone": name})


_ELSEWHERE = """
import sys
if sys.argv[1] == "bare":
    sys.modules["tzdata"] = None
from llm_fsm._zones import zone_fault
print([zone_fault(name) for name in ("Asia/Tokyo", "Mars")])
"""


@pytest.mark.parametrize(
    ("packages", "faults"),
    [
        ("with", [None, "an IANA name such as Europe/Berlin is needed"]),
        ("bare", 2 * ["this machine has no database of time zones; install the package tzdata"]),
    ],
)
def test_a_machine_without_a_database_of_zones_uses_the_package_or_says_so(packages, faults):
    run = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE, packages],
        capture_output=True,
        text=True,
        env={"PYTHONTZPATH": ""},
        check=False,
    )
    assert run.stdout.strip() == str(faults), run.stderr
