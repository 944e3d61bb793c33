"""What a definition says of another one that it calls, held against the file of that one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lint_cases import Written, machine, to, when
from llm_fsm import check

RULES = ("flow-mapping", "mapping-never-fits", "unknown-ending")
KEYS = {
    "sum": {"type": "number"},
    "pin": {"type": "string", "x-secret": True},
    "way": {"enum": ["cash", "card"]},
}


def called(**more: Any) -> Written:
    """Asks for the way of paying; ends paid or unpaid."""
    states = {"how": {"transitions": [to("paid", when(None, "way")), to("unpaid")]}}
    return machine(states, KEYS, **more)


def caller(*transitions: Written, **mappings: Any) -> Written:
    keys = {
        "price": {"type": "number"},
        "paid_by": {"type": "string"},
        "code": {"type": "string", "x-secret": True},
    }
    pay = {
        "kind": "subflow",
        "flow": "pay.json",
        "transitions": list(transitions) or [to("done")],
        **mappings,
    }
    return machine({"pay": pay}, keys)


def found(folder: Path, document: Written, inner: Any) -> list[tuple[str, str, str]]:
    (folder / "pay.json").write_text(json.dumps(inner), encoding="utf-8")
    main = folder / "main.json"
    main.write_text(json.dumps(document), encoding="utf-8")
    return [(one.level, one.name, one.pointer) for one in check(main) if one.name in RULES]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (caller(input={"summ": "price"}), ("error", "flow-mapping", "/states/pay/input/summ")),
        (
            caller(output={"paid_by": "wya"}),
            ("error", "flow-mapping", "/states/pay/output/paid_by"),
        ),
        (
            caller(output={"paid_by": "pin"}),
            ("error", "flow-mapping", "/states/pay/output/paid_by"),
        ),
        (caller(input={"way": "code"}), ("error", "flow-mapping", "/states/pay/input/way")),
        (
            caller(output={"price": "way"}),
            ("warning", "mapping-never-fits", "/states/pay/output/price"),
        ),
        (
            caller(input={"sum": "paid_by"}),
            ("warning", "mapping-never-fits", "/states/pay/input/sum"),
        ),
        (
            caller(to("done", on="payd"), to("end", on="default")),
            ("warning", "unknown-ending", "/states/pay/transitions/0/on"),
        ),
        (caller(to("done", on="paid")), ("warning", "unknown-ending", "/states/pay/transitions")),
    ],
)
def test_a_call_that_does_not_fit_is_found(
    tmp_path: Path, document: Written, expected: tuple[str, str, str]
) -> None:
    assert found(tmp_path, document, called()) == [expected]


@pytest.mark.parametrize(
    "document",
    [
        caller(input={"sum": "price", "pin": "code"}, output={"paid_by": "way", "code": "pin"}),
        caller(to("done", on="paid"), to("end")),
        caller(to("done", on="paid"), to("end", on="unpaid"), to("end", on="cancelled")),
        caller(to("done", on="paid"), to("end", on="default")),
        caller(input={"sum": "prise"}),  # unknown-key-in-mapping says it
    ],
)
def test_a_call_that_fits_is_left_alone(tmp_path: Path, document: Written) -> None:
    assert found(tmp_path, document, called()) == []


@pytest.mark.parametrize("inner", [3, {"states": 4}, {"states": {"a": {"kind": ["x"]}}}, []])
def test_of_what_is_no_definition_nothing_is_said(tmp_path: Path, inner: Any) -> None:
    assert found(tmp_path, caller(to("done", on="paid"), input={"sum": "price"}), inner) == []


@pytest.mark.parametrize(
    ("mappings", "expected"),
    [
        ({"output": {"ticket": "way"}}, ["mapping-never-fits"]),
        ({"output": {"ticket": "receipt"}}, []),
        ({"input": {"way": "ticket"}, "output": {"ticket": "way"}}, []),
        ({"output": {"ticket": ["way"]}}, []),
    ],
)
def test_what_a_model_wrote_there_reaches_no_key_of_the_program(
    tmp_path: Path, mappings: Written, expected: list[str]
) -> None:
    inner = called()
    inner["context_schema"]["properties"]["receipt"] = {"type": "string", "x-source": "host"}
    document = caller(**mappings)
    document["context_schema"]["properties"]["ticket"] = {"type": "string", "x-source": "host"}
    assert [name for _, name, _ in found(tmp_path, document, inner)] == expected


def test_older_forms_are_read_as_what_they_mean(tmp_path: Path) -> None:
    inner = {"initial_state": "how", "states": {"how": ["paid"], "paid": []}}
    assert found(tmp_path, caller(to("done", on="paid")), inner) == []
    assert [
        name for _, name, _ in found(tmp_path, caller(to("done", on="payd"), to("end")), inner)
    ] == ["unknown-ending"]


def test_what_only_digressions_come_to_is_no_ending(tmp_path: Path) -> None:
    inner = called()
    inner["states"]["hours"] = {"reply": "From nine to five."}
    inner["global_transitions"] = [
        {"target_state": "hours", "description": "Asks for the hours", "return": True}
    ]
    endings = [to("done", on="paid"), to("done", on="unpaid")]
    assert [name for _, name, _ in found(tmp_path, caller(*endings), inner)] == []
