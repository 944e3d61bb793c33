"""The contract of a store as a suite that any adapter can run.

    @pytest.mark.anyio
    @pytest.mark.parametrize("check", store_suite(shared=True), ids=str)
    async def test_my_store(check, tmp_path):
        await check(lambda: MyStore(tmp_path), reopen=lambda: MyStore(tmp_path))

Without pytest: `for check in store_suite(): asyncio.run(check(make))`. A check that fails raises
AssertionError and says what was expected and what was found. The suite runs on asyncio.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from llm_fsm.stores.base import Store
from llm_fsm.testing.store_contract.accepted import ACCEPTED_CHECKS, SHARED_ACCEPTED_CHECKS
from llm_fsm.testing.store_contract.documents import DOCUMENT_CHECKS, SHARED_CHECKS
from llm_fsm.testing.store_contract.listings import LISTING_CHECKS
from llm_fsm.testing.store_contract.locks import (
    FENCED_LOCK_CHECKS,
    LOCK_CHECKS,
    SHARED_LOCK_CHECKS,
    Loser,
)
from llm_fsm.testing.store_contract.outbox import KEEPING_CHECKS, SHARED_KEEPING_CHECKS
from llm_fsm.testing.store_contract.unfinished import SHARED_UNFINISHED_CHECKS, UNFINISHED_CHECKS

Maker = Callable[[], Store | Awaitable[Store]]
"""Returns a store, or a coroutine that does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCheck:
    """One clause of the contract. `str` gives its name.

    Attributes:
        name: Its name.
        says: The clause as a sentence.
        shared: True if it needs two stores on one place.
        body: The check itself.
        fenced: True if it also needs a way to lose a lock.
    """

    name: str
    says: str
    shared: bool
    body: Callable[..., Awaitable[None]]
    fenced: bool = False

    def __str__(self) -> str:
        return self.name

    async def __call__(
        self, make: Maker, reopen: Maker | None = None, lose: Loser | None = None
    ) -> None:
        """Check a store. The stores that it opens are closed again.

        Args:
            make: Returns a store on an empty place.
            reopen: For shared checks: returns a second store on the place that `make` used last.
            lose: For fenced checks: takes a lock away from the first store.

        Raises:
            AssertionError: The store breaks the clause.
            ValueError: `reopen` or `lose` is missing.
        """
        makers = [make]
        if self.fenced and lose is None:
            raise ValueError(f"the check {self.name} needs `lose`: a way to lose a lock")
        if self.shared:
            if reopen is None:
                raise ValueError(
                    f"the check {self.name} needs `reopen`: a second store on the same place"
                )
            makers.append(reopen)
        stores = []
        try:
            for maker in makers:
                stores.append(await _made(maker))
            await self.body(*stores, *((lose,) if self.fenced else ()))
        finally:
            for store in stores:
                await store.close()


def store_suite(*, shared: bool = False, fenced: bool = False) -> tuple[StoreCheck, ...]:
    """Return every check. Each is independent of the others.

    Args:
        shared: True adds checks with two stores on one place, for stores whose data outlives the
            object.
        fenced: True adds checks with locks that can be lost, for locks that depend on a connection
            or a lease.

    Returns:
        The checks.
    """
    alone = [*DOCUMENT_CHECKS, *LISTING_CHECKS, *KEEPING_CHECKS, *LOCK_CHECKS]
    alone += UNFINISHED_CHECKS
    alone += ACCEPTED_CHECKS
    together = [*SHARED_CHECKS, *SHARED_KEEPING_CHECKS, *SHARED_LOCK_CHECKS]
    together += SHARED_UNFINISHED_CHECKS
    together += SHARED_ACCEPTED_CHECKS
    checks = [_check(body, shared=False) for body in alone]
    if shared:
        checks += [_check(body, shared=True) for body in together]
    if fenced:
        checks += [_check(body, shared=True, fenced=True) for body in FENCED_LOCK_CHECKS]
    return tuple(checks)


def _check(
    body: Callable[..., Awaitable[None]], *, shared: bool, fenced: bool = False
) -> StoreCheck:
    name = body.__name__.replace("_", "-")
    return StoreCheck(
        name=name, says=inspect.getdoc(body) or name, shared=shared, body=body, fenced=fenced
    )


async def _made(maker: Maker) -> Store:
    made = maker()
    return await made if inspect.isawaitable(made) else made
