"""One server of Temporal for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from services import open_folder
from temporal_server import TemporalServer


@pytest.fixture(scope="package")
def folder() -> Iterator[Path]:
    with open_folder() as made:
        yield made


@pytest.fixture(scope="package")
def server(folder: Path) -> Iterator[TemporalServer]:
    made = TemporalServer(folder).start()
    yield made
    made.kill()
