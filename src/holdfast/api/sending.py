"""From what is answered to the messages of ASGI."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from holdfast.api.arriving import Receive
from holdfast.api.calls import Reply
from holdfast.api.problems import CONTENT_TYPE

Send = Callable[[Any], Awaitable[None]]  # messages of ASGI
Header = tuple[bytes, bytes]

JSON: Header = (b"content-type", b"application/json")
PROBLEM: Header = (b"content-type", CONTENT_TYPE.encode())
BODILESS = (204, 304)
NONE: Mapping[str, str] = {}


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
    await to({"type": "http.response.start", "status": status, "headers": headers})
    if answer.stream is None:
        await to({"type": "http.response.body", "body": b"" if head else body})
    else:
        await _send_parts(to, answer.stream(receive))


def _more(extra: Mapping[str, str], own: Mapping[str, str]) -> Iterator[Header]:
    for name, value in {**extra, **own}.items():
        if name == "Vary" and name in extra and name in own:
            value = f"{extra[name]}, {own[name]}"
        yield name.lower().encode(), value.encode("latin-1")


async def _send_parts(to: Send, parts: Any) -> None:  # an iterator that can be closed
    try:
        async for part in parts:
            await to({"type": "http.response.body", "body": part, "more_body": True})
    finally:
        await parts.close()
    await to({"type": "http.response.body", "body": b""})
