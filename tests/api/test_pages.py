"""The pages as they are served: which file, in which form, kept for how long, under which guard;
and the key that they call with."""

import asyncio
import gzip
import json
import re
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, cast

import falcon.testing
import pytest

import holdfast
from holdfast.api.app import App
from holdfast.api.encodings import choose
from holdfast.api.keys import KIND, Keys, Role, key_id, pages_key
from holdfast.api.pages import POLICY
from holdfast.api.service import Service
from holdfast.engine import Holdfast
from holdfast.pages.site import HASHED, Site
from holdfast.stores.memory import MemoryStore
from tests.api.serving import HOLDFAST, serving

PATHS = ("/", "/e/opening-night", "/lab", "/ops", "/design")
INDEX = b"<!doctype html><title>Holdfast</title>"
SCRIPT = b"export {};" * 100
FILES = {
    "index.html": INDEX,
    "secret.txt": b"not a page",
    "assets/app-C9f_-3xK.js": SCRIPT,
    # Nobody unpacks these here, so they need not be what they pretend to be.
    "assets/app-C9f_-3xK.js.br": b"as brotli",
    "assets/app-C9f_-3xK.js.gz": gzip.compress(SCRIPT),
    "assets/app-Bq81xZ0p.css": b"body{}",
    "assets/icon-AAAAAAAA.svg": b"<svg/>",
    "assets/robots.txt": b"a name without a hash",
    "assets/odd-AAAAAAAA.wasm": b"",
}
SCRIPT_PATH = "/assets/app-C9f_-3xK.js"


def build(folder: Path) -> None:
    for name, body in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)


class Served:
    def __init__(self, service: Service, client: falcon.testing.ASGIConductor) -> None:
        self.service = service
        self._client = client

    async def call(self, path: str, method: str = "GET", **headers: str) -> Any:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self._client.simulate_request(method, path, headers=sent)

    async def about(self) -> dict[str, Any]:
        told: dict[str, Any] = (await self.call("/pages.json")).json
        return told


@asynccontextmanager
async def served(folder: Path, **settings: Any) -> AsyncIterator[Served]:
    """The application itself, on a build of its own."""
    shop = Holdfast.open(**{"store": "memory://", **settings}, upkeep=False)
    async with Service(shop, upkeep=False) as service:
        service.site = Site(folder)
        app: Any = App(service)

        def listed(scope: Any, receive: Any, send: Any) -> Any:
            """Falcon's client gives iterators where servers give a list of pairs."""
            headers = [tuple(each) for each in scope.get("headers", ())]
            return app({**scope, "headers": headers}, receive, send)

        client: Any = falcon.testing.ASGIConductor(cast(Any, listed))
        async with client:
            yield Served(service, client)


@pytest.fixture
async def site(tmp_path) -> AsyncIterator[Served]:
    build(tmp_path)
    async with served(tmp_path) as it:
        yield it


# Pages


@pytest.mark.parametrize("path", PATHS)
async def test_every_page_is_one_document_under_a_strict_policy(site, path):
    answer = await site.call(path)
    assert (answer.status_code, answer.content) == (200, INDEX)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-frame-options"] == "DENY"
    assert "set-cookie" not in answer.headers


async def test_a_page_is_asked_for_again_and_not_sent_again(site):
    answer = await site.call("/lab")
    assert answer.headers["cache-control"] == "no-cache"
    same = await site.call("/ops", If_None_Match=answer.headers["etag"])
    assert (same.status_code, same.content) == (304, b"")
    assert same.headers["etag"] == answer.headers["etag"]
    assert "content-security-policy" in same.headers
    assert (await site.call("/", If_None_Match='"another"')).status_code == 200


async def test_a_head_is_all_but_the_body(site):
    for path in (*PATHS, SCRIPT_PATH, "/pages.json"):
        whole, head = await site.call(path), await site.call(path, "HEAD")
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == str(len(whole.content))
        told = [dict(answer.headers) for answer in (whole, head)]
        for each in told:
            del each["x-request-id"]
        assert told[0] == told[1]


