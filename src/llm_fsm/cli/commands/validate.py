"""`llm-fsm validate`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from functools import partial

import click

from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli.options import command
from llm_fsm.cli.output import write_output
from llm_fsm.cli.repository import from_root
from llm_fsm.cli.terminal import console, escape, excerpt
from llm_fsm.definition.codes import finding
from llm_fsm.documents.check import called_by, check, check_data
from llm_fsm.documents.discovery import NoDefinitionError, definitions, file_of, settings_file
from llm_fsm.documents.files import MAX_BYTES, read
from llm_fsm.errors import DefinitionError, Finding
from llm_fsm.lint.config import FAIL_ON, LEVELS, ConfigError, FailOn, LintConfig, parse
from llm_fsm.lint.registry import RULES
from llm_fsm.lint.report.formats import FORMATS, statistics

STDIN = "<stdin>"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateRequest:
    """The check that is asked for, and the use of its findings. `root`: the folder that settings
    belong to.
    """

    paths: tuple[str, ...]
    config: LintConfig
    root: str
    stdin_name: str = STDIN
    fix: bool = False
    diff: bool = False


@command("llm-fsm validate bots --fail-on warning")
@click.argument("paths", nargs=-1, metavar="PATH…")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "concise", *(name for name in FORMATS if name != "text")]),
    default="text",
    show_default=True,
    help="How to print the findings; text shows the source line, concise is one line each.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write the findings to a file instead of standard output.",
)
@click.option(
    "--select",
    multiple=True,
    metavar="RULES",
    help="Report only these: names, codes, or beginnings such as F.",
)
@click.option("--ignore", multiple=True, metavar="RULES", help="Leave these out.")
@click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    help="The least level of a finding that makes the exit code 1.  [default: error]",
)
@click.option(
    "--fix",
    is_flag=True,
    help="Mend what is safe to mend, and keep everything else as it is written.",
)
@click.option("--diff", is_flag=True, help="Show what --fix would change, and change nothing.")
@click.option(
    "--statistics", "counted", is_flag=True, help="Say how often each rule found something."
)
@click.option("--explain", metavar="RULE", help="Print the page of a rule, given by name or code.")
@click.option("--rules", "listed", is_flag=True, help="List the rules.")
@click.option(
    "--stdin-filename",
    default=STDIN,
    metavar="NAME",
    help="What standard input is called in findings.",
)
@click.pass_context
def validate(
    context: click.Context,
    *,
    paths: tuple[str, ...],
    form: str,
    output: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: FailOn | None,
    fix: bool,
    diff: bool,
    counted: bool,
    explain: str | None,
    listed: bool,
    stdin_filename: str,
) -> int:
    """Check definition files and report everything that is wrong.

    PATH is a file, a pattern such as "bots/**/*.json", the name of a shipped definition, or - for
    standard input. It may also be a folder, for every definition below it. In a folder, JSON files
    that cannot be read are reported, too. Settings come from [tool.llm-fsm.lint] in the nearest
    pyproject.toml, and from "x-lint" in a file.

    Exit codes: 0 clean. 1 a finding at or above --fail-on, or a file that is no definition. 2 a
    file that cannot be read.
    """
    if explain is not None or listed:
        console.text(_catalogue() if explain is None else _explained(explain))
        return exits.OK
    if not paths:
        context.fail("Missing argument 'PATH…'.")
    if fix and "-" in paths and not diff:
        context.fail("--fix cannot write to standard input; --diff shows what it would do.")
    config, root = settings(os.curdir)
    try:
        config = config.over(select=_words(select), ignore=_words(ignore), fail_on=fail_on)
    except ConfigError as error:
        raise click.UsageError(str(error), context) from error
    paths = tuple(file_of(path) for path in paths)
    request = ValidateRequest(
        paths=paths, config=config, root=root, stdin_name=stdin_filename, fix=fix, diff=diff
    )
    files = []
    findings = []
    for file, found in _checked(request):
        files.append(file)
        findings.extend(found)
    called = called_by(files)  # their acts are judged where they are called
    findings = [
        one
        for one in findings
        if one.code != "F120" or os.path.normpath(one.file or "") not in called
    ]
    if counted:
        _give(statistics(findings), output)
    elif form != "text":
        if form in ("github", "sarif"):
            findings = [
                replace(found, file=found.file and from_root(found.file)) for found in findings
            ]
            files = [from_root(file) for file in files]
        _give(FORMATS["text" if form == "concise" else form](findings, files), output)
    elif findings:
        lines = excerpt.report(findings, partial(_text_of, request))
        if output is None:
            console.out(*lines, wrapped=True)
        else:
            _give("\n".join(map(console.plain, lines)), output)
    else:
        _give("", output)
    console.err(summary(len(files), findings))
    return code(findings, config)


def code(findings: Iterable[Finding], config: LintConfig) -> int:
    """The exit code for what was found. Findings of the family E mean that there is no definition
    to judge.
    """
    found = tuple(findings)
    if any(finding.name == exits.UNREADABLE for finding in found):
        return exits.USAGE
    return exits.AT_FAULT if any(config.fails(finding) for finding in found) else exits.OK


def summary(files: int, findings: Sequence[Finding]) -> str:
    """`3 files, 1 error, 2 warnings`; notes are counted where there are any."""
    numbers = {level: sum(finding.level == level for finding in findings) for level in LEVELS}
    parts = [escape.plural(files, "file"), escape.plural(numbers["error"], "error")]
    parts.append(escape.plural(numbers["warning"], "warning"))
    if numbers["info"]:
        parts.append(escape.plural(numbers["info"], "note"))
    return ", ".join(parts)


def settings(start: str) -> tuple[LintConfig, str]:
    """The settings of the nearest pyproject.toml, and its folder. Raises Failure for settings that
    are wrong.
    """
    path = settings_file(start)
    if path is None:
        return LintConfig(), os.path.abspath(start)
    kinds = (ConfigError, UnicodeDecodeError)
    with exits.failing(*kinds, place=f"{path}: "), open(path, encoding="utf-8") as stream:
        found = parse(stream.read())
    return found or LintConfig(), os.path.dirname(path)


def _words(options: Iterable[str]) -> list[str]:
    """The words of options that may be repeated and may hold several, parted by commas."""
    words = ",".join(options).split(",")
    return [word.strip() for word in words if word.strip()]


def _explained(word: str) -> str:
    exits.need_docstrings()
    try:
        from llm_fsm.lint.docs import page_of

        return str(page_of(word).text)
    except LookupError as error:
        raise click.UsageError(str(error)) from error


def _catalogue() -> str:
    width = max(len(rule.name) for rule in RULES)
    return "\n".join(f"{rule.code}  {rule.level:7}  {rule.name:{width}}".rstrip() for rule in RULES)


def _give(report: str, output: str | None) -> None:
    if output is not None:
        write_output(output, report + "\n" if report else "")
    elif report:
        console.text(report)


def _text_of(request: ValidateRequest, file: str) -> str | None:
    """Return the text of a file; None for one that cannot be read, and for standard input."""
    try:
        return None if file == request.stdin_name else read(file)
    except DefinitionError:
        return None


def _checked(request: ValidateRequest) -> Iterator[tuple[str, list[Finding]]]:
    """Each file that the paths stand for, once, with the findings that are reported."""
    seen = set()
    for path in request.paths:
        if path == "-":
            yield request.stdin_name, _kept(request, request.stdin_name, _check_stdin(request))
            continue
        try:
            for file in definitions(path):
                if (place := os.path.abspath(file)) not in seen:
                    seen.add(place)
                    yield file, _kept(request, file, _check_file(request, file))
        except NoDefinitionError as error:
            message = str(error).removeprefix(f"{path}: ")
            yield path, [replace(finding(exits.UNREADABLE, message), file=path)]


def _kept(request: ValidateRequest, file: str, findings: Iterable[Finding]) -> list[Finding]:
    place = (
        os.path.relpath(file, request.root).replace(os.sep, "/")
        if request.config.per_file_ignores
        else file
    )
    return [found for found in findings if request.config.keeps(found, place)]


def _check_file(request: ValidateRequest, file: str) -> list[Finding]:
    found = check(file, token_budget=request.config.token_budget)
    if not (request.fix or request.diff) or any(one.code.startswith("E") for one in found):
        return found
    with open(file, "rb") as stream:
        data = stream.read()
    if not _mended(request, file, data, write=not request.diff):
        return found
    return check(file, token_budget=request.config.token_budget)


def _check_stdin(request: ValidateRequest) -> list[Finding]:
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    found = check_data(data, file=request.stdin_name, token_budget=request.config.token_budget)
    if request.diff and not any(one.code.startswith("E") for one in found):
        _mended(request, request.stdin_name, data, write=False)
    return found


def _mended(request: ValidateRequest, file: str, data: bytes, *, write: bool) -> bool:
    """Mend a file, or show what would be done. True when the file is another one now."""
    text = data.decode("utf-8")
    from llm_fsm.lint.fix.fixes import fix

    fixed = fix(text, partial(_judged, request, file))
    if fixed.text == text:
        return False
    if not write:
        names = (file, f"{file} (mended)")
        lines = unified_diff(text.splitlines(True), fixed.text.splitlines(True), *names)
        console.text("".join(lines).rstrip("\n"))
        return False
    write_output(file, fixed.text)
    for change in fixed.changes:
        console.err(f"{file}:{change} (mended)")
    return True


def _judged(request: ValidateRequest, file: str, text: str) -> list[Finding]:
    """Return the findings that are reported; mending goes by these alone."""
    findings = check_data(text.encode("utf-8"), file=file, token_budget=request.config.token_budget)
    return _kept(request, file, findings)
