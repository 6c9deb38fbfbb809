"""From what is answered to the messages of ASGI."""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from holdfast.api.arriving import Receive
from holdfast.api.calls import Reply
from holdfast.api.exchange import Exchange
from holdfast.api.problems import CONTENT_TYPE, Problem

Send = Callable[[Any], Awaitable[None]]  # messages of ASGI
Header = tuple[bytes, bytes]

JSON: Header = (b"content-type", b"application/json")
PROBLEM: Header = (b"content-type", CONTENT_TYPE.encode())
HEAD = b"x-request-id: %b\r\ncontent-length: %d\r\ncontent-type: %b\r\n"
BODILESS = (204, 304)
NONE: Mapping[str, str] = {}
OUR_FAULT = Reply(500, Problem(500, "internal", "our fault; it is in the log").body())

log = logging.getLogger("holdfast.api")


def say(exchange: Exchange, answer: Reply, request_id: str, *, head: bool) -> bool:
    """Says it at once, if it is as nearly all are; whether it was."""
    status, body, headers, kind, stream = answer
    if stream is not None or headers or kind is not None or not body:
        return False
    said = (request_id.encode(), len(body), JSON[1] if status < 400 else PROBLEM[1])
    exchange.answer(status, HEAD % said, b"" if head else body)
    return True


async def send(
    to: Send,
    receive: Receive,
    answer: Reply,
    request_id: str,
    extra: Mapping[str, str] = NONE,
    *,
    head: bool = False,
) -> None:
    """Says it; with `head` all but its body."""
    try:
        headers = _headers(answer, request_id, extra)
    except Exception:  # whatever it is, the caller gets an answer
        log.exception("an answer could not be written")
        answer = OUR_FAULT
        headers = _headers(answer, request_id, NONE)
    start = {"type": "http.response.start", "status": answer.status, "headers": headers}
    if answer.stream is not None:
        await _send_parts(to, start, answer.stream(receive))
        return
    await to(start)
    await to({"type": "http.response.body", "body": b"" if head else answer.body})


def _headers(answer: Reply, request_id: str, extra: Mapping[str, str]) -> list[Header]:
    headers = [(b"x-request-id", request_id.encode())]
    status, body = answer.status, answer.body
    if body or status not in BODILESS:
        if answer.stream is None:
            headers.append((b"content-length", b"%d" % len(body)))
        if answer.content_type is not None:
            headers.append((b"content-type", answer.content_type.encode()))
        else:
            headers.append(JSON if status < 400 else PROBLEM)
    if extra or answer.headers:
        headers.extend(_more(extra, answer.headers or NONE))
    return headers


def _more(extra: Mapping[str, str], own: Mapping[str, str]) -> Iterator[Header]:
    for name, value in {**extra, **own}.items():
        if name == "Vary" and name in extra and name in own:
            value = f"{extra[name]}, {own[name]}"
        yield name.lower().encode(), value.encode("latin-1")


async def _send_parts(to: Send, start: Any, parts: Any) -> None:  # of what can be closed
    try:
        await to(start)
        async for part in parts:
            await to({"type": "http.response.body", "body": part, "more_body": True})
    finally:
        await parts.close()
    await to({"type": "http.response.body", "body": b""})
