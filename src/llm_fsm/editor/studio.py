"""The settings of one studio: its folder, its models, and the store of conversations."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from llm_fsm._json import JsonMap, TextMap
from llm_fsm.editor.folder import Folder
from llm_fsm.editor.history import repository_of
from llm_fsm.server.problems import Problem
from llm_fsm.stores.base import Store


@dataclass(frozen=True, kw_only=True)
class Studio:
    """The settings of a studio.

    Attributes:
        folder: The folder tree that it may read and write.
        file: The path below the folder of the file to open first; None: the page asks.
        models: Names of models that the operator allows beside `offline` and `scripted`.
        store: Opens the store of conversations to look at; None: there is none.
        new_files: Makes the files of a new definition by its name and a template, as `llm-fsm new`
            does; None: shipped definitions are copied.
        equipment: Settings of the playground's machines: tools, functions, handlers, base_url.
    """

    folder: Folder
    file: str | None = None
    models: Sequence[str] = ()
    store: Callable[[], Store] | None = None
    new_files: Callable[[str, str | None], TextMap] | None = None
    equipment: JsonMap = field(default_factory=dict)
    can_draw: bool = field(default_factory=lambda: shutil.which("dot") is not None)

    @property
    def all_models(self) -> list[str]:
        """The models of the playground, the ones without a network first."""
        return ["offline", "scripted", *self.models]

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Store]:
        """Open the store for one request. Raises Problem 404 if there is none."""
        if self.store is None:
            raise Problem(
                "not-found",
                "the studio was started without --db, so there are no stored conversations",
            )
        store = self.store()
        try:
            yield store
        finally:
            await store.close()

    @property
    def has_git(self) -> bool:
        """True if the folder is in a git repository."""
        return repository_of(self.folder.root) is not None
