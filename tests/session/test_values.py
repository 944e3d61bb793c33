from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import pathlib
import uuid
from typing import Any

import pytest
from pydantic import BaseModel

from llm_fsm.session.values import ValueFault, to_json_value


class Size(enum.Enum):
    SMALL = "s"


class Model(BaseModel):
    day: dt.date


@dataclasses.dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (dt.date(2026, 1, 2), "2026-01-02"),
        (dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC), "2026-01-02T03:04:00+00:00"),
        (dt.timedelta(seconds=90), 90.0),
        (decimal.Decimal("1.5"), 1.5),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Size.SMALL, "s"),
        ({"b", "a"}, ["a", "b"]),
        ((1, [True, None]), [1, [True, None]]),
        ({7: 1, Size.SMALL: 2, dt.date(2026, 1, 2): 3}, {"7": 1, "s": 2, "2026-01-02": 3}),
        (pathlib.PurePosixPath("a/b"), "a/b"),
        ({"a": 1}.keys(), ["a"]),
        (range(2), [0, 1]),
        (Point(1), {"x": 1}),
        (Model(day=dt.date(2026, 1, 2)), {"day": "2026-01-02"}),
    ],
)
def test_python_values_become_json(value: object, plain: Any) -> None:
    assert to_json_value(value) == plain


@pytest.mark.parametrize(
    "value",
    [
        *(
            float("nan"),
            float("inf"),
            decimal.Decimal("sNaN"),
            2**64,
            object(),
            b"x",
            int,
            [[[]] * 2, lambda: 0],
        ),
        *({(1,): 2}, {b"x": 1}),
    ],
)
def test_values_without_a_json_form_say_why(value: object) -> None:
    with pytest.raises(ValueFault):
        to_json_value(value)


def test_deep_values_are_refused() -> None:
    deep: list[Any] = []
    for _ in range(40):
        deep = [deep]
    with pytest.raises(ValueFault, match="deeper than 32"):
        to_json_value(deep)
