"""What travels in the wheel, and that an installed package finds it without the repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from paths import ROOT

PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")

SCHEMAS = {
    *("llm_fsm/definition/definition.schema.json", "llm_fsm/testing/scenarios/case.schema.json"),
    "llm_fsm/llm/prices.json",
    "llm_fsm/releases/release.schema.json",
}

READ_SHIPPED = """
import json
from pathlib import Path
import llm_fsm
from llm_fsm.documents.check import check
from llm_fsm.documents.loader import load
from llm_fsm.documents.discovery import definition_paths
from llm_fsm.engine.bundled import prompt_sources

print(json.dumps({
    "package": str(Path(llm_fsm.__file__).resolve()),
    "prompts": dict(prompt_sources()),
    "faults": [found.name for found in check({"name": "n"})],
    "definitions": {name: load(path).name for name, path in definition_paths().items()},
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = (
        *PIP,
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--wheel-dir",
        str(folder),
    )
    subprocess.run((*build, str(ROOT)), check=True, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


def files(folder: str, pattern: str) -> dict[str, str]:
    return {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted((ROOT / folder).glob(pattern))
    }


@pytest.mark.parametrize(
    ("folder", "pattern"),
    [("prompts", "*.j2"), ("fsm_definitions", "*.json"), ("patterns", "*.json")],
)
def test_the_wheel_brings_prompts_and_definitions(wheel: Path, folder: str, pattern: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        place = f"llm_fsm/_data/{folder}/"
        found = {
            name.removeprefix(place): archive.read(name).decode("utf-8")
            for name in archive.namelist()
            if name.startswith(place) and Path(name).match(pattern)
        }
    assert found
    assert found == files(folder, pattern)


def test_the_wheel_brings_every_module_and_nothing_else_of_ours(wheel: Path) -> None:
    source = ROOT / "src"
    modules = {path.relative_to(source).as_posix() for path in (source / "llm_fsm").rglob("*.py")}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    folders = (source / "llm_fsm" / "server" / "static", source / "llm_fsm" / "cli" / "starter")
    pages = {path.relative_to(source).as_posix() for folder in folders for path in folder.iterdir()}
    studio = source / "llm_fsm" / "editor" / "static"
    pages |= {path.relative_to(source).as_posix() for path in studio.rglob("*") if path.is_file()}
    words = source / "llm_fsm" / "languages" / "words"
    pages |= {path.relative_to(source).as_posix() for path in words.iterdir()}
    others = {"llm_fsm/py.typed", "llm_fsm/_data/docs/LLM_GUIDE.md", *SCHEMAS, *pages}
    assert modules | others <= names
    places = (
        "llm_fsm/_data/prompts/",
        "llm_fsm/_data/patterns/",
        "llm_fsm/_data/fsm_definitions/",
        "llm_fsm_runtime-",
    )
    assert not [name for name in names - modules - others if not name.startswith(places)]


def test_an_installed_package_reads_what_it_brings(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    install = (*PIP, "install", "--no-deps", "--no-index", "--target", str(target), str(wheel))
    subprocess.run(install, check=True, cwd=tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(target)}
    done = subprocess.run(
        (sys.executable, "-c", READ_SHIPPED),
        check=True,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    found = json.loads(done.stdout)
    assert Path(found["package"]).is_relative_to(target.resolve())
    assert "missing-key" in found["faults"]
    assert set(found["prompts"]) == {Path(name).stem for name in files("prompts", "*.j2")}
    assert set(found["definitions"]) == {
        Path(name).stem for name in files("fsm_definitions", "*.json")
    }


def test_the_extra_all_takes_every_extra_that_does_not_conflict() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    (taken,) = extras["all"]
    named = set(taken.removeprefix("llm-fsm-runtime[").removesuffix("]").split(","))
    assert named == set(extras) - {"all", "adk", "smolagents", "telegram"}


def test_no_extra_has_a_twin_and_only_the_documented_one_is_empty() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    brought = [tuple(sorted(packages)) for packages in extras.values() if packages]
    assert len(set(brought)) == len(brought)
    assert [name for name, packages in extras.items() if not packages] == ["litellm"]


def test_the_base_imports_litellm_and_pytest_only_when_they_are_used() -> None:
    program = (
        "import sys, llm_fsm, llm_fsm.engine.machine, llm_fsm.llm.registry, llm_fsm.testing\n"
        "from llm_fsm.cli import main\n"
        "main(['validate', 'greeting'])\nmain(['show', 'greeting'])\n"
        "print([name for name in ('litellm', 'pytest', 'openai') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        (sys.executable, "-c", program), capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == "[]"
