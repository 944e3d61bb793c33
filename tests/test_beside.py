"""The page of the comparing benchmark: what was not measured is a dash, and comes last."""

from __future__ import annotations

from benchmarks.beside.report import markdown, not_first, page, plot_data
from benchmarks.beside.sections import SECTIONS, Row

LONG: dict[str, Row] = {
    "slow": {"turns": 130, "tokens_10": 2000.0, "tokens_100": 9000.0, "ms_10": 25.0},
    "broken": {"failed": "no end | after 120 s"},
    "llm_fsm": {"tokens_10": 900.0, "tokens_100": 910.0, "tokens_500": 910.0, "ms_10": 0.7, "ms_500": 0.71},
    "raw": {"tokens_10": 800.0, "tokens_100": 800.0, "tokens_500": 800.0, "ms_10": 0.5, "ms_500": 0.5},
}


def test_what_a_system_did_not_come_to_is_a_dash_below_those_that_did() -> None:
    assert markdown(SECTIONS["long"], LONG).splitlines()[2:] == [
        "| raw | 800 | 800 | 800 | 0.50 | 0.50 |",
        "| **llm_fsm** | 900 | 910 | 910 | 0.70 | 0.71 |",
        "| slow | 2000 | 9000 | – | 25.00 | – |",
        "| broken | failed: no end / after 120 s |  |  |  |  |",
    ]


def test_who_is_ahead_is_said_and_who_did_not_finish_is_not() -> None:
    assert not_first({"long": LONG}) == ["- A long conversation: raw (800) before llm_fsm (910)"]
    assert '[["raw", 800.0], ["llm_fsm", 910.0]]' in plot_data({"long": LONG})


def test_the_page_names_versions_and_machine() -> None:
    made = page({"long": LONG}, {"llm_fsm": "1.2"}, ["a processor", "2 cores"])
    assert "Measured on a processor, 2 cores." in made
    assert "| llm_fsm | 1.2 |" in made
    assert made.endswith("before llm_fsm (910)\n")
