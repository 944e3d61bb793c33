"""Text on its way into a prompt: nothing in it can close the markup around it."""

from __future__ import annotations

from collections.abc import Iterable

from llm_fsm._compact import in_unicode


def escaped(value: object) -> str:
    """Compact JSON in which `<`, `>`, `&`, line separators and lone surrogates are \\u escapes."""
    text = in_unicode(value)
    return _safe(text) if not text.isascii() or "<" in text or ">" in text or "&" in text else text


def each_escaped(values: Iterable[object]) -> list[str]:
    """The same of each of some values, made safe together: there is no line break in compact JSON."""
    return _safe("\n".join([in_unicode(value) for value in values])).split("\n")


def _safe(text: str) -> str:
    if "<" in text or ">" in text or "&" in text:  # to look is much quicker than to replace
        text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return text if text.isascii() else text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def clean(text: str) -> str:
    """An author's text as it can be sent: lone surrogates replaced."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
