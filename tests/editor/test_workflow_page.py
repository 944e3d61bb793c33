"""A workflow of version 2.0 in the page: key results and tools in forms, and Python that runs."""

import json
import subprocess
import sys
from difflib import unified_diff
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from studio_page import opened, write

REPORT = """\
{
  "version": "2.0",
  "objective": "Research and report",
  "x-team": {"mail":"a@b.c"},
  "states": {
    "research": {
      "objective": "Gather information on the topic",
      "key_results": [
        {"name": "length", "description": "At least 20 chars", "check": "lambda o: len(str(o)) > 20"},
        {"name": "sourced", "description": "Cites real sources", "check": null}
      ],
      "tools": ["search"],
      "max_retries": 2,
      "is_initial": true,
      "is_final": false
    },
    "writing": {
      "objective": "Write a structured report",
      "key_results": [],
      "tools": [],
      "max_retries": 0,
      "is_initial": false,
      "is_final": true
    }
  },
  "transitions": {
    "research": "writing"
  },
  "graph_layout": {
    "research": {"x": 0, "y": 0},
    "writing": {"x": 320, "y": 40}
  }
}
"""
RUN = """\
import importlib.util, json, sys
from llm_fsm.llm.scripted import ScriptedLLM

spec = importlib.util.spec_from_file_location("report", sys.argv[1])
report = importlib.util.module_from_spec(spec)
spec.loader.exec_module(report)
judge = ScriptedLLM([{"sourced": True, "short": True}])
workflow = report.build(ScriptedLLM(["a text of more than 20 letters", "# The report"]), validator_llm=judge)
result = workflow.run("quantum computing")
met = [sorted(row.key_results_met) for row in result.history]
tools = [getattr(tool, "name", getattr(tool, "__name__", "")) for tool in workflow.states["research"].tools]
print(json.dumps({"output": result.history[-1].output, "met": met, "tools": tools}))
"""


@pytest.fixture
def report(folder: Path) -> Path:
    """A small workflow as document 003 exports it, fresh."""
    for path in folder.iterdir():
        path.unlink()
    return write(folder / "report.json", REPORT)


def state_form(page: Page, name: str) -> Locator:
    page.get_by_role("navigation", name="Views").get_by_role("button", name="Outline").click()
    page.get_by_role("list", name="States").get_by_role("button").filter(
        has_text=name
    ).first.click()
    return page.get_by_role("region", name=f"State {name}")


def edited(page: Page) -> None:
    """Change a key result, add another one, and name a second tool."""
    form = state_form(page, "research")
    second = form.get_by_role("group", name="key results 2", exact=True)
    second.get_by_label("description").fill("Cites two real sources")
    page.keyboard.press("Tab")
    expect(page.get_by_text("Change description")).to_be_visible()
    form.get_by_role("button", name="Add to key results").click()
    third = form.get_by_role("group", name="key results 3", exact=True)
    third.get_by_label("name").fill("short")
    third.get_by_label("description").fill("It is short")
    page.keyboard.press("Tab")
    form.get_by_label("tools").fill("fetch")
    page.keyboard.press("Enter")
    expect(form.get_by_role("button", name="Remove fetch")).to_be_visible()


def test_key_results_and_tools_are_edited_in_forms_and_only_those_lines_differ(
    browser: Browser, address: str, report: Path
) -> None:
    with opened(browser, address, "report.json") as page:
        expect(page.get_by_role("group", name="State research, works.")).to_be_visible()
        edited(page)
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_text("Saved report.json")).to_be_visible()
    lines = list(
        unified_diff(
            REPORT.splitlines(), report.read_text(encoding="utf-8").splitlines(), lineterm="", n=0
        )
    )
    taken = [line[1:].strip() for line in lines[2:] if line.startswith("-")]
    brought = [line[1:].strip() for line in lines[2:] if line.startswith("+")]
    assert taken == [
        '{"name": "sourced", "description": "Cites real sources", "check": null}',
        '"tools": ["search"],',
    ]
    assert brought == [
        '{"name": "sourced", "description": "Cites two real sources", "check": null},',
        '{"name": "short", "description": "It is short"}',
        '"tools": ["search", "fetch"],',
    ]


def test_the_exported_python_runs(
    browser: Browser, address: str, report: Path, tmp_path: Path
) -> None:
    with opened(browser, address, "report.json") as page:
        edited(page)
        with page.expect_download() as waiting:
            page.get_by_label("Export").select_option("python")
        assert waiting.value.suggested_filename == "report.py"
        program = tmp_path / "report.py"
        waiting.value.save_as(program)
    command = [sys.executable, "-c", RUN, str(program)]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["output"] == "# The report"
    assert told["met"][0] == ["length", "short", "sourced"]
    assert told["tools"] == ["search", "fetch"]


def test_a_workflow_that_is_not_complete_says_why_it_is_not_exported(
    browser: Browser, address: str, report: Path
) -> None:
    write(report, REPORT.replace('"is_initial": true', '"is_initial": false'))
    with opened(browser, address, "report.json") as page:
        page.get_by_label("Export").select_option("python")
        expect(page.get_by_role("alert")).to_contain_text("no initial state: set is_initial on one")
        form = state_form(page, "research")
        form.get_by_label("is initial").check()
        expect(page.get_by_text("Change is initial")).to_be_visible()
        with page.expect_download():
            page.get_by_label("Export").select_option("python")