# What they are made of


@pytest.mark.parametrize(
    ("path", "media"),
    [
        (SCRIPT_PATH, "text/javascript; charset=utf-8"),
        ("/assets/app-Bq81xZ0p.css", "text/css; charset=utf-8"),
        ("/assets/icon-AAAAAAAA.svg", "image/svg+xml"),
        ("/assets/robots.txt", "text/plain; charset=utf-8"),
        ("/assets/odd-AAAAAAAA.wasm", "application/octet-stream"),
    ],
)
async def test_a_file_is_what_its_name_says(site, path, media):
    answer = await site.call(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, media)
    assert answer.content == FILES[path[1:]]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


async def test_only_what_never_changes_under_its_name_is_kept_for_ever(site):
    lasting = await site.call(SCRIPT_PATH)
    assert lasting.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert (await site.call("/assets/robots.txt")).headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip, deflate", "gzip"),
        ("br;q=0.1, gzip", "gzip"),
        ("identity", None),
    ],
)
async def test_a_file_comes_in_the_form_that_is_liked_most(site, accept, form):
    answer = await site.call(SCRIPT_PATH, Accept_Encoding=accept)
    suffix = {"br": ".br", "gzip": ".gz", None: ""}[form]
    assert answer.content == FILES[SCRIPT_PATH[1:] + suffix]
    assert answer.headers.get("content-encoding") == form
    assert answer.headers["vary"] == "Accept-Encoding"
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"


async def test_what_lies_there_in_one_form_comes_in_that_one(site):
    answer = await site.call("/assets/icon-AAAAAAAA.svg", Accept_Encoding="br, gzip")
    assert "content-encoding" not in answer.headers
    assert answer.content == b"<svg/>"


async def test_each_form_has_a_tag_of_its_own_and_any_of_them_is_known(site):
    forms = ("br", "gzip", "identity")
    tags = [(await site.call(SCRIPT_PATH, Accept_Encoding=form)).headers["etag"] for form in forms]
    assert len(set(tags)) == 3
    known = [*tags, f"W/{tags[0]}", f'"another", {tags[1]}', "*"]
    for tag in known:
        answer = await site.call(SCRIPT_PATH, Accept_Encoding="br", If_None_Match=tag)
        assert (answer.status_code, answer.content) == (304, b"")
        assert (answer.headers["etag"], answer.headers["vary"]) == (tags[0], "Accept-Encoding")
        assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize(
    "path",
    [
        "/assets/nothing.js",
        "/assets/app-C9f_-3xK.js.br",
        "/assets/",
        "/assets/..%2Fsecret.txt",
        "/assets/%2e%2e%2fsecret.txt",
        "/assets/..",
        "/assets/../secret.txt",
        "/assets/%2Fetc%2Fpasswd",
        "/assets/..%5Csecret.txt",
        "/assets/index.html",
        "/assets/%00",
        "/index.html",
        "/secret.txt",
        "/e/a/b",
    ],
)
async def test_nothing_else_can_be_reached(site, path):
    answer = await site.call(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["reason"] == "not_found"
    assert "immutable" not in answer.headers.get("cache-control", "")


BROWSER = "text/html,application/xhtml+xml,*/*;q=0.8"


@pytest.mark.parametrize("path", ["/nope", "/e/a/b", "/labs", "/index.html"])
async def test_a_person_who_mistyped_gets_a_page_that_says_so(site, path):
    answer = await site.call(path, Accept=BROWSER, If_None_Match="*")
    assert (answer.status_code, answer.content) == (404, INDEX)
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-request-id"]


async def test_a_program_that_mistyped_gets_a_problem(site):
    assert (await site.call("/v1/nope", Accept=BROWSER)).json["reason"] == "not_found"
    assert (await site.call("/nope", Accept="*/*")).json["reason"] == "not_found"


@pytest.mark.parametrize(
    ("path", "leads_to"),
    [
        ("/lab/", "/lab"),
        ("/ops//", "/ops"),
        ("/design/", "/design"),
        ("/e/demo-night/", "/e/demo-night"),
        ("/e/a%0Ab%20c/", "/e/a%0Ab%20c"),
    ],
)
async def test_a_slash_too_many_leads_to_the_page(site, path, leads_to):
    answer = await site.call(path, Accept=BROWSER)
    assert (answer.status_code, answer.headers["location"]) == (308, leads_to)


async def test_files_are_read_once(site, tmp_path):
    assert (await site.call(SCRIPT_PATH)).status_code == 200
    for name in FILES:
        (tmp_path / name).unlink()
    assert (await site.call("/")).content == INDEX
    assert (await site.call(SCRIPT_PATH)).content == SCRIPT


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        (None, "identity"),
        ("", "identity"),
        ("br", "br"),
        ("BR", "br"),
        ("gzip, br", "br"),
        ("gzip;q=1.0, br;q=0.999", "gzip"),
        ("gzip ; q = 0.5 , br;q=0.4", "gzip"),
        ("br;q=0, gzip", "gzip"),
        ("br;q=0, gzip;q=0.000", "identity"),
        ("br;q=0.001", "br"),
        ("*", "br"),
        ("*, br;q=0", "gzip"),
        ("gzip, *;q=0", "gzip"),
        ("identity, br;q=0.5", "identity"),
        ("deflate", "identity"),
        ("brotli", "identity"),
        ("identity;q=0", "identity"),
        ("br;q=banana", "identity"),
        (";;,,=", "identity"),
    ],
)
def test_the_form_is_chosen_as_the_standard_says(accept, chosen):
    assert choose(accept, ("br", "gzip", "identity")) == chosen


