"""Releases of the folder: one line each, on the first page and over the API."""

import json
from pathlib import Path

from playwright.sync_api import Browser, expect

from llm_fsm.documents.discovery import definition_paths
from llm_fsm.documents.loader import load
from studio_page import opened

RELEASE = {"release": "order", "stable": "order.json", "candidate": "order-2.json", "share": 0.1}
GREETER = definition_paths()["greeting"].read_text(encoding="utf-8")


def written(folder: Path, **changes: object) -> None:
    """Write a release and its two definitions."""
    (folder / "order.json").write_text(GREETER, encoding="utf-8")
    newer = json.loads(GREETER) | {"description": "Newer"}
    (folder / "order-2.json").write_text(json.dumps(newer), encoding="utf-8")
    release = json.dumps(RELEASE | changes)
    (folder / "order.release.json").write_text(release, encoding="utf-8")


def test_a_release_has_a_line_with_its_share_and_both_arms(page):
    written(page.folder)
    [row] = page.get("/files")["releases"]
    arms = [
        f"{arm} {name}"
        for arm, name in zip(("stable", "candidate"), ("order.json", "order-2.json"), strict=True)
    ]
    shas = [load(page.folder / name).sha256[:12] for name in ("order.json", "order-2.json")]
    assert row == {
        "path": "order.release.json",
        "name": "order",
        "state": "10 % of new conversations begin on the candidate",
        "arms": [f"{arm} {sha}" for arm, sha in zip(arms, shas, strict=True)],
    }


def test_a_release_says_that_a_guard_has_stopped_it_or_that_it_does_not_run(page):
    written(page.folder, share=0, stopped="errors: 4 are more than 3")
    assert page.get("/files")["releases"][0]["state"] == (
        "a guard has stopped it: errors: 4 are more than 3"
    )
    written(page.folder, candidate=None, share=0)
    [row] = page.get("/files")["releases"]
    assert row["state"] == "all new conversations begin on the stable definition"
    assert len(row["arms"]) == 1


def test_a_release_at_fault_says_why(page):
    written(page.folder, share=7)
    assert "share is the number 7" in page.get("/files")["releases"][0]["state"]
    written(page.folder, candidate="gone.json")
    assert page.get("/files")["releases"][0]["state"].startswith("gone.json: error: ")


def test_the_first_page_shows_the_releases_of_the_folder(
    browser: Browser, address: str, folder: Path
) -> None:
    written(folder)
    with opened(browser, address) as page:
        line = page.get_by_role("list", name="Releases").get_by_role("listitem")
        expect(line).to_have_count(1)
        expect(line).to_contain_text("order 10 % of new conversations begin on the candidate")
        expect(line).to_contain_text("candidate order-2.json")
        expect(line.get_by_role("button")).to_have_count(0)
