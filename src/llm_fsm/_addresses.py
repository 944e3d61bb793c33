"""Addresses of the web that hosts give: of webhooks and of MCP servers."""

from __future__ import annotations

from ipaddress import ip_address
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


def is_local(url: str) -> bool:
    """Whether an address is one of this machine, as far as its host says."""
    host = (urlsplit(url.strip()).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