# Without them


async def test_without_a_build_home_leads_to_the_docs(tmp_path):
    async with served(tmp_path) as site:
        answer = await site.call("/")
        assert (answer.status_code, answer.headers["location"]) == (302, "/docs")
        for path in (*PATHS[1:], SCRIPT_PATH):
            answer = await site.call(path)
            assert (answer.status_code, answer.json["reason"]) == (404, "not_found")
            assert "make web" in answer.json["detail"]
        # `npm run dev` needs it.
        assert (await site.about())["key"]
        # A build that comes later is found.
        build(tmp_path)
        for path in PATHS:
            assert (await site.call(path)).content == INDEX


async def test_pages_that_are_off_are_not_there(tmp_path):
    build(tmp_path)
    async with served(tmp_path, pages="off") as site:
        answer = await site.call("/")
        assert (answer.status_code, answer.headers["location"]) == (302, "/docs")
        for path in (*PATHS[1:], SCRIPT_PATH, "/pages.json"):
            assert (await site.call(path)).status_code == 404
        assert await site.service.keys.all() == []


# What they are told, and their key


async def test_the_pages_are_told_what_they_have_to_know(tmp_path):
    async with served(tmp_path) as site:
        about = await site.about()
        assert about == {
            "version": holdfast.__version__,
            "key": about["key"],
            "lab": "admin",
            "payments": "none",
            "gate": False,
        }
        assert (await site.call("/pages.json")).headers["cache-control"] == "no-store"
    other = {"payments": "sandbox+http://127.0.0.1:1", "lab": "open", "gate": "memory://"}
    async with served(tmp_path, **other) as site:
        about = await site.about()
        assert (about["payments"], about["lab"], about["gate"]) == ("sandbox", "open", True)


