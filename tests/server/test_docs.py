"""The reference of the server: its tables of problems, settings and limits are held against the
code.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import Any

import yaml

from doc_tables import rows
from llm_fsm.cli.commands.serve import serve
from llm_fsm.server import Limits, create_app
from llm_fsm.server.problems import KINDS
from llm_fsm.telemetry import names
from paths import ROOT


def test_every_problem_is_in_the_table() -> None:
    table = rows("docs/server.md", "| problem | status | when |")
    shown = {name: (int(status), when) for name, status, when in table}
    assert shown == {name: (row.status, row.when.replace("`", "")) for name, row in KINDS.items()}


def test_every_setting_and_limit_is_told_of() -> None:
    shown = [row[0] for row in rows("docs/server.md", "| setting of `create_app` | without | is |")]
    assert shown == list(inspect.signature(create_app).parameters)
    limits = ", ".join(
        row[0] for row in rows("docs/server.md", "| of `Limits` | without | is |")
    ).split(", ")
    assert limits == [field.name for field in fields(Limits)]


def test_every_metric_and_event_of_telemetry_is_told_of() -> None:
    page = (ROOT / "docs" / "reference" / "monitoring.md").read_text(encoding="utf-8")
    metrics = (
        names.TOKEN_USAGE,
        names.OPERATION_DURATION,
        names.TIME_TO_FIRST_CHUNK,
        names.TURN_DURATION,
    )
    for name in (
        *metrics,
        names.TURN_COST,
        names.TRANSITION,
        names.REFUSED,
        names.MISSED,
        names.PAUSED,
    ):
        assert f"`{name}`" in page


def test_the_image_is_not_root_has_a_health_check_and_brings_what_the_build_needs() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^USER (?!root)\w+$", dockerfile, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK ", dockerfile, re.MULTILINE)
    for line in re.findall(r"^COPY (?!--from)(.*) \S+$", dockerfile, re.MULTILINE):
        for name in line.split():
            assert (ROOT / name).exists(), name


def test_compose_names_what_the_command_takes() -> None:
    compose: Any = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    server = compose["services"]["server"]
    options = {name for parameter in serve.params for name in parameter.opts}
    given = [argument.partition("=")[0] for argument in server["command"][1:]]
    assert {argument for argument in given if argument.startswith("-")} <= options
    mounted = [volume.split(":")[1] for volume in server["volumes"]]
    assert [argument for argument in given if not argument.startswith("-")] == ["/flows"]
    assert mounted == ["/data", "/flows"]
    assert "--token-file=/data/tokens.json" in server["command"]
    assert server["depends_on"]["db"]["condition"] == "service_healthy"
