"""Which proxy requests to an address go through, by the variables that curl and others read.

    https_proxy, http_proxy   for addresses of that kind; all_proxy for both
    no_proxy                  hosts, and ends of their names, that are asked directly

In capitals they mean the same; macOS and Windows may have settings besides. What runs on this machine is always
asked directly.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple
from urllib.request import getproxies, proxy_bypass

from yarl import URL

from llm_fsm.addresses import is_local
from llm_fsm.errors import ConfigurationError


class Proxy(NamedTuple):
    """A proxy, and what it is told besides: who asks."""

    url: URL
    headers: Mapping[str, str]


def proxy_for(url: URL) -> Proxy | None:
    """The proxy for an address; None: it is asked directly. Raises ConfigurationError for one that cannot be used."""
    host = url.host or ""
    if is_local(str(url)) or proxy_bypass(host):
        return None
    named = getproxies()
    text = named.get(url.scheme) or named.get("all")
    if not text:
        return None
    try:
        proxy = URL(text if "://" in text else f"http://{text}")
        bare = proxy.with_user(None)
    except ValueError:
        proxy = bare = URL()
    if proxy.scheme not in {"http", "https"} or not proxy.host:
        raise ConfigurationError(
            f"the proxy {str(bare) or 'in the environment'} ({url.scheme}_proxy, all_proxy) cannot be used for {host}: "
            f"it must be an http:// or https:// one; no_proxy={host} asks directly"
        )
    if proxy.user is None:
        return Proxy(bare, {})
    who = b64encode(f"{proxy.user}:{proxy.password or ''}".encode()).decode()
    return Proxy(bare, {"Proxy-Authorization": f"Basic {who}"})
