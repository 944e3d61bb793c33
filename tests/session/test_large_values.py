"""Large values leave a session to be stored, and come back as they were."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm._json import text_of, value_at
from llm_fsm.errors import UnreadableError
from llm_fsm.session import events as ev
from llm_fsm.session.large_values import LARGE, with_large, without_large
from llm_fsm.session.reducer import fold
from llm_fsm.session.session import Session, dump_session, parse_session, parse_stored_session

LONG = "x" * (LARGE + 1)
VALUES = st.sampled_from([1, "short", LONG, [LONG], {"deep": [LONG, None]}, [1, 2], None, True])
CONTEXTS = st.dictionaries(st.sampled_from(["a", "a/b", "a~b", "", "größe"]), VALUES)


def started(**fields):
    return ev.Started(conversation_id="c", definition="d", state="ask", time=1.0, **fields)


def stored(session, records):
    """Store a session and read it again, with its values from the records."""
    lean, large, _ = without_large(session, (), records)
    again, places = parse_stored_session(dump_session(lean, large))
    documents = {
        number: json.loads(text_of({"events": events})) for number, events in records.items()
    }
    values = {place: value_at(documents[at.record], at.pointer) for place, at in places.items()}
    return again, with_large(again, values)


@given(outer=CONTEXTS, inner=CONTEXTS, shared=CONTEXTS, changed=CONTEXTS)
def test_a_session_comes_back_whole_with_all_its_contexts(outer, inner, shared, changed):
    events = (
        started(context=outer, shared=shared),
        ev.FlowPushed(kind="digression", state="ask", entered="aside"),
        ev.FlowPushed(kind="subflow", state="aside", flow="inner", entered="first", context=inner),
        ev.AttemptBegun(state="first", attempt=1),
        ev.ContextSet(source="host", values=changed),
    )
    session = fold(Session(conversation_id="c"), events)
    lean, whole = stored(session, {1: events})
    assert dump_session(whole) == dump_session(session)
    assert list(whole.context) == list(session.context)  # the order in which a prompt shows them
    assert LONG not in dump_session(lean)


def test_a_small_value_and_one_that_no_record_holds_as_a_whole_stay_in_the_session():
    session = Session(conversation_id="c", context={"small": ["x"], "merged": {"part": LONG}})
    lean, large, located = without_large(session, (), {1: (started(context={"merged": LONG}),)})
    assert (lean, large, located) == (session, {}, ())


def test_a_value_whose_place_is_known_is_not_looked_for_again():
    first = (started(context={"list": [LONG]}),)
    session = fold(Session(conversation_id="c"), first)
    _, large, located = without_large(session, (), {1: first})
    later = fold(session, (ev.ContextSet(source="model", values={"name": "Ada"}),))
    _, again, still = without_large(later, located, {2: ()})
    assert (again, still) == (large, located)
    assert large["/context/list"].record == 1


def test_a_value_that_was_replaced_is_referred_to_no_longer():
    first, other = (started(context={"list": [LONG]}),), [LONG, "more"]
    session = fold(Session(conversation_id="c"), first)
    _, _, located = without_large(session, (), {1: first})
    second = (ev.ContextSet(source="host", values={"list": other}),)
    _, large, located = without_large(fold(session, second), located, {2: second})
    assert [one.value for one in located] == [other]
    assert large["/context/list"].record == 2


def test_a_session_without_its_large_values_is_not_taken_for_a_whole_one():
    events = (started(context={"list": [LONG]}),)
    lean, large, _ = without_large(fold(Session(conversation_id="c"), events), (), {1: events})
    with pytest.raises(UnreadableError, match="/context/list stands in one of its turn records"):
        parse_session(dump_session(lean, large))


@pytest.mark.parametrize(
    "large", [[], {"/context/a": 1}, {"/context/a": [1, "/x"]}, {"/context/a": ["1", "/x", "y"]}]
)
def test_references_that_are_none_are_said_to_be_unreadable(large):
    with pytest.raises(UnreadableError, match="large"):
        parse_stored_session(dump_session(Session(conversation_id="c"), large or [0]))
