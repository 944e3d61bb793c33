"""Renamings of a definition, which its conversation tests follow when it is saved."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from llm_fsm.editor.folder import Folder
from llm_fsm.editor.studio import Studio
from studio_page import opened

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "tests" / "conversations" / "shipped"
FLOW = """{
  "name": "shop",
  "initial_state": "ask",
  "context_schema": {"properties": {"city": {"type": "string"}}},
  "states": {
    "ask": {"purpose": "Ask", "transitions": [{"target_state": "pay"}]},
    "pay": {"reply": "Paid"}
  }
}
"""
TESTS = """{
  "definition": "shop.json", // ours
  "context": {"city":"pay"},
  "cases": [
    {"name": "pay", "steps": [{"say":  "pay", "reply": {"to": "pay"}, "expect": "pay"}]}
  ]
}
"""
TILL = {"kind": "state", "name": "pay", "to": "till"}


def put(page, path, text):
    return page.put("/file", {"path": path, "text": text, "base": None})["sha256"]


def shop(page, tests=TESTS):
    """Write a definition and its tests, and return what a save of it begins with."""
    base = put(page, "shop.json", FLOW)
    (page.folder / "shop.test.json").write_text(tests, encoding="utf-8")
    return {"path": "shop.json", "text": FLOW.replace('"pay"', '"till"'), "base": base}


def test_tests_follow_a_renamed_state_and_keep_their_other_bytes(page):
    body = shop(page)
    put(page, "other.test.json", TESTS.replace("shop.json", "other.json"))
    saved = page.put("/file", {**body, "renamings": [TILL]})
    assert saved["others"] == ["shop.test.json"]
    followed = TESTS.replace('"to": "pay"', '"to": "till"').replace(
        '"expect": "pay"', '"expect": "till"'
    )
    assert (page.folder / "shop.test.json").read_text(encoding="utf-8") == followed
    assert "other.json" in (page.folder / "other.test.json").read_text(encoding="utf-8")


def test_tests_follow_a_renamed_key(page):
    body = shop(page)
    text = FLOW.replace('"city"', '"town"')
    renaming = {"kind": "key", "name": "city", "to": "town"}
    page.put("/file", {**body, "text": text, "renamings": [renaming]})
    assert (page.folder / "shop.test.json").read_text(encoding="utf-8") == TESTS.replace(
        '"city"', '"town"'
    )


def test_tests_follow_what_they_are_on_disk_when_the_definition_is_saved(page):
    body = shop(page)
    changed = TESTS.replace("ours", "edited meanwhile")
    (page.folder / "shop.test.json").write_text(changed, encoding="utf-8")
    page.put("/file", {**body, "renamings": [TILL]})
    text = (page.folder / "shop.test.json").read_text(encoding="utf-8")
    assert "edited meanwhile" in text
    assert '"expect": "till"' in text


def test_a_name_that_was_typed_back_moves_no_test(page):
    body = shop(page)
    saved = page.put("/file", {**body, "text": FLOW + "\n", "renamings": [TILL]})
    assert saved["others"] == []
    assert (page.folder / "shop.test.json").read_text(encoding="utf-8") == TESTS


def test_nothing_is_saved_if_a_test_cannot_follow_or_the_definition_is_another_one(page):
    both = TESTS.replace('{"city":"pay"}', '{"city":"pay", "town": 1}')
    body = shop(page, both)
    text = FLOW.replace('"city"', '"town"')
    renamings = [{"kind": "key", "name": "city", "to": "town"}]
    problem = page.put("/file", {**body, "text": text, "renamings": renamings}, status=422)
    assert problem["detail"].startswith("shop.test.json cannot follow the renaming")
    page.put("/file", {**body, "base": "another", "renamings": [TILL]}, status=409)
    assert (page.folder / "shop.json").read_text(encoding="utf-8") == FLOW
    assert (page.folder / "shop.test.json").read_text(encoding="utf-8") == both


def own_tests(name: str) -> dict[str, Any]:
    """Return the shipped tests of a definition in its own language, which need no further files."""
    tests = json.loads((SHIPPED / f"{name}.test.json").read_text(encoding="utf-8"))
    cases = [one for one in tests["cases"] if "language" not in one.get("context", {})]
    return {**tests, "cases": cases}


@pytest.mark.parametrize("name", ["order", "support_desk", "quiz"])
def test_shipped_tests_pass_when_every_state_has_another_name(page, name):
    text = (ROOT / "fsm_definitions" / f"{name}.json").read_text(encoding="utf-8")
    base = put(page, f"{name}.json", text)
    tests = own_tests(name)
    (page.folder / f"{name}.test.json").write_text(
        json.dumps({**tests, "definition": f"{name}.json"})
    )
    before = page.post("/tests", {"path": f"{name}.json"})
    states = list(json.loads(text)["states"])
    gestures = [{"gesture": {"do": "rename_state", "id": one, "to": f"{one}_2"}} for one in states]
    patched = page.post("/patch", {"path": f"{name}.json", "text": text, "gestures": gestures})
    renamings = [{"kind": "state", "name": one, "to": f"{one}_2"} for one in states]
    body = {"path": f"{name}.json", "text": patched["text"], "base": base, "renamings": renamings}
    assert page.put("/file", body)["others"] == [f"{name}.test.json"]
    after = page.post("/tests", {"path": f"{name}.json"})
    assert after["reason"] == before["reason"]
    assert (after["passed"], after["failed"]) == (before["passed"], 0)
    assert after["passed"] > 0


def test_a_renaming_undone_and_made_again_reaches_the_tests_with_each_save(
    browser: Browser, serving_at, tmp_path: Path
) -> None:
    shutil.copy(ROOT / "fsm_definitions" / "order.json", tmp_path)
    tests = own_tests("order")
    file = tmp_path / "order.test.json"
    file.write_text(json.dumps({**tests, "definition": "order.json"}, indent=1), encoding="utf-8")
    before = file.read_bytes()
    state = next(iter(json.loads((tmp_path / "order.json").read_text(encoding="utf-8"))["states"]))
    with (
        serving_at(Studio(folder=Folder(tmp_path))) as address,
        opened(browser, address, "order.json") as page,
    ):

        def save() -> None:
            page.get_by_role("button", name="Save", exact=True).click()
            expect(page.get_by_text("Saved order.json, and order.test.json")).to_be_visible()

        page.get_by_role("navigation", name="Views").get_by_role("button", name="Outline").click()
        page.get_by_role("list", name="States").get_by_role("button").filter(
            has_text=state
        ).first.click()
        page.get_by_role("button", name="Rename").click()
        page.get_by_role("dialog").get_by_label("New name").fill("till_2")
        page.keyboard.press("Enter")
        expect(page.get_by_text(f"Rename {state} to till_2")).to_be_visible()
        save()
        page.get_by_role("button", name="Undo", exact=False).first.click()
        save()
        assert file.read_bytes() == before
        page.get_by_role("button", name="Redo", exact=False).first.click()
        save()
    assert b"till_2" in file.read_bytes()
    command = [sys.executable, "-m", "llm_fsm", "test", str(file)]
    played = subprocess.run(command, capture_output=True, text=True, check=False)
    assert played.returncode == 0, played.stdout + played.stderr
