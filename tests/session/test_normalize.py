from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import llm_fsm.session.normalize
from llm_fsm.definition.json_schema.validator import compile_shape
from llm_fsm.session.normalize import as_integers, normalised

ORDER = {
    "type": "object",
    "properties": {
        "what": {"type": "string"},
        "count": {"type": "integer"},
        "size": {"enum": ["x_large", "small"]},
    },
    "required": ["what", "count"],
}
PARTS = {
    "properties": {
        "n": {"type": "integer"},
        "code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{6}$"},
        "day": {"type": "string", "pattern": "^[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}$"},
    }
}
"""Of which two are written in another way than most patterns want."""


@pytest.mark.parametrize(
    ("schema", "sent", "meant"),
    [
        ({"type": "integer"}, "3", 3),
        ({"type": "number"}, " 2.5 ", 2.5),
        ({"type": "number"}, "2300", 2300),
        ({"type": "number"}, "0.125", 0.125),
        ({"type": "number"}, "2.300", None),
        ({"type": "number"}, "-12.500", None),
        ({"type": ["integer", "null"]}, "3", 3),
        ({"type": "boolean"}, "True", True),
        ({"type": "boolean"}, "TRUE", True),
        ({"type": "boolean"}, "FALSE", False),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "integer"}, "1e2", 100),
        ({"enum": [1, 2, 3]}, "2.0", 2),
        ({"type": "boolean"}, "no", False),
        ({"type": "boolean"}, "maybe", None),
        ({"type": "boolean"}, "Sí", True),
        ({"type": "boolean"}, "ΝΑΙ", True),
        ({"type": "boolean"}, "아니요", False),
        ({"type": "boolean"}, "ne", None),
        ({"type": "array"}, '["a", 1]', ["a", 1]),
        ({"type": "array", "items": {"type": "string"}}, "nuts", ["nuts"]),
        ({"type": "array", "items": {"type": "string"}, "minItems": 1}, "nuts, fish", None),
        ({"type": "array", "items": {"enum": ["food", "price"]}}, "Food", ["food"]),
        ({"type": "array", "items": {"enum": ["food", "price"]}}, "Food, price", ["food", "price"]),
        ({"type": "array", "items": {"enum": ["food", "price"]}}, "food, toilets", None),
        (
            {"type": "array", "items": {"enum": ["salt, pepper", "oil"]}},
            "Salt, pepper",
            ["salt, pepper"],
        ),
        (
            {"type": "array", "items": {"enum": ["food", "price"]}},
            ["Food", "price"],
            ["food", "price"],
        ),
        ({"type": "array", "items": {"enum": ["food", "price"]}}, ["food", "toilets"], None),
        (
            {"type": "array", "items": ORDER},
            [{"what": "5", "count": "2"}],
            [{"what": "5", "count": 2}],
        ),
        (
            {"type": "array", "items": ORDER},
            {"what": "tea", "count": 2},
            [{"what": "tea", "count": 2}],
        ),
        (
            ORDER,
            {"what": "shirt", "count": 1, "size": "X Large"},
            {"what": "shirt", "count": 1, "size": "x_large"},
        ),
        (ORDER, {"what": "shirt"}, None),
        ({"enum": ["single", "double"]}, "Double ", "double"),
        ({"enum": ["too_big", "too_small"]}, "Too big", "too_big"),
        ({"enum": ["a", "A"]}, "a ", "a"),
        ({"enum": ["계좌 이체", "카드 취소"]}, "계좌이체", "계좌 이체"),
        ({"enum": ["e-mail", "phone"]}, "Email", "e-mail"),
        ({"enum": ["8-12", "12-16"]}, "8 \u2013 12", "8-12"),
        ({"enum": ["don't know", "know"]}, "Don\u2019t know", "don't know"),
        ({"enum": ["checkout", "back"]}, "check-out", "checkout"),
        ({"enum": ["room 12", "room 1 2"]}, "room12", "room 12"),
        ({"enum": ["1 2", "3"]}, "12", None),
        ({"enum": ["2-3", "4"]}, "23", None),
        ({"enum": ["a b", "a-b"]}, "ab", None),
        ({"enum": ["صباح", "مساء"]}, "\u200fصباح\u200f", "صباح"),
        ({"enum": ["pho_thong", "thuong_gia"]}, "Phổ thông", "pho_thong"),
        ({"enum": ["doi_ve", "huy"]}, "đổi vé", "doi_ve"),
        ({"enum": ["zlozenie", "zwrot"]}, "Złożenie", "zlozenie"),
        ({"enum": ["iade", "kargo"]}, "ıade", "iade"),
        ({"enum": ["si", "no"]}, "Sí", "si"),
        ({"enum": ["sí", "si"]}, "sì", None),
        ({"enum": ["か", "き"]}, "が", None),
        ({"enum": ["a b", "a_b"]}, "a-b", None),
        ({"type": "integer"}, "٧", 7),
        ({"type": "number"}, "２．5", 2.5),
        ({"type": "number"}, "２．５００", None),
        ({"type": "number"}, "٢٫٥", 2.5),
        ({"type": "number"}, "٢٫٥٠٠", 2.5),
        ({"type": ["number", "null"]}, "١٬٢٣٤٫٥", 1234.5),
        ({"type": "integer"}, "١٬٢٣٤", 1234),
        ({"type": "integer"}, "١٬٢٣", None),
        ({"type": "integer"}, "٢٫٥", None),
        ({"type": "integer"}, "−５", -5),
        ({"type": "number"}, "0,5", 0.5),
        ({"type": "number"}, "-0,125", -0.125),
        ({"type": ["array", "number"], "items": {"type": "number"}}, "0,5", None),
        ({"type": "number"}, "2,3", None),
        ({"type": "number"}, "12,50", None),
        ({"type": "number"}, "1,500", None),
        ({"type": "array", "items": {"type": "number"}}, "2,3", None),
        ({"type": "number"}, "٢.٣٠٠", None),
        ({"type": "string", "pattern": "^05[0-9]{3}$"}, "٠٥٠١٢", "05012"),
        ({"type": "string", "format": "date"}, "２０２６-１１-１９", "2026-11-19"),
        ({"format": "date"}, "2026/12/6", "2026-12-06"),
        ({"type": "string", "format": "date"}, " 2026. 1. 30. ", "2026-01-30"),
        ({"type": "string", "format": "date"}, "2026年１２月６日", "2026-12-06"),
        ({"type": "string", "format": "date"}, "2026년 12월 6일", "2026-12-06"),
        (
            {"type": "array", "items": {"type": "string", "format": "date"}},
            ["2026-12-6"],
            ["2026-12-06"],
        ),
        ({"type": "string", "format": "date"}, "2026/13/6", None),
        ({"type": "string", "format": "date"}, "6/12/2026", None),
        ({"type": "string", "format": "date"}, "24/11/2026", "2026-11-24"),
        ({"type": "string", "format": "date"}, "11/24/2026", "2026-11-24"),
        ({"type": "string", "format": "date"}, "5. 5. 2026", "2026-05-05"),
        ({"type": "string", "format": "date"}, "31/02/2026", None),
        ({"type": "string", "format": "date"}, "13/13/2026", None),
        ({"type": "string", "format": "date"}, "24/11-2026", None),
        ({"type": "string", "format": "date"}, "24/11/26", None),
        ({"type": "string", "maxLength": 8}, "2026/12/06", None),
        ({"type": "string", "format": "time"}, "9:30", "09:30"),
        ({"type": "string", "format": "time"}, "9:30 pm", "21:30"),
        ({"type": "string", "format": "time"}, "12:05 a.m.", "00:05"),
        ({"type": "string", "format": "time"}, "13:05 pm", None),
        ({"type": "string", "pattern": "^[0-9]{2}:[0-9]{2}$"}, "9:30:00", "09:30"),
        ({"type": "string", "pattern": "^[0-9]{2}:[0-9]{2}$"}, "9:30:15", None),
        ({"type": "string", "pattern": "^[0-9]{2}:[0-9]{2}:[0-9]{2}$"}, "9:30:00", "09:30:00"),
        ({"type": "string", "format": "date"}, "2026-11-27T00:00:00.000Z", "2026-11-27"),
        ({"type": "string", "format": "date"}, "2026-11-27T23:00:00Z", None),
        ({"type": "string", "format": "time"}, "17.30", "17:30"),
        ({"type": "string", "pattern": "^[0-2][0-9]:[0-5][0-9]$"}, "9h30", "09:30"),
        ({"type": "string", "pattern": "^[0-9]{2}:[0-9]{2}$"}, "27.30", None),
        ({"type": "string", "maxLength": 3}, "9:30", None),
        ({"type": "string", "pattern": "^[0-2][0-9]:[0-5][0-9]$"}, "9:30", "09:30"),
        ({"type": "string", "pattern": "^[0-2][0-9]:[0-5][0-9]$"}, "29:30:", None),
        ({"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}, "2026/1/6", "2026-01-06"),
        ({"type": "string", "pattern": "^0[0-9]{9}$"}, "0903 111 222", "0903111222"),
        ({"type": "string", "pattern": "^0[0-9]{9}$"}, "(090) 311-1222 ", "0903111222"),
        ({"type": "string", "pattern": "^0[0-9]{9}$"}, "0903.111.222", "0903111222"),
        ({"type": "string", "pattern": "^0[0-9]{9}$"}, "٠٩٠٣ ١١١ ٢٢٢", "0903111222"),
        ({"type": "string", "pattern": r"^\+[0-9]{10,14}$"}, "+84 903 111 222", "+84903111222"),
        ({"type": "string", "pattern": "^[0-9]{16}$"}, "4111 1111 1111 1111", "4111111111111111"),
        ({"type": "string", "pattern": "^[0-9]{8}$"}, "24-11-2026", None),
        (
            {"type": "string", "pattern": "^[0-9]{18}$"},
            "012 180 0012 3456 7891",
            "012180001234567891",
        ),
        ({"pattern": "^[0-9]{20}$"}, "40817 810 0 9991 0004312", "40817810099910004312"),
        ({"pattern": "^[0-9]{12}$"}, "0004312 00043", None),
        ({"pattern": r"^\+[0-9]{8,20}$"}, "+49 30 123456 0171 123456", None),
        (
            {"pattern": "^[0-9]{26}$"},
            "12 1020 1026 0000 0422 7020 1111",
            "12102010260000042270201111",
        ),
        ({"type": "string", "pattern": "^[0-9]{9,18}$"}, "090 311 122 090 311 123", None),
        ({"type": "string", "pattern": "^[0-9]{6,20}$"}, "0903111222 0903111223", None),
        ({"type": "string", "pattern": "^[0-9]{6,20}$"}, "0903 111 222 0903 111 223", None),
        ({"type": "string", "pattern": r"^\+?[0-9]+$"}, "+84 (0)903 111 222", None),
        ({"type": "string", "pattern": "^[0-9]+$"}, "12.3456789", None),
        ({"type": "string", "pattern": "^[0-9]+$"}, "10000-20000", None),
        ({"type": "string", "pattern": "^[0-9]{5,16}$"}, "10023 10024 10025", None),
        ({"type": "string", "pattern": "^[0-9]+$"}, "192.168.100.200", None),
        ({"type": "string", "pattern": "^[0-9]+$", "minLength": 9}, "0903 111 222", "0903111222"),
        ({"type": "string", "pattern": "^[0-9]{6,12}$"}, "0903 111222", "0903111222"),
        ({"type": "string", "pattern": "^[0-9]+$"}, "0903 111 222 or 0903 111 223", None),
        ({"type": "string", "maxLength": 10}, "0903 111 222", None),
        ({"type": "string", "pattern": "^TR[0-9]{14}$"}, "TR33 0006 1005 1978", "TR33000610051978"),
        ({"type": "string", "pattern": "^[A-Z]{2}[0-9]{6}$"}, " TR-445566", "TR445566"),
        ({"type": "string", "pattern": "^[A-Z]{2}[0-9]{6}$"}, "TR ٤٤٥٥٦٦", "TR445566"),
        ({"type": "string", "pattern": "^[A-Z0-9]{4,10}$"}, "AB12 CD34", None),
        ({"type": "string", "pattern": "^[A-Z]{2}[0-9]{2,8}$"}, "AB12 34", None),
        ({"type": "string", "pattern": "^[A-Z0-9]{8,12}$"}, "BUY 100 MSFT", None),
        ({"type": "string", "pattern": "^[A-Z0-9]{8,12}$"}, "NO 1234567", None),
        ({"type": "string", "pattern": "^[A-Z0-9]{8,12}$"}, "PX79 22QP 1", "PX7922QP1"),
        (
            {"type": "string", "pattern": "^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$"},
            "GB29 NWBK 6016 1331 9268 19",
            "GB29NWBK60161331926819",
        ),
        (
            PARTS,
            {"n": "3", "code": "AB-123456", "day": "2026/1/6"},
            {"n": 3, "code": "AB-123456", "day": "2026/1/6"},
        ),
        ({"type": "boolean"}, "\u3000yes\xa0", True),
        ({"enum": ["نعم", "لا"]}, "\u061cنعم\u061c", "نعم"),
        ({"type": "string", "pattern": "^[A-Za-z0-9]+$"}, "ROOM 12", None),
        ({"type": "string", "pattern": "^[A-Z]{2}[0-9]{6}$"}, "TR 445566 or TR 445567", None),
        ({"items": {"type": "string", "pattern": "^[0-9]{9}$"}}, ["012 345 678"], ["012345678"]),
        ({"enum": ["VPN", "mail"]}, "ＶＰＮ", "VPN"),
        ({"enum": ["온돌", "스위트"]}, "\u110b\u1169\u11ab\u1103\u1169\u11af", "온돌"),
        ({"type": "string", "minLength": 2}, "१२", "१२"),
        (
            {"properties": {"a": {"pattern": "^[0-9]$"}, "b": {}}},
            {"a": "٧", "b": "حي ٢"},
            {"a": "7", "b": "حي ٢"},
        ),
        ({"type": "array", "items": {"type": "integer"}}, ["٧", 8], [7, 8]),
        (ORDER, {"what": "قميص ٢", "count": "٢"}, {"what": "قميص ٢", "count": 2}),
        ({"type": "integer"}, "three", None),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 12, "12"),
        ({"oneOf": [{"type": "integer"}, {"type": "boolean"}]}, "Yes", True),
        ({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]}, "４２", 42),
        (
            {"properties": {"n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}},
            {"n": "4"},
            {"n": 4},
        ),
        ({"type": "array", "items": {"type": "string"}}, '["half', None),
        ({"type": "string"}, 12, "12"),
        ({"type": "string"}, -12, "-12"),
        ({"type": "string", "maxLength": 5}, 7, "7"),
        ({"type": "string", "maxLength": 2}, 4711, None),
        ({"type": "string"}, 14.0, None),
        ({"type": "string", "format": "date"}, 20261205, None),
        ({"type": ["string", "null"]}, 2_147_483_648, "2147483648"),
        ({"enum": ["7", "8"]}, 8, "8"),
        ({"enum": ["7", 8]}, 7, None),
        ({"type": "array", "items": {"type": "string"}}, [1, "b", 22], ["1", "b", "22"]),
        ({"type": "array", "items": {"type": "string"}}, 31, ["31"]),
        ({"type": "array", "items": {"type": "string"}}, [True], None),
        ({"additionalProperties": {"type": "string"}}, {"a": 3}, {"a": "3"}),
        ({"type": ["string", "null"], "pattern": "^[0-9]{5}$"}, 94110, "94110"),
        ({"type": "string", "pattern": "^[0-9]{5}$"}, 2139, None),
        ({"type": "string", "enum": ["2", "3"]}, 3, "3"),
        (
            {"properties": {"b": {"enum": ["5"], "type": "string"}}, "type": "object"},
            {"b": 5},
            {"b": "5"},
        ),
        ({"type": "string"}, 1.5, None),
        ({"type": "string"}, True, None),
        ({"type": "integer"}, True, None),
        ({"type": "string", "pattern": r"^\+?[0-9]{6,15}$"}, 612345678, None),
        ({"type": "string", "pattern": "^[0-9]{4,5}$"}, 2139, None),
        ({"type": "string", "enum": ["1", "01"]}, 1, None),
        ({"type": "string", "pattern": "^-[0-9]$"}, -5, "-5"),
        ({"type": "boolean"}, "tak", None),
        ({"type": "array", "items": {"enum": ["a, b", "a", "b", "c"]}}, "a, b, c", None),
        ({"pattern": "^[0-9]{16,20}$"}, "1 123456789012 3456", None),
        ({"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}, "13/13/2026", None),
        ({"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}, "40/11/2026", None),
        ({"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}, "00/24/2026", None),
    ],
)
def test_what_a_refused_value_says_in_another_form(
    schema: dict[str, Any], sent: Any, meant: Any
) -> None:
    shape = compile_shape(schema, None)
    fits = (value for value in normalised(schema, sent, None) if shape.fault(value) is None)
    found, reason = as_integers(shape, next(fits, None))
    assert (found, reason) == (meant, None)
    assert type(found) is type(meant)


@pytest.mark.parametrize("sent", ["a," * 5000, "choice 1, " * 1000, "a b-" * 2500])
def test_long_texts_are_no_choices_and_take_no_time(
    sent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []

    def counted(text: str, plain: Callable[[str], str] = llm_fsm.session.normalize.letters) -> str:
        compared.append(text)
        return plain(text)

    monkeypatch.setattr(llm_fsm.session.normalize, "letters", counted)
    choices = [f"choice number {number}" for number in range(40)]
    shapes: list[dict[str, Any]] = [
        {"enum": choices},
        {"type": "array", "items": {"enum": choices}},
    ]
    for schema in shapes:
        assert not any(
            compile_shape(schema).fault(found) is None for found in normalised(schema, sent, None)
        )
    assert sum(map(len, compared)) < len(sent)


def test_parts_of_an_object_stand_beside_those_that_it_has() -> None:
    had = {"what": "shirt", "count": 1, "size": "small"}
    assert {**had, "count": 2} in list(normalised(ORDER, {"count": "2"}, had))
    assert list(normalised(ORDER, {"count": "2"}, None)) == [{"count": 2}]
