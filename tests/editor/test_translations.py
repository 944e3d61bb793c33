"""Texts in further languages over the API: their list, and what a save writes into their files."""

import json
from pathlib import Path

import pytest

BYE = {
    "name": "greeter",
    "languages": ["de", "tr"],
    "initial_state": "bye",
    "states": {"bye": {"kind": "final", "purpose": "Say goodbye", "reply": "Goodbye!"}},
}
TEXT = json.dumps(BYE, indent=2)
REPLY = "/states/bye/reply"
PLACE = "/texts/de/~1states~1bye~1reply"


def translation(text: str, source: str = "Goodbye!", *, fuzzy: bool = False) -> dict[str, object]:
    return {"source": source, "text": text, "fuzzy": fuzzy}


def saved(page, translations, *, text: str = TEXT, status: int = 200):
    """Save a definition with translations over what is on disk."""
    body = {"path": "greeter.json", "text": text, "overwrite": True, "translations": translations}
    return page.put("/file", body, status=status)


def german(page, text: str = TEXT, translations=None) -> dict[str, dict[str, object]]:
    """Return the German texts by pointer, as the page has them."""
    body = {"path": "greeter.json", "text": text, "translations": translations or {}}
    rows = page.post("/texts", body)["rows"]
    return {row["pointer"]: row["translations"]["de"] for row in rows}


def codes(page, translations) -> list[tuple[str, str]]:
    body = {"path": "greeter.json", "text": TEXT, "translations": translations}
    found = page.post("/check", body)["findings"]
    return [(one["code"], one["pointer"]) for one in found if one["code"].startswith("W41")]


def test_all_texts_come_with_their_translations(page):
    found = page.post("/texts", {"path": "greeter.json", "text": TEXT})
    assert (found["language"], found["languages"]) == ("en", ["de", "tr"])
    assert {row["pointer"]: row["text"] for row in found["rows"]} == {
        REPLY: "Goodbye!",
        "/states/bye/purpose": "Say goodbye",
    }
    assert german(page)[REPLY] == translation("")
    edits = {PLACE: translation("Tschüs!")}
    assert german(page, translations=edits)[REPLY] == translation("Tschüs!")
    assert not (page.folder / "greeter.de.po").exists()


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"name": "x"}', '{"cases": []}'])
def test_a_text_that_is_no_definition_has_no_texts(page, text: str):
    found = page.post("/texts", {"path": "greeter.json", "text": text})
    assert (found["languages"], found["rows"]) == ([], [])


def test_a_save_writes_the_files_of_what_was_edited_alone(page):
    answer = saved(page, {PLACE: translation("Tschüs!")})
    assert answer["others"] == ["greeter.de.po"]
    assert german(page)[REPLY] == translation("Tschüs!")
    assert not (page.folder / "greeter.tr.po").exists()
    assert saved(page, {})["others"] == []


def test_entries_that_others_changed_meanwhile_stay(page):
    saved(page, {PLACE: translation("Tschüs!")})
    path = page.folder / "greeter.de.po"
    entries = path.read_text(encoding="utf-8").split("\n\n")
    others = [one for one in entries if "Say goodbye" not in one]
    mine = 'msgctxt "/states/bye/purpose"\nmsgid "Say goodbye"\nmsgstr "Verabschieden"\n'
    path.write_text("\n\n".join([*others, mine]), encoding="utf-8")
    saved(page, {PLACE: translation("Servus!")})
    assert german(page)[REPLY] == translation("Servus!")
    assert german(page)["/states/bye/purpose"]["text"] == "Verabschieden"


def test_a_translation_of_a_text_that_is_another_one_now_is_kept_as_fuzzy(page):
    changed = TEXT.replace("Goodbye!", "Goodbye, friend!")
    saved(page, {PLACE: translation("Tschüs!")}, text=changed)
    new = translation("Tschüs!", "Goodbye, friend!", fuzzy=True)
    assert german(page, changed)[REPLY] == new
    assert "Tschüs!" in (page.folder / "greeter.de.po").read_text(encoding="utf-8")


