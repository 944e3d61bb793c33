"""Files of the studio: opened and saved with their bytes, and nothing outside of the folder."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from llm_fsm.documents.discovery import definition_paths

TEXT = '// a comment\n{"name": "a", "initial_state": "s", "states": {"s": {"reply": "Hi"}},\n "x-own": [1,  2] }'


def test_open_and_save_give_the_same_bytes(page):
    data = TEXT.replace("\n", "\r\n").encode()
    (page.folder / "a.json").write_bytes(b"\xef\xbb\xbf" + data)
    opened = page.get("/file", path="a.json")
    assert opened["text"].encode() == data
    body = {"path": "a.json", "text": opened["text"], "base": opened["sha256"]}
    assert page.put("/file", body)["unchanged"]
    assert (page.folder / "a.json").read_bytes() == b"\xef\xbb\xbf" + data


def test_every_shipped_definition_opens_with_its_states(page):
    for name, path in definition_paths().items():
        (page.folder / f"{name}.json").write_bytes(path.read_bytes())
    listed = {entry["path"]: entry["kind"] for entry in page.get("/files")["files"]}
    assert listed == {f"{name}.json": "definition" for name in definition_paths()}
    for path in list(listed)[:3]:
        opened = page.get("/file", path=path)
        drawn = [node["id"] for node in opened["checked"]["graph"]["nodes"]]
        assert drawn == list(json.loads((page.folder / path).read_text())["states"])


def test_a_file_that_changed_meanwhile_is_not_overwritten(page):
    first = page.put("/file", {"path": "a.json", "text": TEXT, "base": None})
    (page.folder / "a.json").write_text("{}")
    body = {"path": "a.json", "text": TEXT + "\n", "base": first["sha256"]}
    problem = page.put("/file", body, status=409)
    assert problem["conflict"] == {
        "path": "a.json",
        "text": "{}",
        "sha256": hashlib.sha256(b"{}").hexdigest(),
    }
    assert (page.folder / "a.json").read_text() == "{}"
    page.put("/file", {**body, "overwrite": True})
    assert (page.folder / "a.json").read_text() == TEXT + "\n"


def test_a_file_that_was_deleted_meanwhile_is_told(page):
    first = page.put("/file", {"path": "a.json", "text": TEXT, "base": None})
    (page.folder / "a.json").unlink()
    problem = page.put(
        "/file", {"path": "a.json", "text": "{}", "base": first["sha256"]}, status=409
    )
    assert problem["conflict"]["text"] is None


def test_a_read_only_file_says_so(page):
    first = page.put("/file", {"path": "a.json", "text": TEXT, "base": None})
    # nothing is read-only for root; a folder in the place of the file is, for everybody
    if os.geteuid() == 0:
        (page.folder / "b.json").mkdir()
        problem = page.put("/file", {"path": "b.json", "text": "{}", "base": None}, status=422)
        assert "no regular file" in problem["detail"]
        return
    (page.folder / "a.json").chmod(0o400)
    problem = page.put(
        "/file", {"path": "a.json", "text": "{}", "base": first["sha256"]}, status=403
    )
    assert "read-only" in problem["detail"]


def test_two_windows_on_one_file_cannot_overwrite_each_other(page):
    first = page.put("/file", {"path": "a.json", "text": "{}", "base": None})
    one = page.put("/file", {"path": "a.json", "text": '{"a": 1}', "base": first["sha256"]})
    page.put("/file", {"path": "a.json", "text": '{"b": 1}', "base": first["sha256"]}, status=409)
    page.put("/file", {"path": "a.json", "text": '{"b": 1}', "base": one["sha256"]})


@pytest.mark.parametrize(
    "path",
    [
        "../a.json",
        "/etc/a.json",
        "b/../../a.json",
        "./a.json",
        ".git/a.json",
        "a\\b.json",
        "out.json",
        "in/a.json",
    ],
)
def test_no_path_leads_out_of_the_folder(page, path):
    outside = page.folder.parent / "a.json"
    outside.write_text("{}")
    (page.folder / "out.json").symlink_to(outside)
    (page.folder / "in").symlink_to(page.folder.parent)
    for answer in (
        page.client.get("/api/file", params={"path": path}),
        page.client.put("/api/file", json={"path": path, "text": "[]", "overwrite": True}),
    ):
        assert answer.status_code in (403, 422), path
    assert outside.read_text() == "{}"


def test_requests_of_others_are_refused(page):
    for headers, status in (
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Host": "evil.example"}, 403),
        ({"Origin": "https://evil.example"}, 403),
    ):
        answer = page.client.put(
            "/api/file", json={"path": "a.json", "text": "{}"}, headers=headers
        )
        assert answer.status_code == status, headers
        assert "set-cookie" not in answer.headers
    assert list(page.folder.iterdir()) == []


def test_text_that_is_no_json_opens_at_the_fault(page):
    (page.folder / "a.json").write_text('{\n "é😀": tru\n}')
    checked = page.get("/file", path="a.json")["checked"]
    [found] = checked["findings"]
    assert (checked["is_json"], found["line"], found["column"]) == (False, 2, 8)
    assert found["offset"] == 2 + 8  # the emoji is two units of UTF-16


def test_faults_are_marked_on_state_and_edge(page):
    document = {
        "name": "a",
        "initial_state": "s",
        "states": {"s": {"purpose": "Ask", "transitions": [{"target_state": "gone"}]}},
    }
    checked = page.post("/check", {"path": "a.json", "text": json.dumps(document)})
    [edge] = checked["graph"]["edges"]
    assert (edge["pointer"], edge["level"], edge["target"]) == (
        "/states/s/transitions/0",
        "error",
        "gone",
    )
    kinds = {node["id"]: (node["kind"], node["level"]) for node in checked["graph"]["nodes"]}
    assert kinds == {"s": ("converse", "error"), "gone": ("unknown", None)}
    assert "error" in {found["level"] for found in checked["findings"] if found["state"] == "s"}


def test_positions_stand_beside_the_file_one_state_a_line(page):
    page.put("/file", {"path": "a.json", "text": TEXT, "base": None})
    points = {"z": {"x": 3, "y": -4}, "a": {"x": 10, "y": 20}}
    page.put("/layout", {"path": "a.json", "positions": points})
    assert (page.folder / "a.json").read_text() == TEXT
    kept = (page.folder / "a.layout.json").read_text()
    assert kept == '{\n  "positions": {\n    "a": [10, 20],\n    "z": [3, -4]\n  }\n}\n'
    assert page.get("/file", path="a.json")["layout"]["positions"] == points
    assert [entry["path"] for entry in page.get("/files")["files"]] == ["a.json"]


def test_a_file_of_five_megabytes_opens_and_saves(page):
    text = json.dumps(
        {"name": "big", "initial_state": "s", "states": {"s": {"reply": "x" * 5_000_000}}}
    )
    page.put("/file", {"path": "big.json", "text": text, "base": None})
    assert page.get("/file", path="big.json")["text"] == text


def test_the_openapi_document_has_every_shape_of_the_contract(page):
    document = page.client.get("/openapi.json").json()
    shapes = document["components"]["schemas"]
    assert {"Opened", "CheckedText", "Streamed", "FileConflict", "Problem"} <= set(shapes)
    assert shapes["SaveBody"]["properties"]["base"]["description"]


def test_folders_that_are_links_are_not_listed(page, tmp_path: Path):
    (page.folder / "loop").symlink_to(page.folder)
    page.put("/file", {"path": "a.json", "text": TEXT, "base": None})
    assert [entry["path"] for entry in page.get("/files")["files"]] == ["a.json"]


def test_graph_comes_without_waiting_for_the_findings(page):
    states = {"a": {"purpose": "A", "transitions": [{"target_state": "z"}]}}
    broken = {"name": "b", "initial_state": "a", "states": states}
    (page.folder / "broken.json").write_text(json.dumps(broken), encoding="utf-8")
    whole = page.get("/file", path="broken.json")["checked"]
    early = page.get("/file", path="broken.json", findings=False)["checked"]
    assert whole["findings"]
    assert early["findings"] == []
    assert [one["id"] for one in early["graph"]["nodes"]] == [
        one["id"] for one in whole["graph"]["nodes"]
    ]


def test_a_picture_has_the_beginning_of_a_long_text(page):
    long = "x" * 2_000
    rule = {"logic": {"==": [{"var": "city"}, long]}}
    way = {"target_state": "t", "description": long, "conditions": [rule]}
    states = {
        "s": {"purpose": long, "reply": long, "transitions": [way]},
        "t": {"description": long},
    }
    text = json.dumps({"name": "a", "initial_state": "s", "states": states})
    graph = page.post("/check", {"path": "a.json", "text": text})["graph"]
    assert [len(node["purpose"]) for node in graph["nodes"]] == [300, 300]
    [edge] = graph["edges"]
    assert len(edge["label"]) == len(edge["words"]) == 300
    assert page.post("/check", {"path": "a.json", "text": text})["value"]["states"] == states