async def test_the_pages_call_with_a_public_key_of_their_own(site):
    key = (await site.about())["key"]
    (kept,) = await site.service.keys.all()
    assert (kept.id, kept.role, kept.name) == (key_id(key), Role.PUBLIC, "pages")
    bearer = f"Bearer {key}"
    assert (await site.call("/v1/events", Authorization=bearer)).status_code == 200
    assert (await site.call("/v1/system", Authorization=bearer)).status_code == 403
    assert (await site.call("/v1/buyers", "POST", Authorization=bearer)).status_code == 201


def test_the_key_is_the_deployments_own():
    ours = pages_key(b"the secret of a deployment")
    assert ours == pages_key(b"the secret of a deployment") != pages_key(b"another secret")
    assert re.fullmatch(r"hf_public_[\w-]{32}", ours)


async def test_of_those_who_start_at_once_one_writes_the_key():
    store = MemoryStore()
    processes = [Keys(store) for _ in range(5)]
    key = pages_key(b"a secret")
    await asyncio.gather(*(keys.ensure_pages(key) for keys in processes))
    documents, _ = await store.documents(KIND)
    assert len(documents) == 1
    assert all(keys.find(key) for keys in processes)


async def test_a_key_that_was_revoked_stays_revoked():
    store = MemoryStore()
    keys, key = Keys(store), pages_key(b"a secret")
    await keys.ensure_pages(key)
    await keys.revoke(key)
    for again in (keys, Keys(store)):
        await again.ensure_pages(key)
        assert again.find(key) is None
    (kept,) = await keys.all()
    assert kept.revoked_ms is not None


@pytest.mark.slow
def test_workers_share_the_key_and_a_revoked_one_is_gone_for_good(tmp_path):
    store = f"sqlite:///{tmp_path / 'shop.db'}"

    def listed(environment: dict[str, str]) -> list[dict[str, Any]]:
        command = [*HOLDFAST, "keys", "list", "--json"]
        done = subprocess.run(command, env=environment, check=True, capture_output=True)
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return [key for key in found if key["name"] == "pages"]

    with serving(store, "--workers", "3", cwd=tmp_path, sqlite_synchronous="NORMAL") as it:
        (kept,) = listed(it.environment)
        assert kept["role"] == "public"
        key = it.call("GET", "/pages.json", key=None).json()["key"]
        assert it.call("GET", "/v1/events", key=key).status_code == 200
        revoke = [*HOLDFAST, "keys", "revoke", kept["id"]]
        subprocess.run(revoke, env=it.environment, check=True, capture_output=True)
        over = time.monotonic() + 2
        while it.call("GET", "/pages.json", key=None).json()["key"] is not None:
            assert time.monotonic() < over, "a revoked key was still handed out"
        assert it.call("GET", "/v1/events", key=key).status_code == 401
    with serving(store, cwd=tmp_path, sqlite_synchronous="NORMAL") as it:
        assert it.call("GET", "/pages.json", key=None).json()["key"] is None
        assert len(listed(it.environment)) == 1


# What was built


class Document(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.inline: list[str] = []
        self._within = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._within = tag
        self.links += [link for name in ("href", "src") if (link := given.get(name))]
        self.inline += [name for name in given if name == "style" or name.startswith("on")]

    def handle_data(self, data: str) -> None:
        if self._within in ("script", "style") and data.strip():
            self.inline.append(data)


@pytest.mark.skipif(not Site().built, reason="the pages are not built: make web")
def test_the_build_needs_nothing_but_itself_and_can_be_kept():
    files = Site().files
    document = Document(files["index.html"].forms["identity"].decode())
    assert document.inline == []
    assert document.links
    assert {link.removeprefix("/") for link in document.links} <= files.keys()
    for name, file in files.items():
        if name != "index.html":
            assert HASHED.fullmatch(Path(name).name), name
            assert file.lasting
        if name.endswith((".js", ".css", ".svg")):
            assert file.forms.keys() == {"br", "gzip", "identity"}, name
            assert gzip.decompress(file.forms["gzip"]) == file.forms["identity"]
        assert file.media != "application/octet-stream", name
