"""What the documents show is true: every block is run, every table of names is held against the
code.

Blocks of one document run in order, in one folder that holds a copy of the checkout, Python blocks
in one namespace. A comment on the line before a block says more about it:

    <!-- file: NAME -->   the block is the content of a file, which is written
    <!-- output -->       the block is what the block before it prints
    <!-- same: NAME -->   the block is the code of a file, which has a test of its own

Of `console` blocks, lines with `$ ` are commands, lines with `> ` what is typed, the others what is
printed. In `bash` blocks `make` and `pip install` say only what they would do; `.ci/run` does it. A
`python3` there makes an empty virtual environment.
The guide and the pages for authors have tests of their own, see `test_guide`.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import pytest

import warm_shell
from doc_tables import rows
from guide_blocks import PAGES
from llm_fsm import Machine, __version__, check, errors
from llm_fsm.session.events import EVENTS
from llm_fsm.turn.effects import Effect
from paths import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COPIED = (
    "src",
    "docs",
    "prompts",
    "patterns",
    "fsm_definitions",
    "examples",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "Makefile",
)
BLOCK = re.compile(
    r"(?:^<!-- (?P<role>file|output|same)(?:: (?P<name>\S+))? -->\n)?"
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
ALONE = {"docs/testing.md"}
"""Documents that run every test below their folder, which has only what they write."""
HARMLESS = """
set -euo pipefail
make() { command make --dry-run "$@" > /dev/null; }
python3() { command python3 "$@" --without-pip; }
pip() { "$TESTS_PYTHON" -m pip --quiet "$@" --dry-run --no-deps --no-build-isolation --no-index; }
"""


def shown_name(path: Path) -> str:
    """A document's path in the repository."""
    return path.relative_to(ROOT).as_posix()


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: where it begins, its language and text, and what the comment before it says."""

    place: str
    language: str
    text: str
    role: str = ""
    name: str = ""


def blocks(path: Path) -> Iterator[Block]:
    text = path.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(
            place=f"{shown_name(path)}:{line}",
            language=found["language"],
            text=found["text"],
            role=found["role"] or "",
            name=found["name"] or "",
        )


def code_of(path: Path) -> str:
    """A module without its docstring."""
    text = path.read_text(encoding="utf-8")
    first = ast.parse(text).body[0]
    return "".join(text.splitlines(keepends=True)[first.end_lineno :]).lstrip("\n")


@dataclass(slots=True)
class Reader:
    """Does what a document says, block by block, in `folder`, with the programs in `commands`."""

    folder: Path
    commands: Path
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    printed: str = ""
    definition: str = ""
    drawn: list[Block] = field(default_factory=list)

    def take(self, block: Block) -> None:
        if block.role == "output":
            assert self.printed.split("\n") == block.text.split("\n"), block.place
        elif block.role == "same":
            assert block.text == code_of(self.folder / block.name), block.place
        elif block.role == "file":
            (self.folder / block.name).write_text(block.text, encoding="utf-8")
            self.definition = self.definition or block.name
        else:
            kinds = {
                "bash": self.bash,
                "console": self.console,
                "json": self.json,
                "mermaid": self.drawn.append,
                "python": self.python,
                "text": self.tree,
            }
            assert block.language in kinds, (
                f"{block.place}: nothing is known of {block.language!r} blocks"
            )
            kinds[block.language](block)

    def shell(self, command: str, place: str, typed: str = "") -> str:
        folders = (str(self.commands), str(Path(sys.executable).parent), os.environ["PATH"])
        environment = {**os.environ, "PATH": os.pathsep.join(folders), "NO_COLOR": "1"}
        environment["TESTS_PYTHON"] = sys.executable
        done = subprocess.run(
            ("bash", "-c", HARMLESS + command),
            check=False,
            cwd=self.folder,
            env=environment,
            input=typed,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, (
            f"{place}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        )
        return done.stdout

    def bash(self, block: Block) -> None:
        self.printed = self.shell(block.text, block.place)

    def console(self, block: Block) -> None:
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, *lines = part.splitlines()
            typed = [line.removeprefix("> ") for line in lines if line.startswith("> ")]
            shown = [line for line in lines if line and not line.startswith("> ")]
            printed = self.shell(command, block.place, "".join(f"{line}\n" for line in typed))
            assert [line for line in printed.splitlines() if line] == shown, (
                f"{block.place}: {command}"
            )

    def json(self, block: Block) -> None:
        json.loads(block.text)
        self.printed = ""

    def python(self, block: Block) -> None:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(block.text, block.place, "exec"), self.names)
        self.printed = output.getvalue()

    def close(self) -> None:
        """Compare pictures with the first definition of the document, which may come after them."""
        for block in self.drawn:
            shown = self.shell(f"llm-fsm show {self.definition} --format mermaid", block.place)
            assert set(block.text.splitlines()) <= set(shown.splitlines()), block.place

    def tree(self, block: Block) -> None:
        assert block.text.strip() in (errors.__doc__ or "").replace("\n    ", "\n"), block.place


def copy_checkout(source: Path, folder: Path, linked: Collection[str] = ()) -> Path:
    """Copy what documents use of a checkout. Files of folders in `linked` become hard links."""
    folder.mkdir()
    skip = shutil.ignore_patterns("__pycache__")
    for name in COPIED:
        if (source / name).is_dir():
            copy = os.link if name in linked else shutil.copy2
            shutil.copytree(source / name, folder / name, ignore=skip, copy_function=copy)
        else:
            shutil.copy2(source / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def programs() -> Iterator[Path]:
    """The folder of the command `llm-fsm`."""
    with tempfile.TemporaryDirectory() as folder, warm_shell.commands(Path(folder)):
        yield Path(folder)


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One copy for all documents, so that no block that writes a file reaches the checkout."""
    return copy_checkout(ROOT, tmp_path_factory.mktemp("documents") / "checkout")


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if path not in PAGES], ids=shown_name)
def test_every_block_of_a_document_runs(
    path: Path, copied: Path, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "checkout"
    if shown_name(path) in ALONE:
        folder.mkdir()
    else:
        copy_checkout(copied, folder, linked=("src", "docs"))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("LLM_FSM_MODEL", "offline")
    reader = Reader(folder, programs)
    try:
        for block in blocks(path):
            reader.take(block)
        reader.close()
    finally:
        for machine in [value for value in reader.names.values() if isinstance(value, Machine)]:
            machine.close()


LEARNED_FROM = [
    path for path in DOCUMENTS if path.parent.name == "tutorial" or path.name == "README.md"
]


@pytest.mark.parametrize("path", LEARNED_FROM, ids=shown_name)
def test_the_checker_has_no_warning_about_a_definition_of_the_tutorial(path: Path) -> None:
    for block in blocks(path):
        if block.role == "file" and '"states"' in block.text:
            found = [
                finding.name for finding in check(json.loads(block.text)) if finding.level != "info"
            ]
            assert found == [], block.place


@pytest.mark.parametrize("path", [*DOCUMENTS, ROOT / "CHANGELOG.md"], ids=shown_name)
def test_every_link_inside_the_repository_leads_somewhere(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:|mailto:)([^)#]+)", path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def anchors(path: Path) -> set[str]:
    """What links to headings of a document are called, as GitHub makes them."""
    text = re.sub(
        r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=shown_name)
def test_every_link_to_a_heading_leads_to_one(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", path.read_text(encoding="utf-8"))
    missing = [
        (place, name)
        for place, name in links
        if name not in anchors(path.parent / place if place else path)
    ]
    assert missing == []


def project() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: dict[str, Any] = tomllib.load(file)["project"]
    return found


def test_the_documents_name_every_event_and_effect() -> None:
    events = rows("docs/reference/events.md", "| event | fields | happened |")
    assert {row[0] for row in events} >= EVENTS.keys()
    told = [row[-1] for row in events]
    assert sorted(set(told)) == sorted(told), "each event has a description of its own"
    effects = rows("docs/architecture.md", "| effect | result | performed by |")
    assert [row[0] for row in effects] == [kind.__name__ for kind in get_args(Effect)]


def test_every_dependency_has_its_reason() -> None:
    header = "| package | floor | what for | imported by | ms |"
    shown = {name + floor for name, floor, *_ in rows("docs/dependencies.md", header)}
    assert shown == set(project()["dependencies"])


def importers(package: str) -> set[str]:
    """The rooms that import a package."""
    line = re.compile(
        rf"^\s*(?:import|from) {package}\b|import_module\(\"{package}\"", re.MULTILINE
    )
    places = ROOT / "src" / "llm_fsm"
    found = [
        path.relative_to(places).with_suffix("").parts
        for path in places.rglob("*.py")
        if line.search(path.read_text(encoding="utf-8"))
    ]
    return {parts[0] for parts in found}


def test_the_table_of_dependencies_names_who_imports_them() -> None:
    header = "| package | floor | what for | imported by | ms |"
    modules = {"google-re2": "re2", "tzdata": "zoneinfo"}
    for name, _, _, rooms, _ in rows("docs/dependencies.md", header):
        package = modules.get(name, name.replace("-", "_"))
        found = importers(package) | (
            importers("pydantic_core") if package == "pydantic" else set()
        )
        assert set(re.split(", (?:when|with) ", rooms)[0].split(", ")) == found, name


def test_every_extra_is_listed_with_its_packages() -> None:
    shown = {
        name: packages.split(", ")
        for name, packages in rows("docs/dependencies.md", "| extra | packages |")
    }
    declared = project()["optional-dependencies"]
    assert sorted(shown) == sorted(declared)
    for name in shown.keys() - {"all", "litellm"}:
        assert shown[name] == declared[name]


def test_every_package_of_the_development_is_told_of() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        needed = tomllib.load(file)["dependency-groups"]["dev"]
    text = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    told = set(re.findall(r"[\w-]+", text[text.index("\n## Development") :]))
    assert {re.split(r"[\[><=]", package)[0] for package in needed} - told == set()


def test_the_readme_fits_its_length() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_there_is_one_version() -> None:
    assert __version__ == project()["version"]
    assert f"## {__version__}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_page_of_the_architecture_names_files_and_functions_that_there_are() -> None:
    source = ROOT / "src" / "llm_fsm"
    text = "\n".join(path.read_text(encoding="utf-8") for path in source.rglob("*.py"))
    for _, _, functions in rows("docs/architecture.md", "| | step | function |"):
        for name in re.findall(r"(\w+)(?:,|$)", functions):
            defined = re.search(rf"^ *(?:async )?def {name}\(", text, re.MULTILINE)
            assert defined or list(source.rglob(f"{name}.py")), name
    for _, first, then in rows("docs/architecture.md", "| change | open first | then |"):
        named = re.sub(r"\]\([^)]*\)", "]", f"{first} {then}")
        for place in re.findall(r"\b\w+/[\w/]+(?:\.\w+)*", named):
            stem = place.removeprefix("src/llm_fsm/")
            assert (ROOT / place).exists() or (source / stem).exists() or (ROOT / stem).exists(), (
                place
            )
