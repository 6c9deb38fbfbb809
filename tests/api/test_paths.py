"""From a path to its endpoint: where a crowd goes is kept, within its limits."""

from typing import Any

import pytest

from holdfast.api import app
from holdfast.api.app import App
from holdfast.api.service import Service
from holdfast.engine import Holdfast


@pytest.fixture
async def routed():
    shop = Holdfast.open("memory://", log_level="error")
    async with Service(shop, upkeep=False) as service:
        yield App(service)


async def status(routed: App, path: str, method: str = "POST") -> int:
    """What a caller without a key is told there: 401 wherever something is."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": []}
    await routed(scope, receive, send)
    return int(sent[0]["status"])


async def test_a_path_leads_to_the_same_place_when_it_is_asked_for_again(routed):
    for _ in range(2):
        assert await status(routed, "/v1/events/e1/holds") == 401
        assert await status(routed, "/v1/events/e1/holds", "PUT") == 405
        assert await status(routed, "/v1/nowhere") == 404
    found = routed._found["/v1/events/e1/holds"]
    assert found[2] == {"event": "e1"}
    assert "/v1/nowhere" not in routed._found


async def test_no_more_paths_are_kept_than_may_be_and_none_of_holds(routed, monkeypatch):
    monkeypatch.setattr(app, "PATHS_KEPT_MAX", 10)
    for n in range(35):
        await status(routed, f"/v1/events/e{n}/holds")
        await status(routed, f"/v1/holds/e1.{n}/pay")
        assert len(routed._found) <= 10
    assert await status(routed, f"/v1/events/{'e' * app.PATH_CHARS_KEPT}/holds") == 401
    assert all(len(path) < 40 and "/v1/holds/" not in path for path in routed._found)
