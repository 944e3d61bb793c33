"""Conditions, schemas, templates, differences and exports of texts that need not be saved."""

import json
import shutil
import subprocess
import sys

import pytest

from llm_fsm.cli.templates import files
from llm_fsm.documents.discovery import definition_paths
from llm_fsm.editor.folder import Folder
from llm_fsm.editor.studio import Studio

WORK = {
    "version": "2.0",
    "objective": "Report",
    "states": {
        "research": {
            "objective": "Find facts",
            "key_results": [{"name": "long", "check": {">": [{"len": [{"var": "output"}]}, 3]}}],
            "is_initial": True,
        },
        "writing": {"objective": "Write", "key_results": [], "is_final": True},
    },
    "transitions": {"research": {"more": "research", "default": "writing"}, "writing": None},
}


def test_a_condition_is_read_in_every_form_and_tried(page):
    answer = page.post("/condition", {"expression": "age >= 18 && !banned", "context": {"age": 20}})
    assert answer["logic"] == {"and": [{">=": [{"var": "age"}, 18]}, {"!": [{"var": "banned"}]}]}
    assert (answer["holds"], answer["error"]) == (True, None)
    young = page.post("/condition", {"logic": {">=": [{"var": "age"}, 18]}, "context": {"age": 3}})
    assert (young["expression"], young["holds"]) == ("age >= 18", False)
    assert page.post("/condition", {"expression": "age >= 18"})["holds"] is None
    assert page.post("/condition", {"logic": {"nope": 1}, "context": {}})["faults"]
    assert page.post("/condition", {"expression": "age >="})["faults"]


def test_forms_have_the_schema_of_definitions(page):
    assert page.get("/schema")["type"] == "object"


def test_an_empty_folder_becomes_a_bot_that_can_be_talked_to(tmp_path, serving):
    with serving(Studio(folder=Folder(tmp_path), new_files=files)) as page:
        assert {"starter", "order"} <= {one["name"] for one in page.get("/templates")}
        made = page.post("/new", {"name": "my-booking", "template": "starter"})
        assert made["files"] == ["my-booking.json", "my-booking.test.json"]
        assert "exists already" in page.post("/new", {"name": "my-booking"}, status=409)["detail"]
        assert page.post("/new", {"name": "../x"}, status=422)
        opened = page.get("/file", path="my-booking.json")
        assert [one for one in opened["checked"]["findings"] if one["level"] == "error"] == []
        talk = page.post(
            "/talks", {"path": "my-booking.json", "text": opened["text"], "model": "offline"}
        )
        assert talk["turns"][0]["text"]
        assert page.post("/tests", {"path": "my-booking.json"})["failed"] == 0


def test_a_difference_is_told_by_meaning_and_as_text(page):
    text = definition_paths()["greeting"].read_text()
    page.put("/file", {"path": "greeting.json", "text": text, "base": None})
    changed = text.replace('"version": "1.0"', '"version": "1.1"')
    new = changed if changed != text else text.replace('"name": "greeting"', '"name": "hello"')
    answer = page.post("/diff", {"path": "greeting.json", "text": new, "other": "greeting.json"})
    assert answer["changes"]
    assert len([line for line in answer["unified"].splitlines() if line[:1] in "+-"]) == 4
    assert (
        page.post("/diff", {"path": "greeting.json", "text": "{", "before": text})["changes"]
        is None
    )
    assert (
        page.post("/diff", {"path": "greeting.json", "text": text})["reason"]
        == "this file is in no commit yet"
    )


def test_a_text_is_compared_with_the_last_commit(page):
    text = definition_paths()["greeting"].read_text()
    page.put("/file", {"path": "greeting.json", "text": text, "base": None})
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(page.folder)]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *command], check=True)
    assert page.get("/settings")["has_git"]
    answer = page.post("/diff", {"path": "greeting.json", "text": text + "\n"})
    assert (answer["against"], answer["before"], answer["changes"]) == ("HEAD", text, [])


def test_a_workflow_is_exported_as_python_that_runs(page, tmp_path):
    body = {"path": "work.json", "text": json.dumps(WORK), "form": "python"}
    program = page.post("/export", body)
    assert program["name"] == "work.py"
    (tmp_path / "work.py").write_text(program["text"])
    told = "import work; from llm_fsm.testing import ScriptedLLM; "
    told += "print(work.build(ScriptedLLM(['facts', 'a text'])).run('x').history[-1].output)"
    done = subprocess.run(
        [sys.executable, "-c", told], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "a text", done.stderr


@pytest.mark.parametrize("form", ["mermaid", "dot", "json", "procedure"])
def test_a_definition_is_exported(page, form):
    text = definition_paths()["order"].read_text()
    found = page.post("/export", {"path": "order.json", "text": text, "form": form})
    assert found["text"].strip()
    if form != "procedure":
        assert page.post("/export", {"path": "w.json", "text": json.dumps(WORK), "form": form})[
            "text"
        ].strip()


@pytest.mark.parametrize("form", ["svg", "png"])
def test_pictures_need_graphviz_and_say_so(page, form):
    body = {"path": "w.json", "text": json.dumps(WORK), "form": form}
    if shutil.which("dot") is None:
        assert "apt-get install graphviz" in page.post("/export", body, status=503)["detail"]
    else:
        assert page.post("/export", body)["base64" if form == "png" else "text"]


def test_what_cannot_be_exported_says_why(page):
    text = definition_paths()["order"].read_text()
    assert (
        "Machine.from_file"
        in page.post("/export", {"path": "order.json", "text": text, "form": "python"}, status=422)[
            "detail"
        ]
    )
    assert (
        "no JSON"
        in page.post("/export", {"path": "a.json", "text": "{", "form": "json"}, status=422)[
            "detail"
        ]
    )


def test_the_command_says_its_address_first(tmp_path):
    command = [sys.executable, "-m", "llm_fsm.editor", str(tmp_path), "--port", "0", "--no-browser"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        line = process.stdout.readline()
        process.terminate()
        process.communicate(timeout=30)
    assert line.startswith("http://127.0.0.1:")
    assert "/#token=" in line


def test_the_command_refuses_what_is_no_folder_of_definitions(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    for path in (tmp_path / "gone", tmp_path / "a.txt"):
        done = subprocess.run(
            [sys.executable, "-m", "llm_fsm.editor", str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert str(path) in done.stderr
