"""Which proxy requests to an address go through, by the variables that curl and others read.

    https_proxy, http_proxy   for addresses of that kind; all_proxy for both
    no_proxy                  hosts, with a port or without, ends of their names and networks (10.0.0.0/8) that are
                              asked directly

In capitals they mean the same; macOS and Windows may have settings besides. What runs on this machine is always
asked directly.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import NamedTuple
from urllib.request import getproxies, proxy_bypass

from yarl import URL

from llm_fsm._text import is_local
from llm_fsm.errors import ConfigurationError


class Proxy(NamedTuple):
    """A proxy, and what it is told besides: who asks."""

    url: URL
    headers: Mapping[str, str]


def proxy_for(url: URL) -> Proxy | None:
    """The proxy for an address; None: it is asked directly. Raises ConfigurationError for one that cannot be used."""
    host, named = url.host or "", getproxies()
    places = host.rstrip("."), f"{(url.host_subcomponent or '').rstrip('.')}:{url.port}"
    if is_local(str(url)) or any(map(proxy_bypass, places)) or _is_within(host, named.get("no", "")):
        return None
    text = named.get(url.scheme) or named.get("all")
    if not text:
        return None
    try:
        proxy = URL(text if "://" in text else f"http://{text}")
        bare = proxy.origin()
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


def _is_within(host: str, listed: str) -> bool:
    """Whether a host is an address in one of the networks that are listed."""
    for name in listed.split(","):
        try:
            if "/" in name and ip_address(host) in ip_network(name.strip(), strict=False):
                return True
        except ValueError:
            continue
    return False
