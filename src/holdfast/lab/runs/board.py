"""Runs as documents in the store: any worker can answer for them, and they are there to compare.

One run goes on at a time, of all workers. Whoever performs it has a claim with an end, by the
authority's clock, and lengthens it as he goes: if he dies the claim lapses, and with it the run.
"""

import asyncio

import msgspec
from msgspec.structs import replace

from holdfast.domain.model import Millis
from holdfast.domain.views import Document
from holdfast.errors import CommitUnknown, HoldfastError
from holdfast.lab.runs.trials import Run
from holdfast.ports import Store

CLAIM_KIND = "lab_claim"
CLAIM_ID = "current"
RUN_KIND = "lab_run"
CLAIM_MS: Millis = 10_000
RELEASE_SECONDS = 0.02
RELEASE_LOOKS = 50
"""At a claim whose run is over: it ends in a moment, unless who performed it died just then."""
RUNS_MAX = 50
"""That are kept: the oldest make room."""
DIED = "the process that performed it ended"


class Lost(HoldfastError):
    """Somebody else has the claim: it had lapsed."""


class Claim(msgspec.Struct, frozen=True):
    run: str
    until_ms: Millis
    """0: its run is over, and left nothing."""
    tables: bool = False
    """Whether tables may be left of it, should it not end well."""


_read_claim = msgspec.json.Decoder(Claim).decode
_read_run = msgspec.json.Decoder(Run).decode
_encode = msgspec.json.Encoder().encode


class Board:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._claim: Document | None = None
        self._run: Document | None = None

    async def claim(self, run: Run, *, tables: bool) -> tuple[Run, Claim | None] | None:
        """The run, begun, and the claim that somebody who died has left; None while one goes on."""
        found, now = await self._last_claim()
        left = _read_claim(found[0].body) if found else None
        if left is not None and left.until_ms > now:
            return None
        version = found[0].version + 1 if found else 1
        # What was left stays to be dropped, should this run not come to it either.
        tables = tables or (left is not None and left.until_ms != 0 and left.tables)
        claim = _document(CLAIM_KIND, CLAIM_ID, version, Claim(run.id, now + CLAIM_MS, tables))
        if not await self._store.put(claim):
            return None
        self._claim = claim
        run = replace(run, created_ms=now)
        self._run = _document(RUN_KIND, run.id, 1, run)
        if not await self._store.put(self._run):
            raise Lost(f"there is a run {run.id} already")
        return run, left if left is not None and left.until_ms else None

    async def _last_claim(self) -> tuple[list[Document], Millis]:
        """Whoever was told that a run is over may begin the next, though its claim stands still."""
        for _ in range(RELEASE_LOOKS):
            found, now = await self._store.documents(CLAIM_KIND, CLAIM_ID)
            claim = _read_claim(found[0].body) if found else None
            if claim is None or claim.until_ms <= now or not await self._is_over(claim.run):
                break
            await asyncio.sleep(RELEASE_SECONDS)
        return found, now

    async def _is_over(self, id: str) -> bool:
        found, _ = await self._store.documents(RUN_KIND, id)
        return bool(found) and _read_run(found[0].body).state != "running"

    async def lengthen(self) -> None:
        """Raises Lost where it is too late for that."""
        assert self._claim is not None
        _, now = await self._store.documents(CLAIM_KIND, CLAIM_ID)
        held = replace(_read_claim(self._claim.body), until_ms=now + CLAIM_MS)
        self._claim = await self._replace(self._claim, held)

    async def release(self, *, clean: bool) -> None:
        """The next may begin. What is not `clean` is left for it to clean up."""
        assert self._claim is not None
        held = _read_claim(self._claim.body)
        until = 0 if clean else 1
        self._claim = await self._replace(self._claim, replace(held, until_ms=until))

    async def save(self, run: Run) -> None:
        assert self._run is not None
        self._run = await self._replace(self._run, run)

    async def _replace(self, last: Document, value: Claim | Run) -> Document:
        new = _document(last.kind, last.id, last.version + 1, value)
        try:
            written = await self._store.put(new)
        except CommitUnknown:
            found, _ = await self._store.documents(last.kind, last.id)
            written = found[:1] == [new]
            if not written and found[:1] == [last]:
                return last  # it was not; the next time will do
        if not written:
            raise Lost("this run was given up: another has begun")
        return new

    async def find(self, id: str) -> Run | None:
        found, _ = await self._store.documents(RUN_KIND, id)
        return (await self._seen([_read_run(found[0].body)]))[0] if found else None

    async def all(self) -> list[Run]:
        """Newest first."""
        found, _ = await self._store.documents(RUN_KIND)
        runs = sorted((_read_run(each.body) for each in found), key=_age, reverse=True)
        return (await self._seen(runs))[:RUNS_MAX]

    async def _seen(self, runs: list[Run]) -> list[Run]:
        """A run whose performer is no more has failed, whatever he wrote last."""
        if all(run.state != "running" for run in runs):
            return runs
        found, now = await self._store.documents(CLAIM_KIND, CLAIM_ID)
        claim = _read_claim(found[0].body) if found else None
        alive = claim.run if claim is not None and claim.until_ms > now else None
        return [
            await self._look_again(run) if run.state == "running" and run.id != alive else run
            for run in runs
        ]

    async def _look_again(self, run: Run) -> Run:
        """It may have ended well since it was looked at: that is written before the claim ends."""
        found, _ = await self._store.documents(RUN_KIND, run.id)
        last = _read_run(found[0].body) if found else run
        return last if last.state != "running" else replace(last, state="failed", error=DIED)

    async def bury(self, id: str) -> None:
        """Writes down that the run of somebody who died has failed."""
        found, _ = await self._store.documents(RUN_KIND, id)
        if found and (run := _read_run(found[0].body)).state == "running":
            failed = replace(run, state="failed", error=DIED)
            await self._store.put(_document(RUN_KIND, id, found[0].version + 1, failed))

    async def prune(self) -> None:
        found, _ = await self._store.documents(RUN_KIND)
        ranked = sorted(found, key=lambda each: _age(_read_run(each.body)), reverse=True)
        for document in ranked[RUNS_MAX:]:
            await self._store.drop(RUN_KIND, document.id, document.version)


def _age(run: Run) -> tuple[Millis, str]:
    return run.created_ms, run.id


def _document(kind: str, id: str, version: int, value: Claim | Run) -> Document:
    return Document(kind, id, version, _encode(value).decode())
