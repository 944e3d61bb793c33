"""The page of the comparing benchmark: what was not measured is a dash, and comes last."""

from __future__ import annotations

import pytest

from benchmarks.beside import __main__ as command
from benchmarks.beside.report import markdown, not_first, page, plot_data
from benchmarks.beside.sections import SECTIONS, Bench, Row
from benchmarks.beside.server_process import Server
from benchmarks.beside.systems import SYSTEMS

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
    assert not_first({"long": LONG}) == [
        "- A long conversation, tokens at turn 10: raw (800) before llm_fsm (900)",
        "- A long conversation, tokens at 100: raw (800) before llm_fsm (910)",
        "- A long conversation, tokens at 500: raw (800) before llm_fsm (910)",
        "- A long conversation, ms at turn 10: raw (0.50) before llm_fsm (0.70)",
        "- A long conversation, ms at 500: raw (0.50) before llm_fsm (0.71)",
    ]
    assert '[["raw", 800.0], ["llm_fsm", 910.0]]' in plot_data({"long": LONG})


def test_the_page_names_versions_and_machine() -> None:
    made = page({"long": LONG}, {"llm_fsm": "1.2"}, ["a processor", "2 cores"])
    assert "Measured on a processor, 2 cores." in made
    assert "| llm_fsm | 1.2 |" in made
    assert made.endswith("raw (0.50) before llm_fsm (0.71)\n")


def test_every_printed_figure_counts_and_one_that_looks_the_same_is_not_ahead() -> None:
    rows: dict[str, Row] = {
        "llm_fsm": {"calls": 1.0, "prompt": 900.4, "cached": 82.4, "completion": 40.0, "right": True},
        "llm_fsm, sync": {"calls": 1.0, "prompt": 905.0, "cached": 82.0, "completion": 41.0, "right": True},
        "llm-fsm 0.1.1 (seed era)": {"calls": 1.0, "prompt": 900.1, "cached": 90.0, "completion": 33.0, "right": False},
        "other": {"calls": 1.001, "prompt": 1000.0, "cached": 82.3, "completion": 18.0, "right": True},
    }
    title = SECTIONS["tokens"].title
    assert not_first({"tokens": rows}) == [
        f"- {title}, % in a prefix seen before: llm-fsm 0.1.1 (seed era) (90) before llm_fsm (82)",
        f"- {title}, tokens of the reply: other (18), llm-fsm 0.1.1 (seed era) (33) before llm_fsm (40)",
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["nosuch"], "unknown section 'nosuch'; there are tokens; stub"),
        (["--only", "nosuch"], "unknown system 'nosuch'; there are llm_fsm; llm_fsm, sync"),
        (["--runs", "0", "stub"], "argument --runs: 0 is too few; at least 1"),
        (["--conversations", "-1"], "argument --conversations: -1 is too few; at least 1"),
    ],
)
def test_a_wrong_argument_is_told_before_anything_is_installed(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "install", lambda environment: pytest.fail(f"installs {environment}"))
    with pytest.raises(SystemExit, match="2"):
        command.main(given)
    assert said in capsys.readouterr().err


CALM: Row = {"cpu_ms": 0.15, "wall_ms": 0.3}
DISTURBED: Row = {"cpu_ms": 0.27, "wall_ms": 0.2}
FAILED: Row = {"failed": "no"}


@pytest.mark.parametrize(
    ("rows", "taken"),
    [
        ((DISTURBED, CALM, FAILED), CALM),
        ((CALM, DISTURBED), CALM),
        ((FAILED, DISTURBED), DISTURBED),
        ((FAILED,), FAILED),
    ],
)
def test_the_run_that_was_disturbed_least_counts_and_a_failure_only_where_all_failed(
    rows: tuple[Row, ...], taken: Row, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter(rows)
    monkeypatch.setattr(Bench, "worker", lambda *_, **__: next(found))
    bench = Bench(Server(0), SYSTEMS[:1], runs=len(rows), conversations=1)
    assert bench.repeated(bench.systems, "turns") == {SYSTEMS[0].name: taken}