def test_translations_follow_a_renamed_state(page):
    saved(page, {PLACE: translation("Tschüs!")})
    text = TEXT.replace('"bye"', '"end"')
    body = {"path": "greeter.json", "text": text, "overwrite": True}
    body["renamings"] = [{"kind": "state", "name": "bye", "to": "end"}]
    assert page.put("/file", body)["others"] == ["greeter.de.po"]
    assert german(page, text)[REPLY.replace("bye", "end")] == translation("Tschüs!")


def test_two_states_can_swap_their_names(page):
    both = {name: {"kind": "final", "reply": "Goodbye!"} for name in ("a", "b")}
    text = json.dumps({**BYE, "initial_state": "a", "states": both})
    places = [f"/texts/de/~1states~1{name}~1reply" for name in both]
    saved(page, dict(zip(places, map(translation, ["Tschüs!", "Servus!"]), strict=True)), text=text)
    body = {"path": "greeter.json", "text": text, "overwrite": True}
    swaps = [("a", "c"), ("b", "a"), ("c", "b")]
    body["renamings"] = [{"kind": "state", "name": old, "to": new} for old, new in swaps]
    page.put("/file", body)
    said = german(page, text)
    assert said["/states/a/reply"] == translation("Servus!")
    assert said["/states/b/reply"] == translation("Tschüs!")


def test_translations_are_saved_beside_an_unfinished_text(page):
    saved(page, {PLACE: translation("Tschüs!")})
    saved(page, {PLACE: translation("Servus!")}, text="{")
    assert german(page)[REPLY] == translation("Servus!")


def test_findings_count_what_is_not_saved_yet(page):
    saved(page, {PLACE: translation("Tschüs!"), "/texts/tr/~1states~1bye~1reply": translation("")})
    assert ("W415", "/states/bye/purpose") in codes(page, {})
    fuzzy = {PLACE: translation("Tschüs!", fuzzy=True)}
    assert ("W418", PLACE) in codes(page, fuzzy)
    assert ("W416", PLACE) in codes(page, {PLACE: translation("Tschüs, {{ name }}!")})
    purpose = {"/texts/de/~1states~1bye~1purpose": translation("Ende", "Say goodbye")}
    assert ("W415", "/states/bye/purpose") not in codes(page, purpose)


def test_nothing_is_saved_if_a_file_of_texts_refuses(page):
    saved(page, {PLACE: translation("Tschüs!")})
    path = page.folder / "greeter.de.po"
    path.write_text("Guten Tag\n", encoding="utf-8")
    answer = saved(page, {PLACE: translation("x")}, text="{}", status=422)
    assert "this is no gettext file" in answer["detail"]
    assert (page.folder / "greeter.json").read_text(encoding="utf-8") == TEXT


@pytest.mark.parametrize("tag", ["~1..~1..~1x", "~1x", "..~1x"])
def test_no_language_leads_out_of_the_folder(page, tmp_path: Path, tag: str):
    before = sorted(tmp_path.rglob("*"))
    saved(page, {f"/texts/{tag}/~1states~1bye~1reply": translation("x")}, status=422)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_link_out_of_the_folder_is_neither_read_nor_written(page, tmp_path: Path):
    outside = tmp_path / "outside.po"
    outside.write_text('msgid ""\nmsgstr ""\n', encoding="utf-8")
    saved(page, {})
    (page.folder / "greeter.de.po").symlink_to(outside)
    saved(page, {PLACE: translation("Tschüs!")}, status=422)
    assert outside.read_text(encoding="utf-8") == 'msgid ""\nmsgstr ""\n'


def test_half_a_character_is_refused_before_anything_is_written(page):
    answer = page.client.put(
        "/api/file",
        content=json.dumps(
            {"path": "greeter.json", "text": TEXT, "translations": {PLACE: translation("\ud800")}}
        ),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 422
    assert list(page.folder.iterdir()) == []
