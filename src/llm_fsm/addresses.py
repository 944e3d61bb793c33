"""Addresses of the web that hosts give: of webhooks and of MCP servers."""

from __future__ import annotations

from urllib.parse import urlsplit


def is_address(text: object) -> bool:
    """Whether a text is an http:// or https:// address, with a host and with a port that there can be."""
    if not isinstance(text, str):
        return False
    try:
        parts = urlsplit(text.strip())
        host = parts.hostname or " "
        return parts.scheme in {"http", "https"} and host.isprintable() and " " not in host and parts.port != 0
    except ValueError:
        return False
