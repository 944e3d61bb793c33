"""Import litellm without the side effects of its import."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from llm_fsm._json import without

_IMPORT_SETTINGS = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"}
"""Without these settings, the import fetches a price list and loads `.env` of the working folder.
"""

_OWN_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")
_CHANGED_LOGGERS = ("httpx", "httpcore", "openai")
_import_lock = threading.Lock()


def import_litellm() -> Any:
    """Import litellm without its network access, `.env` loading, prints and log lines. The rest
    stays as it was.
    """
    with _import_lock:
        if "litellm" in sys.modules:
            return sys.modules["litellm"]
        with _settings(), _loggers(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            litellm: Any = import_module("litellm")
            litellm.suppress_debug_info = True
            for name in _OWN_LOGGERS:
                logging.getLogger(name).setLevel(logging.CRITICAL)
            litellm.types.utils.ModelResponseStream()
            # builds the models that pydantic would build with the first answer, with warnings
            litellm.ModelResponse()
            with suppress(ImportError):  # the first call would import it, with a warning
                import_module("litellm.llms.github_copilot.per_user_auth")
        return litellm


@contextmanager
def _settings() -> Iterator[None]:
    """Set the environment for the import, except for variables that the user has set."""
    added = without(_IMPORT_SETTINGS, os.environ)
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextmanager
def _loggers() -> Iterator[None]:
    """Restores the levels of loggers that litellm changes."""
    levels = {name: logging.getLogger(name).level for name in _CHANGED_LOGGERS}
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
