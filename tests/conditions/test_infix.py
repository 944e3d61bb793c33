from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm.conditions import infix
from llm_fsm.conditions.compiler import collect_faults

N, NAME = {"var": "n"}, {"var": "order.name"}


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({">": [N, 3]}, "n > 3"),
        ({"==": [NAME, 'a "b"']}, 'order.name == "a \\"b\\""'),
        ({"and": [{"<": [N, 3]}, {"or": [{"!!": [N]}, {"!": [N]}]}]}, "n < 3 && (!!n || !n)"),
        ({"<=": [1, N, 5]}, "1 <= n && n <= 5"),
        ({"!": [{"==": [N, None]}]}, "!(n == null)"),
        ({"-": [{"-": [N, 1]}, {"-": [2, 3]}]}, "n - 1 - (2 - 3)"),
        ({"*": [{"+": [N, 1]}, -2.5]}, "(n + 1) * -2.5"),
        (True, "true"),
    ],
)
def test_rules_as_expressions(rule: Any, text: str) -> None:
    assert infix.write(rule) == text


@pytest.mark.parametrize(
    ("rule", "loose"),
    [
        ({"in": [N, [1, 2]]}, "n in [1, 2]"),
        ({"has_context": "n"}, "n != null"),
        ({"!": [{"has_context": "n"}]}, "!(n != null)"),
        ({"==": [{"has_context": "n"}, False]}, "n != null == false"),
        ({"<": [1, {"has_context": ["n"]}]}, "1 < (n != null)"),
        ({">": [{"date": [N]}, {"now": []}]}, "date(n) > now()"),
        ({"if": [N, 1, 2]}, "if(n, 1, 2)"),
        ({"var": "a-b"}, 'var("a-b")'),
        ({"var": ["n", 1]}, 'var("n", 1)'),
        ({"==": [{"var": "true"}, 1]}, 'var("true") == 1'),
    ],
)
def test_what_goes_beyond_expressions_is_only_written_loosely(rule: Any, loose: str) -> None:
    assert infix.write(rule) is None
    assert infix.write(rule, loose=True) == loose


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("n = 3", {"==": [N, 3]}),
        ("n === 3 and not (n > 1)", {"and": [{"===": [N, 3]}, {"!": [{">": [N, 1]}]}]}),
        ("order.name == 'it\\'s \"x\"'", {"==": [NAME, 'it\'s "x"']}),
        ("n != undefined", {"!=": [N, None]}),
        ("n < -1", {"<": [N, -1]}),
        ("n<1||n>2||n==5", {"or": [{"<": [N, 1]}, {">": [N, 2]}, {"==": [N, 5]}]}),
        ("n in [1, 2]", {"in": [N, [1, 2]]}),
        ("count(n, 1) > 2", {">": [{"count": [N, 1]}, 2]}),
        ("!!n", {"!!": [N]}),
        ("true", True),
    ],
)
def test_expressions_as_rules(text: str, rule: Any) -> None:
    assert infix.read(text) == rule


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "ends too early"),
        ("n >", "ends too early"),
        ("(n > 1", "not closed"),
        ("n > 1)", "unexpected"),
        ("the name is known", "unexpected"),
        ("ready", "a name alone"),
        ("!ready", "a name alone"),
        ("42", "nothing that could be true or false"),
        ("In('state')", "unknown operator"),
        ("_event.data > 1", "cannot read an event"),
        ("n == 'x\\q'", "unknown escape"),
        ("(" * 60 + "1", "nested too deeply"),
        ("n > 1 &", "unexpected"),
        ("x" * 3000, "longer than"),
    ],
)
def test_what_is_no_expression_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        infix.read(text)


def test_names_alone_are_conditions_where_the_notation_says_so() -> None:
    assert infix.read("ready && !late", bare=True) == {
        "and": [{"var": "ready"}, {"!": [{"var": "late"}]}]
    }


@given(text=st.text(alphabet="ab1.\"'()[]!&|=<>+-*/%, \\n", max_size=30))
def test_any_text_is_a_valid_rule_or_refused(text: str) -> None:
    try:
        rule = infix.read(text)
    except ValueError as error:
        reason = str(error)
    else:
        reason = "" if not collect_faults(rule) else "faulty"
    assert reason != "faulty"
