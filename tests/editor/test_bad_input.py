"""Texts, gestures and conditions of any shape: each gets one clear answer, and none is a fault of
the server.
"""

import json

TEXTS = (
    *(
        "",
        "null",
        "[]",
        '"x"',
        "[" * 300,
        '{"a":' * 150 + "1" + "}" * 150,
        '{"a": 1e999}',
        '{"a": "\x00"}',
    ),
    '{"states": {"a": 1, "b": [], "c": {"transitions": 5}, "d": {"transitions": [1, {"target_state": 7}]}}}',
    '{"states": [1, 2]}',
    '{"states": [{"id": "a", "transitions": [{"target_state": "b"}]}]}',
    '{"states": {"a": 5}, "transitions": {"a": [1], "b": {"x": 1}}}',
    '{"states": {"a": {"key_results": 5, "tools": "x"}}, "transitions": {}}',
    '{"cases": [1], "definition": 5}',
    '{"name": "\ud83d", "states": {"\ud83d": {"purpose": "\ud83d"}}}',
    '{"states": {"": {}}, "initial_state": ""}',
    '{"name": "<b>", "states": {"<script>": {"purpose": "\u202e"}}, "initial_state": "<script>"}',
    '{"ui": {"positions": {"a": [1e308, 2], "b": "x"}}, "states": {"a": {}}}',
    '{"states": {"a": {"flow": "../../x.json", "kind": "subflow"}, "b": {"flow": "\\u0000", "kind": "subflow"}}}',
)
GESTURES = (
    {"do": "add_state", "id": "zz"},
    {"do": "rename_state", "id": "a", "to": "q"},
    {"do": "delete_state", "id": "a"},
    {"do": "duplicate_state", "id": "a", "to": "q"},
    {"do": "add_transition", "source": "a", "target": "b"},
    {"do": "delete_transition", "pointer": "/states"},
    {"do": "repoint", "pointer": "/name", "target": "x"},
    {"do": "repoint", "pointer": "/transitions/a", "source": "b"},
    {"do": "insert_state", "pointer": "", "id": "w"},
    {"do": "insert_state", "pointer": "/objective", "id": "w"},
    {"do": "set", "pointer": "nonsense", "value": 1},
    {"do": "set", "pointer": "", "value": 5},
    {"do": "insert", "pointer": "/states/" + "9" * 5000, "value": 1},
    {"do": "move", "pointer": "/states/a", "to": 0},
    {"do": "delete", "pointer": ""},
)
CONDITIONS = (5, {"var": []}, {"and": 5}, {"+": ["a", [1]]}, {"==": [1]}, {"\ud83d": 1}, [[[[]]]])
ROUTES = {
    "/check": {},
    "/diff": {"before": "{}"},
    "/talks": {},
    "/export": {"form": "python"},
    "/tests": {},
}


def answered(page, route, body):
    """Send a body as JSON in ASCII, as a browser sends half characters, and return the status."""
    content = json.dumps(body).encode()
    answer = page.client.post(
        f"/api{route}", content=content, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code in (200, 404, 422), (route, body, answer.text)
    if answer.status_code != 200:
        assert answer.json()["detail"]


def test_no_text_makes_a_fault_of_the_server(page):
    for text in TEXTS:
        for route, more in ROUTES.items():
            answered(page, route, {"path": "a.json", "text": text, **more})


def test_no_gesture_makes_a_fault_of_the_server(page):
    for text in TEXTS:
        for one in GESTURES:
            answered(
                page, "/patch", {"path": "a.json", "text": text, "gestures": [{"gesture": one}]}
            )


def test_no_condition_makes_a_fault_of_the_server(page):
    for logic in CONDITIONS:
        answered(page, "/condition", {"logic": logic, "context": {"a": 1}})
    for expression in ("", "a >", "((((", "'\ud83d' == a"):
        answered(page, "/condition", {"expression": expression, "context": {"a": 1}})


def test_300_ways_out_of_one_state_open(page):
    states = {f"s{number}": {"reply": "Hi"} for number in range(300)}
    ways = [{"target_state": name, "description": f"The way to {name}"} for name in states]
    document = {
        "name": "wide",
        "initial_state": "hub",
        "states": {"hub": {"transitions": ways}, **states},
    }
    checked = page.post("/check", {"path": "wide.json", "text": json.dumps(document)})
    assert len(checked["graph"]["edges"]) == 300
