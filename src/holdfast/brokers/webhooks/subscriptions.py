"""Who gets which facts: each subscription is a document, read anew by every process each second.

Its secrets are in it as they are, for they sign; they are shown once. One that was removed is
remembered for a day: to remove it again, or to make it again under the same Idempotency-Key, is
answered as it was the first time.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.brokers.webhooks.guard import url_fault
from holdfast.brokers.webhooks.retries import KIND as RETRY_KIND
from holdfast.brokers.webhooks.retries import Retry
from holdfast.brokers.webhooks.signing import new_secret
from holdfast.domain import facts
from holdfast.domain.cloudevents import fact_id
from holdfast.domain.faults import Fault
from holdfast.domain.model import Millis
from holdfast.domain.views import Document, Move
from holdfast.errors import CommitUnknown, StoreBusy
from holdfast.ids import Ids, is_event_id
from holdfast.ports import Store

KIND = "webhook"
WEBHOOK_ID = re.compile("wh_[A-Za-z0-9]{1,64}")
FOLLOWER = "webhook:"
WEBHOOKS_MAX = 100
EVENTS_MAX = 50
SUBJECTS_MAX = 500
DESCRIPTION_CHARS_MAX = 200
SECRETS_MAX = 10
"""That sign at a time: each is a signature in every message."""
SECRETS_KEPT_MAX = 50
"""With those that sign no more but are remembered for a day."""
KEEP_SECONDS = 24 * 3600
KEEP_SECONDS_MAX = 7 * 24 * 3600
REMEMBERED_MS: Millis = 24 * 3600 * 1000
REMOVED_MAX = 1_000
REASON_CHARS_MAX = 300
SPELL_GAP_MS: Millis = 48 * 3600 * 1000
"""Failures further apart than this are not one spell: while something waits, it is tried daily."""
SPELL_NOTED_MS: Millis = 3600 * 1000
AWAITED_MS: Millis = 3 * 24 * 3600 * 1000
"""So long after its last failure, what a disabled subscription has not got is kept for it."""
TRIES_MAX = 20
"""Others write the same document."""

TYPES = tuple(
    sorted(
        value
        for name, value in vars(facts).items()
        if name.isupper() and isinstance(value, str) and "." in value
    )
)
FILTERS = ("*", *sorted({f"{each.partition('.')[0]}.*" for each in TYPES}), *TYPES)
"""What a subscription may name."""


class State(StrEnum):
    ACTIVE = "active"
    DISABLED = "disabled"


class Secret(msgspec.Struct, frozen=True, omit_defaults=True):
    value: str
    created_ms: Millis
    end_ms: Millis | None = None
    """When it signs no more; None: it is the newest."""
    key: str = ""
    """The Idempotency-Key that it was made under, hashed."""


class Webhook(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    url: str
    events: tuple[str, ...]
    secrets: tuple[Secret, ...]
    """The newest first."""
    created_ms: Millis
    subjects: tuple[str, ...] | None = None
    """Events of the shop; None: all of them."""
    description: str = ""
    state: State = State.ACTIVE
    reason: str | None = None
    """Why it is disabled."""
    failing_since_ms: Millis | None = None
    """Since when nothing has been delivered and something has failed."""
    failed_ms: Millis = 0
    """About when it failed last."""
    turn: int = 1
    """Grows when it is enabled: what waited before that is tried at once."""
    removed_ms: Millis | None = None

    @property
    def follower(self) -> str:
        return FOLLOWER + self.id

    @property
    def live(self) -> bool:
        return self.state is State.ACTIVE and self.removed_ms is None

    def wants(self, type: str) -> bool:
        group = f"{type.partition('.')[0]}.*"
        return "*" in self.events or type in self.events or group in self.events

    def follows(self, event: str) -> bool:
        return self.subjects is None or event in self.subjects

    def signers(self, now_ms: Millis) -> list[str]:
        """The secrets that sign now."""
        return [each.value for each in self.secrets if each.end_ms is None or each.end_ms > now_ms]


class LastFailure(NamedTuple):
    """Of those facts of a subscription that wait to be tried again, the one that failed last."""

    fact: str
    reason: str
    at_ms: Millis
    attempts: int
    next_try_ms: Millis | None
    """None: at once, since it was enabled; or not at all, while it is disabled."""


_read = msgspec.json.Decoder(Webhook).decode
_read_retry = msgspec.json.Decoder(Retry).decode
_encode = msgspec.json.Encoder().encode


class Made(NamedTuple):
    webhook: Webhook
    secret: str
    replayed: bool = False


class Rotated(NamedTuple):
    webhook: Webhook
    secret: Secret
    previous_until_ms: Millis
    replayed: bool = False


class Crowded(NamedTuple):
    """There is no room for another secret."""

    wait_ms: Millis
    """So long, until one of those that are there has ended."""
    detail: str


def faults_of(
    url: str,
    events: Sequence[str],
    subjects: Sequence[str] | None = None,
    *,
    internal: bool = False,
) -> list[Fault]:
    """Everything that is wrong with a subscription that somebody wants."""
    found = []
    if fault := url_fault(url, internal=internal):
        found.append(Fault("url", fault, repr(url[:80])))
    if not 0 < len(events) <= EVENTS_MAX:
        found.append(Fault("events", f"must name 1 to {EVENTS_MAX} types of facts, or *"))
    known = ", ".join(FILTERS)
    for nth, each in enumerate(events[:EVENTS_MAX]):
        if each not in FILTERS:
            found.append(Fault(f"events[{nth}]", f"must be one of {known}", repr(each[:80])))
    if subjects is not None and not 0 < len(subjects) <= SUBJECTS_MAX:
        found.append(Fault("subjects", f"must name 1 to {SUBJECTS_MAX} events; all: leave it out"))
    for nth, each in enumerate((subjects or ())[:SUBJECTS_MAX]):
        if not is_event_id(each):
            found.append(Fault(f"subjects[{nth}]", "is not the id of an event", repr(each[:80])))
    return found


def webhook_id() -> str:
    return f"wh_{Ids().new()}"


def _free_id(key: str, found: list[tuple[Webhook, int]], now: Millis) -> str:
    """The id of what is made under a key: within a day the same, so that it is made once."""
    known = {each.id: each for each, _ in found}
    for nth in range(len(known) + 1):
        asked = f"{key}/{nth}".encode()
        id = f"wh_{hashlib.blake2b(asked, digest_size=16).hexdigest()}"
        if id not in known or now - known[id].created_ms <= REMEMBERED_MS:
            break
    return id


def _under(webhook: Webhook, key: str, now: Millis) -> int | None:
    """The place of the secret that was made under a key within a day."""
    for nth, each in enumerate(webhook.secrets):
        if key and each.key == key and now - each.created_ms <= REMEMBERED_MS:
            return nth
    return None


def _remembered(secret: Secret, now: Millis) -> bool:
    """For a day after it has signed last: under its Idempotency-Key it is shown again."""
    return secret.end_ms is None or secret.end_ms + REMEMBERED_MS >= now


def _crowded(kept: Sequence[Secret], there: Sequence[Secret], now: Millis) -> Crowded | None:
    """Whether those that a rotation would keep are too many, and how long those that are there
    leave no room."""
    ends = sorted(each.end_ms for each in there if each.end_ms and _remembered(each, now))
    live = [end for end in ends if end > now]
    over = sum(each.end_ms is None or each.end_ms > now for each in kept) - SECRETS_MAX
    if over > 0:
        detail = "wait until one ends, or end them all with keep_seconds 0"
        return Crowded(live[over - 1] - now, f"{SECRETS_MAX} secrets sign already: {detail}")
    if (over := len(kept) - SECRETS_KEPT_MAX) > 0:
        detail = f"{SECRETS_KEPT_MAX} secrets are remembered, each for a day after its end"
        return Crowded(ends[over - 1] + REMEMBERED_MS + 1 - now, detail)
    return None


def _last_failure(webhook: Webhook, event: str, retry: Retry) -> LastFailure:
    awaited = webhook.live and retry.turn == webhook.turn
    return LastFailure(
        fact=fact_id(event, retry.seq),
        reason=retry.reason,
        at_ms=retry.last_ms or retry.first_ms,
        attempts=retry.attempts,
        next_try_ms=retry.due_ms if awaited else None,
    )


class Webhooks:
    """All subscriptions of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self) -> tuple[list[tuple[Webhook, int]], Millis]:
        """All there are, also the removed, each with its version; and the authority's time."""
        documents, now = await self._store.documents(KIND)
        return [(_read(each.body), each.version) for each in documents], now

    async def all(self) -> list[Webhook]:
        found, _ = await self.read()
        return sorted(
            (each for each, _ in found if each.removed_ms is None),
            key=lambda each: (each.created_ms, each.id),
        )

    async def find(self, id: str) -> Webhook | None:
        return (await self.look(id))[0]

    async def look(self, id: str) -> tuple[Webhook | None, Millis]:
        """One that is there, and the authority's time."""
        documents, now = await self._documents(id)
        found = _read(documents[0].body) if documents else None
        return (found if found is not None and found.removed_ms is None else None), now

    async def _documents(self, id: str) -> tuple[list[Document], Millis]:
        """None for what cannot be an id, which a store might choke on."""
        if not WEBHOOK_ID.fullmatch(id):
            return [], 0
        return await self._store.documents(KIND, id)

    async def create(
        self,
        url: str,
        events: Sequence[str],
        subjects: Sequence[str] | None = None,
        description: str = "",
        key: str | None = None,
    ) -> Made | None:
        """A new subscription to what happens from now on; None where there are too many. What it
        is made of was looked at already (`faults_of`)."""
        found, now = await self.read()
        id = webhook_id() if key is None else _free_id(key, found, now)
        if key is not None and (made := await self._made(id)):
            return made
        await self.forget_removed(found, now)
        if sum(each.removed_ms is None for each, _ in found) >= WEBHOOKS_MAX:
            return None
        webhook = Webhook(
            id=id,
            url=url,
            events=tuple(dict.fromkeys(events)),
            secrets=(Secret(new_secret(), now),),
            created_ms=now,
            subjects=None if subjects is None else tuple(dict.fromkeys(subjects)),
            description=description,
        )
        # Its cursors first: as soon as it is there, somebody delivers.
        await self._begin(webhook)
        if not await self._put(Document(KIND, id, 1, _encode(webhook).decode())):
            return await self._made(id)
        return await self._within_limit(webhook)

    async def _within_limit(self, webhook: Webhook) -> Made | None:
        """Others may have made some at the same moment: whoever finds too many when his is there
        takes it back. The last of those who do not has seen all the others."""
        if len(await self.all()) > WEBHOOKS_MAX:
            await self._store.drop(KIND, webhook.id, 1)
            await self._store.forget(webhook.follower)
            return None
        return Made(webhook, webhook.secrets[0].value)

    async def _begin(self, webhook: Webhook) -> None:
        heads = await self._store.heads()
        moves = [
            Move(event, 0, head, 0)
            for event, head in heads.items()
            if head and webhook.follows(event)
        ]
        if moves:
            await self._store.move(webhook.follower, moves)

    async def _made(self, id: str) -> Made | None:
        """What was made under that id, as it was then."""
        documents, _ = await self._documents(id)
        if not documents:
            return None
        found = _read(documents[0].body)
        first = replace(
            found,
            state=State.ACTIVE,
            reason=None,
            failing_since_ms=None,
            removed_ms=None,
        )
        return Made(first, found.secrets[-1].value, replayed=True)

    async def rotate(
        self, id: str, keep_seconds: int = KEEP_SECONDS, key: str | None = None
    ) -> Rotated | Crowded | None:
        """A new secret; those before it sign for so long beside it. None that still signs, or may
        have to be shown again, is dropped to make room."""
        named = "" if key is None else hashlib.sha256(key.encode()).hexdigest()
        secret = new_secret()
        crowded: Crowded | None = None

        def change(webhook: Webhook, now: Millis) -> Webhook | None:
            nonlocal crowded
            if _under(webhook, named, now) is not None:
                return None
            ends = now + keep_seconds * 1000
            older = [
                replace(each, end_ms=min(each.end_ms or ends, ends))
                for each in webhook.secrets
                if _remembered(each, now)
            ]
            kept = (Secret(secret, now, None, named), *older)
            crowded = _crowded(kept, webhook.secrets, now)
            return replace(webhook, secrets=kept) if crowded is None else None

        changed = await self._change(id, change)
        if changed is None or crowded is not None:
            return None if changed is None else crowded
        return self._rotated(changed, secret, named)

    def _rotated(self, webhook: Webhook, secret: str, named: str) -> Rotated:
        values = [each.value for each in webhook.secrets]
        at = values.index(secret) if secret in values else _under(webhook, named, 0)
        if at is None:
            raise StoreBusy("somebody else rotated the secret at the same moment; do it again")
        made, before = webhook.secrets[at], webhook.secrets[at + 1 : at + 2]
        until = before[0].end_ms if before else None
        return Rotated(webhook, made, until or made.created_ms, made.value != secret)

    async def enable(self, id: str) -> Webhook | None:
        """Goes on where it stood; what waits to be tried again is tried at once. Its schedule and
        the three days begin anew, whether it was disabled or not; refusals are not forgotten."""
        return await self._change(
            id,
            lambda webhook, now: replace(
                webhook,
                state=State.ACTIVE,
                reason=None,
                failing_since_ms=None,
                failed_ms=0,
                turn=webhook.turn + 1,
            ),
        )

    async def disable(self, id: str, reason: str) -> Webhook | None:
        def change(webhook: Webhook, now: Millis) -> Webhook | None:
            if webhook.state is State.DISABLED:
                return None
            return replace(webhook, state=State.DISABLED, reason=reason[:REASON_CHARS_MAX])

        return await self._change(id, change)

    async def failing(self, id: str) -> Webhook | None:
        """Something was not delivered. Written when a spell of failures begins, and then hourly."""

        def change(webhook: Webhook, now: Millis) -> Webhook | None:
            since = webhook.failing_since_ms
            if since is None or now - webhook.failed_ms > SPELL_GAP_MS:
                return replace(webhook, failing_since_ms=now, failed_ms=now)
            if now - webhook.failed_ms > SPELL_NOTED_MS:
                return replace(webhook, failed_ms=now)
            return None

        return await self._change(id, change)

    async def working(self, id: str) -> Webhook | None:
        """Something was delivered."""

        def change(webhook: Webhook, now: Millis) -> Webhook | None:
            if webhook.failing_since_ms is None:
                return None
            return replace(webhook, failing_since_ms=None, failed_ms=0)

        return await self._change(id, change)

    async def remove(self, id: str) -> bool:
        """Whether there is, or within a day was, such a subscription."""
        documents, _ = await self._documents(id)
        if not documents:
            return False
        if _read(documents[0].body).removed_ms is None:
            await self._change(id, lambda webhook, now: replace(webhook, removed_ms=now))
        await self._clear(id)
        return True

    async def waiting(self) -> set[tuple[str, str]]:
        """Followers and events of which a fact waits to be tried again: they stand still and are at
        work all the same. One that was disabled counts for some days more, not for ever."""
        found, now = await self.read()
        awaited = {
            each.id: each.follower
            for each, _ in found
            if each.live or (each.removed_ms is None and now - each.failed_ms <= AWAITED_MS)
        }
        retries, _ = await self._store.documents(RETRY_KIND)
        pairs = (each.id.partition("/") for each in retries)
        return {(awaited[id], event) for id, _, event in pairs if id in awaited}

    async def last_failures(self, webhooks: Sequence[Webhook]) -> dict[str, LastFailure]:
        """Of those subscriptions of which something waits to be tried again."""
        known = {each.id: each for each in webhooks}
        retries, _ = await self._store.documents(RETRY_KIND)
        found: dict[str, LastFailure] = {}
        for document in retries:
            id, _, event = document.id.partition("/")
            if id in known:
                failure = _last_failure(known[id], event, _read_retry(document.body))
                if id not in found or failure.at_ms > found[id].at_ms:
                    found[id] = failure
        return found

    async def _clear(self, id: str) -> None:
        await self._store.forget(FOLLOWER + id)
        retries, _ = await self._store.documents(RETRY_KIND)
        for each in retries:
            if each.id.startswith(f"{id}/"):
                await self._store.drop(RETRY_KIND, each.id, each.version)

    async def forget_removed(self, found: list[tuple[Webhook, int]], now: Millis) -> None:
        """Those that were removed more than a day ago, of all that `read` found."""
        removed = sorted(
            ((each.removed_ms, each.id, version) for each, version in found if each.removed_ms),
        )
        for nth, (removed_ms, id, version) in enumerate(removed):
            if now - removed_ms > REMEMBERED_MS or nth < len(removed) - REMOVED_MAX:
                # Whoever was delivering at that moment may have left something.
                await self._clear(id)
                await self._store.drop(KIND, id, version)

    async def _change(
        self, id: str, change: Callable[[Webhook, Millis], Webhook | None]
    ) -> Webhook | None:
        """The subscription after the change, which may be none; None where there is none."""
        for _ in range(TRIES_MAX):
            documents, now = await self._documents(id)
            there = _read(documents[0].body) if documents else None
            if there is None or there.removed_ms is not None:
                return None
            changed = change(there, now)
            if changed is None:
                return there
            body = _encode(changed).decode()
            if await self._put(Document(KIND, id, documents[0].version + 1, body)):
                return changed
        raise StoreBusy(f"too many write the webhook {id} at once; do it again")

    async def _put(self, document: Document) -> bool:
        try:
            return await self._store.put(document)
        except CommitUnknown:
            there, _ = await self._store.documents(document.kind, document.id)
            return there == [document]
