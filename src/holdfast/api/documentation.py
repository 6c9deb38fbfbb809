"""The document and the page that shows it: /openapi.json and /docs."""

import base64
import hashlib
import re
import zlib
from collections.abc import Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import msgspec

from holdfast.api.calls import Call, Reply
from holdfast.api.encodings import sent
from holdfast.api.openapi import document
from holdfast.api.reference import Block, Code, Heading, Table, Text, reference
from holdfast.api.routes import ANYBODY, Route
from holdfast.api.service import Service
from holdfast.pages.site import File

CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\[([^\]`]+)\]\(#([\w-]+)\)")
HTML = "text/html; charset=utf-8"


class Documentation:
    """Made when it is first asked for, once a process."""

    def __init__(self, table: Sequence[Route]) -> None:
        self._table = table

    async def openapi(self, service: Service, call: Call) -> Reply:
        return sent(call, self._document, {})

    async def docs(self, service: Service, call: Call) -> Reply:
        file, guards = self._page
        return sent(call, file, guards)

    @cached_property
    def _document(self) -> File:
        return _file("application/json", msgspec.json.encode(document(self._table)))

    @cached_property
    def _page(self) -> tuple[File, dict[str, str]]:
        text, policy = page(reference(document(self._table)))
        guards = {
            "Content-Security-Policy": policy,
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
        return _file(HTML, text.encode()), guards


def routes(table: Sequence[Route]) -> list[Route]:
    """The two routes that show a table, which may grow until the first of them is called."""
    shown = Documentation(table)
    common: dict[str, Any] = {
        "method": "GET",
        "roles": ANYBODY,
        "headers": ("If-None-Match",),
    }
    return [
        Route(
            **common,
            path="/openapi.json",
            handle=shown.openapi,
            operation="getDocument",
            summary="The OpenAPI document",
            answers={200: dict[str, Any], 304: None},
        ),
        Route(
            **common,
            path="/docs",
            handle=shown.docs,
            operation="getDocs",
            summary="The same, for people",
            answers={200: str, 304: None},
            media="text/html",
        ),
    ]


def _file(media: str, body: bytes) -> File:
    """Compressed once, for all who will ask."""
    return File(
        media=media,
        forms={"gzip": zlib.compress(body, zlib.Z_BEST_COMPRESSION, wbits=31), "identity": body},
        digest=hashlib.blake2b(body, digest_size=12).hexdigest(),
        lasting=False,
    )


def page(blocks: list[Block]) -> tuple[str, str]:
    """The page, and the policy under which it works: its own style, and nothing else at all."""
    folder = Path(__file__).parent
    style = (folder / "docs.css").read_text(encoding="utf-8")
    template = Template((folder / "docs.html").read_text(encoding="utf-8"))
    text = template.substitute(
        style=style,
        navigation="\n".join(
            f'<li class="level{block.level}"><a href="#{escape(block.id)}">{escape(block.text)}</a>'
            for block in blocks
            if isinstance(block, Heading) and block.level > 1
        ),
        body="\n".join(map(_html, blocks)),
    )
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
    return text, policy + "form-action 'none'; frame-ancestors 'none'"


def _html(block: Block) -> str:
    match block:
        case Heading(level, text, id):
            return f'<h{level} id="{escape(id)}">{escape(text)}</h{level}>'
        case Text(text):
            return f"<p>{_inline(text)}</p>"
        case Code(_, text):
            return f'<pre tabindex="0"><code>{escape(text)}</code></pre>'
        case Table(head, rows):
            top = "".join(f"<th>{_inline(cell)}" for cell in head)
            lines = "".join(
                f"<tr>{''.join(f'<td>{_inline(cell)}' for cell in row)}" for row in rows
            )
            return f'<div class="table"><table><tr>{top}{lines}</table></div>'


def _inline(text: str) -> str:
    """Escaped first; what is marked then holds nothing that could be markup."""
    text = CODE.sub(r"<code>\1</code>", escape(text))
    return LINK.sub(r'<a href="#\2">\1</a>', text)
