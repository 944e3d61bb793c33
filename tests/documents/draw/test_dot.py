from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from drawn import documents
from llm_fsm.documents.draw.dot import START_ID, dot
from llm_fsm.documents.draw.extract import EVERYWHERE, Details, extract, light

graphviz = pytest.mark.skipif(
    shutil.which("dot") is None, reason="Graphviz is not installed (apt-get install graphviz)"
)


def run(form: str, text: str) -> str:
    done = subprocess.run(
        ["dot", f"-T{form}"], input=text.encode(), capture_output=True, check=False
    )
    assert (done.returncode, done.stderr.decode()) == (0, ""), text
    return done.stdout.decode()


def test_a_machine_as_a_digraph() -> None:
    document = {
        "name": 'The "shop"',
        "initial_state": "ask",
        "states": {
            "ask": {
                "purpose": "R&D \\N?",
                "transitions": [{"target_state": "end", "description": "done", "auto": True}],
            },
            "end": {"kind": "final"},
        },
    }
    text = dot(light(extract(document), ["end"]))
    assert text.splitlines()[0] == 'digraph "The \\"shop\\"" {'
    assert '  "ask" [label="ask\\nR&amp;D \\\\N?"]' in text.splitlines()
    assert '  "[*]" -> "ask"' in text.splitlines()
    assert '  "ask" -> "end" [label="done" arrowhead=vee auto=true]' in text.splitlines()
    assert 'peripheries=2 fillcolor="#ffe08a"' in text


@graphviz
@settings(max_examples=40)
@given(document=documents())
def test_graphviz_reads_any_label(document: dict[str, Any]) -> None:
    picture = extract(document, Details(keys=True))
    read = json.loads(run("json", dot(picture)))
    names = {item["_gvid"]: item["name"] for item in read["objects"]}
    assert {node.id for node in picture.nodes} <= set(names.values())
    found = Counter((names[edge["tail"]], names[edge["head"]]) for edge in read["edges"])
    start = [] if picture.initial is None else [(START_ID, picture.initial)]
    assert found == Counter([*((edge.source, edge.target) for edge in picture.edges), *start])
    labels = {item["name"]: item["label"] for item in read["objects"]}
    for node in picture.nodes:
        assert labels[node.id].split("\\n")[0] == node.id
    assert (EVERYWHERE in labels) == bool(picture.shared)


@graphviz
@settings(max_examples=15)
@given(document=documents())
def test_graphviz_draws_any_label_as_well_formed_svg(document: dict[str, Any]) -> None:
    root = ElementTree.fromstring(run("svg", dot(extract(document))))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
