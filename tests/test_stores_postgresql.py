"""The PostgreSQL store keeps the contract, among processes and while its server is away."""

from __future__ import annotations

import pytest

from llm_fsm.stores.postgresql import PostgreSQLStore
from llm_fsm.testing.stores import store_suite

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("check", store_suite(shared=True), ids=str)
async def test_postgresql_keeps_the_contract(check, postgresql_url):
    await check(lambda: PostgreSQLStore(postgresql_url), reopen=lambda: PostgreSQLStore(postgresql_url))
