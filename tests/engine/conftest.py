"""What tests of the engine share: a new store of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import mongomock
import pytest

from llm_fsm.stores.base import Store
from llm_fsm.stores.file import FileStore
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.stores.mongodb import MongoDBStore
from llm_fsm.stores.postgresql import PostgreSQLStore
from llm_fsm.stores.redis import RedisStore
from llm_fsm.stores.sqlite import SQLiteStore

STORES = ("memory", "sqlite", "file", "postgresql", "redis", "mongodb")


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A new store of each kind."""
    if request.param == "postgresql":
        yield PostgreSQLStore(request.getfixturevalue("postgresql_url"))
    elif request.param == "redis":
        yield RedisStore(request.getfixturevalue("redis_url"))
    elif request.param == "mongodb":
        server = mongomock.MongoClient()
        yield MongoDBStore("mongodb://localhost/bots", client=lambda: server)
    elif request.param == "file":
        yield FileStore(tmp_path / "bots")
    elif request.param == "sqlite":
        yield SQLiteStore(tmp_path / "bots.db")
    else:
        yield MemoryStore()
