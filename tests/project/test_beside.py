"""The page of the comparing benchmark: what was not measured is a dash, and comes last."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.beside import __main__ as command
from benchmarks.beside import sections, server_process, systems
from benchmarks.beside.policy import decoded
from benchmarks.beside.report import compared, markdown, not_first, page, plot_data
from benchmarks.beside.sections import RULES, SECTIONS, Bench, Row, units
from benchmarks.beside.server_process import Server
from benchmarks.beside.systems import SYSTEMS

LONG: dict[str, Row] = {
    "slow": {"turns": 130, "tokens_10": 2000.0, "tokens_100": 9000.0, "ms_10": 25.0},
    "broken": {"failed": "no end | after 120 s"},
    "llm_fsm": {
        "tokens_10": 900.0,
        "tokens_100": 910.0,
        "tokens_500": 910.0,
        "ms_10": 0.7,
        "ms_500": 0.71,
    },
    "raw": {
        "tokens_10": 800.0,
        "tokens_100": 800.0,
        "tokens_500": 800.0,
        "ms_10": 0.5,
        "ms_500": 0.5,
    },
}


def test_what_a_system_did_not_come_to_is_a_dash_below_those_that_did() -> None:
    assert markdown(SECTIONS["long"], LONG).splitlines()[2:] == [
        "| raw | 800 | 800 | 800 | 0.50 | 0.50 |",
        "| **llm_fsm** | 900 | 910 | 910 | 0.70 | 0.71 |",
        "| slow | 2000 | 9000 | – | 25.00 | – |",
        "| broken | failed: no end / after 120 s |  |  |  |  |",
    ]


def test_who_is_ahead_is_said_and_who_did_not_finish_is_not() -> None:
    assert not_first({"long": LONG}).splitlines()[2:] == [
        "| A long conversation | tokens at turn 10 | raw (800) | 900 |",
        "| A long conversation | tokens at 100 | raw (800) | 910 |",
        "| A long conversation | tokens at 500 | raw (800) | 910 |",
        "| A long conversation | ms at turn 10 | raw (0.50) | 0.70 |",
        "| A long conversation | ms at 500 | raw (0.50) | 0.71 |",
    ]
    assert '[["raw", 800.0], ["llm_fsm", 910.0]]' in plot_data({"long": LONG})


def test_the_page_names_versions_and_machine() -> None:
    made = page({"long": LONG}, {"llm_fsm": "1.2"}, ["a processor", "2 cores"], runs=3)
    assert "of 3 interleaved runs" in made
    assert "Measured on a processor, 2 cores." in made
    assert "| llm_fsm | 1.2 |" in made
    assert (
        made.index("## Beside other frameworks")
        < made.index("## Beside bare clients")
        < made.index("## How it is")
    )
    assert made.endswith("\n| A long conversation | ms at 500 | raw (0.50) | 0.71 |\n")
    assert "- A long conversation: broken, no end | after 120 s." in made
    assert "failed" not in page({"long": {"raw": LONG["raw"]}}, {}, [], runs=3)


def test_a_row_names_three_systems_that_are_ahead_and_counts_the_others() -> None:
    rows: dict[str, Row] = {
        "llm_fsm": {"kb": 9.0},
        **{f"s{number}": {"kb": float(number)} for number in range(5)},
    }
    assert not_first({"idle": rows}).splitlines()[2:] == [
        "| Memory of an idle conversation | kB | s0 (0.0), s1 (1.0), s2 (2.0) and 2 more | 9.0 |"
    ]
    assert not_first({"idle": {"llm_fsm": {"kb": 1.0}}}) == "None in this run."


def verdicts(text: str, beside: str) -> dict[str, list[str]]:
    """Return the fourth cell of each row of a table, such as ["5.1", "times", "better"], by the
    first one.
    """
    part = text.split(f"\n## Beside {beside}\n")[1].split("\n\n## ", maxsplit=1)[0]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")]
    return {cells[0]: cells[3].split() for cells in rows}


def test_the_first_sentences_of_the_page_are_what_its_tables_say() -> None:
    text = (systems.ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    frameworks, bare = verdicts(text, "other frameworks"), verdicts(text, "bare clients")
    for figure in ("CPU of a turn over HTTP, ms", "first word of a streamed reply, ms"):
        assert frameworks[figure][2] == "better"
        assert bare[figure][2] == "worse"
    assert frameworks["cost of a turn, no cache"][2] == "worse"
    assert 1.5 <= float(frameworks["cost of a turn, no cache"][0]) <= 2.5
    cached = frameworks["cost of a turn, prefixes cached"]
    assert cached[2] == "better" or float(cached[0]) < float(
        frameworks["cost of a turn, no cache"][0]
    )


def test_the_page_is_written_again_from_the_figures_that_were_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "KEPT", tmp_path / "beside.json")
    with pytest.raises(SystemExit):
        command.main(["--again"])
    assert "measure once without --again" in capsys.readouterr().err
    kept = {
        "results": {"long": LONG},
        "versions": {"llm_fsm": "1.2"},
        "machine": ["a processor"],
        "runs": 3,
    }
    command.KEPT.write_text(json.dumps(kept), encoding="utf-8")
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "python", lambda _: "true")
    command.main(["--again"])
    assert (tmp_path / "docs" / "benchmarks.md").read_text(encoding="utf-8") == page(
        {"long": LONG}, {"llm_fsm": "1.2"}, ["a processor"], runs=3
    )


def test_wins_and_losses_are_ordered_by_size_with_frameworks_apart_from_bare_clients() -> None:
    results: dict[str, dict[str, Row]] = {
        "turns": {
            "llm_fsm": {"cpu_ms": 0.4},
            "raw aiohttp": {"cpu_ms": 0.1},
            "Burr": {"cpu_ms": 1.6},
            "X": {"cpu_ms": 2.0},
        },
        "many1000": {
            "llm_fsm": {"turns_per_s": 100},
            "Burr": {"turns_per_s": 200},
            "X": {"failed": "no end"},
        },
    }
    frameworks = compared(results, bare=False).splitlines()[2:]
    assert [line.split(" | ")[2:4] for line in frameworks] == [
        ["1.6 (Burr)", "4.0 times better"],
        ["200 (Burr)", "2.0 times worse"],
    ]
    assert "0.1 (raw aiohttp) | 4.0 times worse" in compared(results, bare=True)


def test_a_reply_is_decoded_strictly_where_the_schema_asks_for_it() -> None:
    update = {
        "type": "object",
        "properties": {
            "name": {"type": ["string", "null"]},
            "_clear": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["name", "_clear"],
        "additionalProperties": False,
    }
    schema = {
        "type": "object",
        "properties": {
            "update": update,
            "later": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["update", "later"],
    }
    said = '{"more": 1, "update": {"unknown": 2}}'
    strict = {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"strict": True, "schema": schema},
        }
    }
    assert (
        decoded(said, strict)
        == '{"update": {"name": null, "_clear": []}, "later": null, "more": 1}'
    )
    assert decoded(said, {}) == said


def test_a_strict_list_of_pairs_is_filled_from_an_object() -> None:
    pair = {
        "anyOf": [
            {"type": "object", "properties": {"key": {"enum": [key]}, "value": {"type": kind}}}
            for key, kind in (("age", "integer"), ("name", "string"))
        ]
    }
    schema = {"type": "object", "properties": {"update": {"type": "array", "items": pair}}}
    strict = {"response_format": {"json_schema": {"strict": True, "schema": schema}}}
    assert (
        decoded('{"update": {"name": "Ada"}}', strict)
        == '{"update": [{"key": "name", "value": "Ada"}]}'
    )


def test_a_cache_serves_by_each_rule_and_a_token_of_the_reply_costs_five() -> None:
    row = {"prompt_tokens": 1500, "lcp_best_tokens": 1200, "completion_tokens": 10}
    found = {rule: units(row, served) for rule, served in RULES.items()}
    assert found == {"any": 1550 - 1080, "steps": 1550 - 0.9 * 1152, "none": 1550}
    assert units({**row, "lcp_best_tokens": 1000}, RULES["steps"]) == 1550


def test_every_printed_figure_counts_and_one_that_looks_the_same_is_not_ahead() -> None:
    rows: dict[str, Row] = {
        "llm_fsm": {
            "calls": 1.0,
            "prompt": 900.4,
            "cached": 82.4,
            "completion": 40.0,
            "right": True,
        },
        "llm_fsm, sync": {
            "calls": 1.0,
            "prompt": 905.0,
            "cached": 82.0,
            "completion": 41.0,
            "right": True,
        },
        "llm-fsm 0.1.1 (seed era)": {
            "calls": 1.0,
            "prompt": 900.1,
            "cached": 90.0,
            "completion": 33.0,
            "right": False,
        },
        "other": {
            "calls": 1.001,
            "prompt": 1000.0,
            "cached": 82.3,
            "completion": 18.0,
            "right": True,
        },
    }
    title = SECTIONS["tokens"].title
    assert not_first({"tokens": rows}).splitlines()[2:] == [
        f"| {title} | % in a prefix seen before | llm-fsm 0.1.1 (seed era) (90) | 82 |",
        f"| {title} | tokens of the reply | other (18), llm-fsm 0.1.1 (seed era) (33) | 40 |",
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["nosuch"], "unknown section 'nosuch'; there are stream; durable_turns"),
        (["--only", "nosuch"], "unknown system 'nosuch'; there are llm_fsm; llm_fsm, sync"),
        (["--runs", "0", "stub"], "argument --runs: 0 is too few; at least 1"),
        (["--conversations", "-1"], "argument --conversations: -1 is too few; at least 1"),
    ],
)
def test_a_wrong_argument_is_told_before_anything_is_installed(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        command, "install", lambda environment: pytest.fail(f"installs {environment}")
    )
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


def test_what_keeping_takes_is_the_median_of_the_runs_that_did_not_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    took = iter([9.0, FAILED, 3.0, 4.0])

    def worker(*_: object, store: bool, pinned: bool = True, **__: object) -> Row:
        found = next(took) if store and pinned else 1.5 if store else 1.0
        return (
            found
            if isinstance(found, dict)
            else {"ms_at": {"10": found}, "store_bytes_at": {"500": 2**20}}
        )

    monkeypatch.setattr(Bench, "worker", worker)
    bench = Bench(
        Server(0), [system for system in SYSTEMS if system.durable][:1], runs=4, conversations=1
    )
    assert list(sections.durable(bench).values()) == [{"more_10": 3.0, "mb": 1.0, "free_10": 0.5}]


def test_without_the_fake_server_nothing_else_is_installed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        command, "install", lambda environment: asked.append(environment) or "no index"
    )
    with pytest.raises(SystemExit, match="3"):
        command.main(["stub"])
    assert asked == ["server"]
    assert "nothing is measured without it: no index" in capsys.readouterr().err


def test_where_no_system_can_be_installed_nothing_is_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        command, "install", lambda environment: None if environment == "server" else "no index"
    )
    monkeypatch.setattr(command, "serving", lambda: pytest.fail("starts a server"))
    with pytest.raises(SystemExit, match="3"):
        command.main(["stub", "--only", "Burr"])
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "burr cannot be installed and is left out: no index",
        "none of the systems can be installed, so nothing is measured",
    ]


def test_an_interrupted_run_says_so_in_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(environment: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "install", interrupted)
    with pytest.raises(SystemExit, match="130"):
        command.main(["stub"])
    assert capsys.readouterr().err.endswith("\ninterrupted; docs/benchmarks.md stays as it was\n")


def test_an_environment_that_was_not_finished_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systems, "ENVIRONMENTS", tmp_path)
    monkeypatch.setattr(systems, "PACKAGES", {"some": ("pip",)})
    broken = tmp_path / "some" / "bin" / "python"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    assert systems.install("some") is None
    assert (tmp_path / "some" / "installed").exists()


def test_why_no_environment_can_be_made_is_said_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systems, "ENVIRONMENTS", tmp_path / "file")
    (tmp_path / "file").write_text("")
    reason = systems.install("burr")
    assert reason is not None
    assert "file" in reason
    assert "\n" not in reason


def test_a_server_that_does_not_start_ends_the_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_process, "python", lambda environment: "false")
    with (
        pytest.raises(SystemExit, match="ended with exit code 1 before it answered"),
        server_process.serving(),
    ):
        pytest.fail("measures without a server")


def test_what_a_worker_says_that_fails_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    says = tmp_path / "says"
    says.write_text("#!/bin/sh\necho one >&2; echo 'two | three' >&2; exit 1\n")
    says.chmod(0o755)
    monkeypatch.setattr(sections, "python", lambda environment: str(says))
    bench = Bench(Server(0), SYSTEMS[:1], runs=1, conversations=1)
    found = {"raw": bench.worker(SYSTEMS[0], "turns")}
    assert found == {"raw": {"failed": "two | three"}}
    assert "| raw | failed: two / three |" in markdown(SECTIONS["stub"], found)


def test_a_store_of_a_worker_that_is_killed_lies_where_its_caller_removes_it(
    tmp_path: Path,
) -> None:
    for name in ("work", "temporary", "modules"):
        (tmp_path / name).mkdir()
    (tmp_path / "modules" / "psutil.py").write_text("class Process: ...\n")
    paths = [str(tmp_path / "modules"), str(systems.ROOT / "src")]
    environment = {
        **os.environ,
        "TMPDIR": str(tmp_path / "temporary"),
        "PYTHONPATH": os.pathsep.join(paths),
    }
    options = {
        "base_url": "http://127.0.0.1:9/v1",
        "stub": True,
        "store": True,
        "turns": 10**9,
        "seconds": 60,
    }
    command = [
        sys.executable,
        str(systems.HERE / "worker.py"),
        "ours:Async",
        "long",
        json.dumps(options),
    ]
    with subprocess.Popen(
        command, cwd=tmp_path / "work", env=environment, stderr=subprocess.PIPE
    ) as worker:
        try:
            while not list(tmp_path.glob("*/beside-*/form.db")):
                assert worker.poll() is None, worker.stderr and worker.stderr.read()
                time.sleep(0.05)
        finally:
            worker.kill()
    assert not list((tmp_path / "temporary").iterdir())


def test_a_processor_that_linux_does_not_name_is_named_by_its_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "CPUINFO", "/nosuch/cpuinfo")
    assert command._processor()
