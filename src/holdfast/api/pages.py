"""The pages over HTTP: one document for every address of them, what it is made of, and what it has
to know of this deployment.

They are no part of the API: nothing here is in the OpenAPI document, and the pages call what
anybody may call.
"""

import asyncio
import re
from urllib.parse import quote

import msgspec

import holdfast
from holdfast.api.callers import Caller
from holdfast.api.calls import Call, Reply, reply
from holdfast.api.encodings import sent
from holdfast.api.keys import Key, Role
from holdfast.api.problems import Problem
from holdfast.api.routes import ANYBODY, Route
from holdfast.api.service import Service
from holdfast.pages.site import ASSETS, INDEX, File

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""Only what this host serves, nothing inline, nothing evaluated, and in nobody's frame."""
GUARDS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
PAGE_GUARDS = {
    **GUARDS,
    "Content-Security-Policy": POLICY,
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "X-Frame-Options": "DENY",
}
PAGE = re.compile(r"/(lab|ops|design|e/[^/]+)/+")
NOBODY = Caller(Key("", Role.PUBLIC, ""))


class About(msgspec.Struct, frozen=True):
    """What the pages ask for first."""

    version: str
    key: str | None
    """The public key that they call with; None if the operator has revoked it."""
    lab: str
    """Who may run the lab: open (these pages), admin or off."""
    payments: str
    """sandbox, stripe or none"""
    gate: bool


async def about(service: Service, call: Call) -> Reply:
    """Also where nothing is built: `npm run dev` serves the pages itself, and asks here."""
    if service.settings.pages == "off":
        raise _nothing("the pages are switched off")
    key = service.pages_key
    told = About(
        version=holdfast.__version__,
        key=key if key and service.keys.find(key) else None,
        lab=service.settings.lab,
        payments=service.settings.payments.partition("+")[0],
        gate=service.shop.gate is not None,
    )
    return reply(200, told, {**GUARDS, "Cache-Control": "no-store"})


async def home(service: Service, call: Call) -> Reply:
    if service.settings.pages == "off" or not service.site.built:
        return Reply(302, b"", {"Location": "/docs"})
    return await page(service, call)


async def page(service: Service, call: Call) -> Reply:
    """The same document for every page: which one it is, its script reads off the address."""
    return sent(call, await _found(service, INDEX), PAGE_GUARDS)


async def lost(
    service: Service, method: str, path: str, headers: dict[bytes, bytes]
) -> Reply | None:
    """For a person who mistyped an address: the page itself, where there is one without the slash
    at its end, else the page that says that there is none. None for programs."""
    wants_page = method in ("GET", "HEAD") and b"text/html" in headers.get(b"accept", b"")
    if not wants_page or path.startswith("/v1/") or service.settings.pages == "off":
        return None
    if not service.site.built:
        return None
    if PAGE.fullmatch(path):
        return Reply(308, b"", {**GUARDS, "Location": quote(path.rstrip("/"))})
    known = {name: value for name, value in headers.items() if name != b"if-none-match"}
    asked = Call(NOBODY, {}, known, b"", "", "")
    return sent(asked, await _found(service, INDEX), PAGE_GUARDS)._replace(status=404)


async def asset(service: Service, call: Call) -> Reply:
    return sent(call, await _found(service, f"{ASSETS}/{call.params['name']}"), GUARDS)


async def _found(service: Service, name: str) -> File:
    if service.settings.pages == "off":
        raise _nothing("the pages are switched off")
    # The first ask reads them, away from everybody who is being served.
    site = service.site
    files = site.files if site.loaded else await asyncio.to_thread(lambda: site.files)
    if not files:
        raise _nothing("the pages are not built: `make web` builds them")
    if name not in files:
        raise _nothing("there is no such file")
    return files[name]


def _nothing(detail: str) -> Problem:
    return Problem(404, "not_found", detail)


def _page(path: str) -> Route:
    return Route(
        method="GET",
        path=path,
        handle=page,
        roles=ANYBODY,
        summary="A page",
        answers={200: str, 304: None},
        media="text/html",
        reasons={404: ("not_found",)},
        headers=("If-None-Match",),
        hidden=True,
    )


ROUTES = [
    Route(
        method="GET",
        path="/",
        handle=home,
        roles=ANYBODY,
        summary="The list of events; where there are no pages it leads to /docs",
        answers={200: str, 302: None, 304: None},
        media="text/html",
        headers=("If-None-Match",),
        hidden=True,
    ),
    *map(_page, ("/e/{event}", "/lab", "/ops", "/design")),
    Route(
        method="GET",
        path="/assets/{name}",
        handle=asset,
        roles=ANYBODY,
        summary="What the pages are made of",
        answers={200: bytes, 304: None},
        media="*/*",
        reasons={404: ("not_found",)},
        headers=("If-None-Match",),
        hidden=True,
    ),
    Route(
        method="GET",
        path="/pages.json",
        handle=about,
        roles=ANYBODY,
        summary="What the pages have to know of this deployment",
        answers={200: About},
        reasons={404: ("not_found",)},
        hidden=True,
    ),
]
