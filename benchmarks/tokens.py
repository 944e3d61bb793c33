"""Count the tokens of texts."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from llm_fsm._text import estimate

VOCABULARIES = {
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
}
"""Tokenizers of OpenAI, and the files in which litellm brings them."""


def counter(encoding: str = "cl100k_base") -> Callable[[str], int]:
    """Return what counts the tokens of a text.

    Args:
        encoding: A tokenizer of `VOCABULARIES`. Without litellm, the tokens are estimated.
    """
    spec = find_spec("litellm")
    for folder in Path(spec.origin).parent.glob("**/tokenizers") if spec and spec.origin else ():
        if (folder / VOCABULARIES[encoding]).exists():
            os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
            import tiktoken  # noqa: PLC0415 - it comes with litellm and reads its folder from the environment

            tokenizer = tiktoken.get_encoding(encoding)
            return lambda text: len(tokenizer.encode(text, disallowed_special=()))
    return estimate
