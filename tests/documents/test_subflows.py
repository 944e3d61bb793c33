"""Which definitions a machine calls: where they are found, and what keeps a machine from being
made.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from llm_fsm import DefinitionError, check, load
from llm_fsm.definition.models import Definition
from llm_fsm.definition.subflows import MAX_DEPTH, Flows
from llm_fsm.documents.subflows import gather

Document = dict[str, Any]


def calling(name: str, flow: str, **keys: Any) -> Document:
    state = {"kind": "subflow", "flow": flow, "transitions": [{"target_state": "end"}], **keys}
    return {"name": name, "initial_state": "go", "states": {"go": state, "end": {}}}


def leaf(name: str = "leaf", **keys: Any) -> Document:
    return {"name": name, "initial_state": "end", "states": {"end": {}}, **keys}


def written(folder: Path, files: dict[str, Document]) -> Path:
    for name, document in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(document, indent=1), encoding="utf-8")
    return folder / next(iter(files))


def found_in(folder: Path, files: dict[str, Document], **registered: Any) -> Flows:
    path = written(folder, files)
    return gather(load(path), file=path, registered=registered)


def fault_of(folder: Path, files: dict[str, Document], **registered: Any) -> Any:
    with pytest.raises(DefinitionError) as caught:
        found_in(folder, files, **registered)
    [finding] = caught.value.findings
    return finding


def test_files_are_named_by_their_path_from_the_first_ones_folder(tmp_path: Path) -> None:
    found = found_in(
        tmp_path,
        {
            "main.json": calling("main", "sub/b.json"),
            "sub/b.json": calling("b", "../c.json"),
            "c.json": leaf("c"),
        },
    )
    assert found.root.calls == {"go": "sub/b.json"}
    assert {name: flow.definition.name for name, flow in found.called.items()} == {
        "c.json": "c",
        "sub/b.json": "b",
    }
    assert found.called["sub/b.json"].calls == {"go": "c.json"}


def test_a_registered_name_is_a_file_a_mapping_or_a_definition(tmp_path: Path) -> None:
    file = written(
        tmp_path, {"there/pay.json": calling("pay", "more.json"), "there/more.json": leaf("more")}
    )
    whole = Definition.model_validate(leaf("whole"))
    for given, name in (
        (leaf("as data"), "as data"),
        (whole, "whole"),
        (file, "pay"),
        (str(file), "pay"),
    ):
        found = gather(Definition.model_validate(calling("main", "pay")), registered={"pay": given})
        assert found.called["pay"].definition.name == name
    assert list(found.called) == ["pay:more.json", "pay"]


@pytest.mark.parametrize(
    ("files", "name", "words"),
    [
        (
            {"main.json": calling("m", "nowhere.json")},
            "missing-flow",
            "nowhere.json' cannot be used: ",
        ),
        ({"main.json": calling("m", "/etc/x.json")}, "missing-flow", "is not a relative path"),
        (
            {"sub/main.json": calling("m", "../x.json"), "x.json": leaf()},
            "missing-flow",
            "leads out of the folder",
        ),
        (
            {"main.json": calling("m", "pya")},
            "missing-flow",
            "no definition is registered under the name 'pya'",
        ),
        ({"main.json": calling("m", "main.json")}, "subflow-recursion", "main.json → main.json"),
        (
            {"main.json": calling("m", "b.json"), "b.json": calling("b", "main.json")},
            "subflow-recursion",
            "main.json → b.json → main.json",
        ),
        (
            {"main.json": calling("m", "b.json"), "b.json": calling("b", "b.json")},
            "subflow-recursion",
            "main.json → b.json → b.json",
        ),
    ],
)
def test_what_keeps_a_machine_from_being_made_is_said_with_its_place(
    tmp_path: Path, files: dict[str, Document], name: str, words: str
) -> None:
    finding = fault_of(tmp_path, files, pay=leaf())
    assert finding.name == name
    assert words in finding.message
    assert (finding.level, finding.line, finding.pointer) == ("error", 7, "/states/go/flow")
    assert Path(finding.file).is_file()


def linked(folder: Path, flow: str) -> Path:
    """A folder with a machine whose call is a link out of it, to beside `folder / "real"`."""
    outside = written(folder, {"real/other.json": leaf()})
    path = written(folder / "bots", {"main.json": calling("m", flow)})
    (folder / "bots" / "linked.json").symlink_to(outside)
    (folder / "bots" / "tree").symlink_to(outside.parent)
    return path


@pytest.mark.parametrize("flow", ["linked.json", "tree/other.json"])
def test_no_link_leads_a_call_out_of_the_folder_tree(tmp_path: Path, flow: str) -> None:
    path = linked(tmp_path, flow)
    with pytest.raises(DefinitionError) as caught:
        gather(load(path), file=path)
    [finding] = caught.value.findings
    assert finding.name == "missing-flow"
    assert "a link leads out of the folder of " in finding.message
    [found] = [found for found in check(path) if found.level == "error"]
    assert (found.name, found.pointer) == ("missing-flow", "/states/go/flow")
    assert "a link leads out of the folder of " in found.message


def test_files_may_all_be_links_into_one_tree(tmp_path: Path) -> None:
    real = written(
        tmp_path, {"..data/main.json": calling("m", "sub/b.json"), "..data/sub/b.json": leaf()}
    ).parent
    for name in ("main.json", "sub"):
        (tmp_path / name).symlink_to(real / name)
    path = tmp_path / "main.json"
    assert set(gather(load(path), file=path).called) == {"sub/b.json"}
    (tmp_path / "away").mkdir()
    away = tmp_path / "away" / "main.json"
    away.symlink_to(real / "main.json")
    (tmp_path / "away" / "sub").symlink_to(real / "sub")
    assert set(gather(load(away), file=away).called) == {"sub/b.json"}
    assert not [found for found in check(away) if found.level == "error"]


def test_a_pipe_cannot_be_called_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "b.json")
    assert fault_of(tmp_path, {"main.json": calling("m", "b.json")}).message.endswith(
        "this is no regular file"
    )
    [found] = [found for found in check(tmp_path / "main.json") if found.level == "error"]
    assert found.message.endswith('b.json": this is no regular file')


def test_a_near_name_is_offered(tmp_path: Path) -> None:
    assert (
        fault_of(tmp_path, {"m.json": calling("m", "pya")}, pay=leaf()).hint
        == "did you mean 'pay'?"
    )


def test_faults_of_a_called_file_are_its_own(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError) as caught:
        found_in(
            tmp_path, {"m.json": calling("m", "b.json"), "b.json": {**leaf(), "initial_state": "x"}}
        )
    assert {Path(finding.file or "").name for finding in caught.value.findings} == {"b.json"}
    assert all(finding.line for finding in caught.value.findings)


def test_a_path_in_a_definition_that_comes_from_no_file_is_refused() -> None:
    with pytest.raises(DefinitionError, match="this definition comes from no file"):
        gather(Definition.model_validate(calling("m", "b.json")))


def chain(length: int) -> dict[str, Document]:
    files = {
        f"f{number}.json": calling(f"f{number}", f"f{number + 1}.json") for number in range(length)
    }
    return {**files, f"f{length}.json": leaf()}


def test_flows_nest_eight_deep_and_no_deeper(tmp_path: Path) -> None:
    assert len(found_in(tmp_path, chain(MAX_DEPTH)).called) == MAX_DEPTH
    assert fault_of(tmp_path, chain(MAX_DEPTH + 1)).name == "flow-nesting"


def test_depth_is_that_of_the_longest_way(tmp_path: Path) -> None:
    files = chain(MAX_DEPTH)
    files["f0.json"]["states"]["go"]["transitions"] = [{"target_state": "short"}]
    files["f0.json"]["states"]["short"] = calling("", "f5.json")["states"]["go"]
    assert len(found_in(tmp_path, files).called) == MAX_DEPTH


SECRET = {"properties": {"pin": {"type": "string", "x-secret": True}, "ok": {"type": "boolean"}}}


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"input": {"ok": "pin"}}, "'pin' is secret in 'm', and 'ok' is not in 'leaf'"),
        ({"output": {"ok": "pin"}}, "'pin' is secret in 'leaf', and 'ok' is not in 'm'"),
        ({"output": {"ok": "okay"}}, "'leaf' has no key 'okay'"),
        ({"input": {"okay": "ok"}}, "'leaf' has no key 'okay'"),
        ({"input": {"ok": "nothing"}}, "'m' has no key 'nothing'"),
    ],
)
def test_a_mapping_that_cannot_work_or_would_tell_a_secret_is_refused(
    tmp_path: Path, mapping: Document, words: str
) -> None:
    main = {**calling("m", "b.json", **mapping), "context_schema": SECRET}
    finding = fault_of(tmp_path, {"m.json": main, "b.json": leaf(context_schema=SECRET)})
    assert (finding.name, finding.message) == ("flow-mapping", words)
    assert finding.line


def test_a_secret_may_go_to_a_secret(tmp_path: Path) -> None:
    main = {
        **calling("m", "b.json", input={"pin": "pin"}, output={"pin": "pin"}),
        "context_schema": SECRET,
    }
    assert found_in(tmp_path, {"m.json": main, "b.json": leaf(context_schema=SECRET)}).called


def test_only_definitions_can_be_registered() -> None:
    with pytest.raises(
        ValueError, match=r"flows\['pay'\] is a file, a definition or one as JSON data, not int"
    ):
        gather(Definition.model_validate(calling("main", "pay")), registered={"pay": 3})  # type: ignore[dict-item]


def test_a_definition_that_comes_from_no_file_stands_in_a_circle_by_its_name() -> None:
    main = calling("main", "self")
    with pytest.raises(DefinitionError, match="'main' → self → self"):
        gather(Definition.model_validate(main), registered={"self": main})
