"""Stripe's provider, over real HTTP, against a small Stripe that keeps state."""

import asyncio
import hashlib
import hmac
import json
import logging
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.checkout.payments import stripe as provided
from holdfast.checkout.payments.stripe import StripeProvider
from holdfast.domain.payments import Charge, PaymentState, Standing
from holdfast.errors import Forged, PaymentRefused, PaymentUnavailable, SettingsError
from holdfast.ports import Provider
from tests.checkout.stripe_fake import (
    DECLINED,
    SECRET_KEY,
    UNAUTHENTICATED,
    Mishap,
    StripeFake,
    stripe_fake,
)
from tests.servers import free_port

WEBHOOK_SECRET = "whsec_oneOfOurOwn"
OLD_SECRET = "whsec_theOneBefore"
STEP_SECONDS_MAX = 10.0

VISA = Charge("gala.01JABC", 9000, "EUR", "stripe:pm_card_visa")
BAD_CARD = msgspec.structs.replace(VISA, method="stripe:pm_card_chargeDeclined")
CHALLENGED = msgspec.structs.replace(VISA, method="stripe:pm_card_threeDSecure2Required")


@pytest.fixture
def fake() -> Iterator[StripeFake]:
    with stripe_fake() as fake:
        yield fake


@pytest.fixture
async def provider(fake: StripeFake) -> AsyncIterator[Provider]:
    async for each in opened(fake.url):
        yield each


async def opened(
    url: str,
    timeout_seconds: float = STEP_SECONDS_MAX,
    return_url: str | None = None,
    api_key: str = SECRET_KEY,
) -> AsyncIterator[Provider]:
    provider = StripeProvider(api_key, WEBHOOK_SECRET, url, timeout_seconds, return_url)
    await provider.open()
    yield provider
    await provider.close()


async def paid(provider: Provider, charge: Charge = VISA) -> Charge:
    """Captured; the charge as the shop knows it by then."""
    standing = await provider.authorize(charge)
    charge = msgspec.structs.replace(charge, payment=standing.payment)
    assert (await provider.capture(charge)).state is PaymentState.CAPTURED
    return charge


# Steps


async def test_the_money_is_set_aside_then_taken(fake, provider):
    standing = await provider.authorize(VISA)
    assert standing.state is PaymentState.AUTHORIZED
    assert standing.reference == VISA.reference
    assert standing.payment in fake.intents
    charge = msgspec.structs.replace(VISA, payment=standing.payment)
    assert (await provider.capture(charge)).state is PaymentState.CAPTURED
    assert fake.effects == {"authorized": 1, "captured": 1}
    assert fake.the_intent()["amount_received"] == 9000


async def test_what_is_sent_says_whose_it_is_and_that_it_is_not_taken_yet(fake, provider):
    await provider.authorize(VISA)
    assert fake.forms == [
        {
            "amount": "9000",
            "currency": "eur",
            "capture_method": "manual",
            "confirm": "true",
            "payment_method": "pm_card_visa",
            "metadata[holdfast_order]": "gala.01JABC",
            "automatic_payment_methods[enabled]": "true",
            "automatic_payment_methods[allow_redirects]": "never",
            "use_stripe_sdk": "true",
            "expand[0]": "latest_charge",
        }
    ]


@pytest.mark.parametrize("known", [False, True], ids=["by reference", "by id"])
async def test_every_step_done_again_has_one_effect(fake, provider, known):
    charge = VISA
    for _ in range(3):
        standing = await provider.authorize(charge)
        if known:
            charge = msgspec.structs.replace(VISA, payment=standing.payment)
    for _ in range(3):
        assert (await provider.capture(charge)).state is PaymentState.CAPTURED
    for _ in range(3):
        refunded = await provider.refund(charge, 4000, "one")
        assert (refunded.state, refunded.refunded) == (PaymentState.CAPTURED, 4000)
    for _ in range(3):
        assert (await provider.void(charge)).state is PaymentState.REFUNDED
    assert fake.effects == {"authorized": 1, "captured": 1, "refunded": 2}


async def test_many_at_once_are_one(fake, provider):
    standings = await asyncio.gather(*[provider.authorize(VISA) for _ in range(5)])
    assert len({standing.payment for standing in standings}) == 1
    charge = msgspec.structs.replace(VISA, payment=standings[0].payment)
    await asyncio.gather(*[provider.capture(charge) for _ in range(5)])
    await asyncio.gather(*[provider.refund(charge, 100, "one") for _ in range(5)])
    assert fake.effects == {"authorized": 1, "captured": 1, "refunded": 1}


async def test_authorized_again_tells_how_it_stands_now(provider):
    """Stripe itself would repeat its first answer, to the letter."""
    await paid(provider)
    assert (await provider.authorize(VISA)).state is PaymentState.CAPTURED


async def test_another_amount_under_the_same_reference_is_refused(fake, provider):
    await provider.authorize(VISA)
    dearer = msgspec.structs.replace(VISA, amount=9100)
    for step in (provider.authorize, provider.capture):
        with pytest.raises(PaymentRefused, match="is 9000 EUR, not 9100 EUR"):
            await step(dearer)
    assert fake.effects == {"authorized": 1}


# Voids


async def test_a_void_frees_what_was_set_aside(fake, provider):
    await provider.authorize(VISA)
    for _ in range(2):
        assert (await provider.void(VISA)).state is PaymentState.VOIDED
    assert fake.effects == {"authorized": 1, "canceled": 1}
    with pytest.raises(PaymentRefused, match="voided: nothing to take"):
        await provider.capture(VISA)


async def test_a_void_gives_back_what_was_taken(fake, provider):
    charge = await paid(provider)
    for _ in range(2):
        standing = await provider.void(charge)
        assert (standing.state, standing.refunded) == (PaymentState.REFUNDED, 9000)
    assert fake.effects["refunded"] == 1


async def test_a_void_that_meets_a_capture_on_its_way_gives_it_back(fake, provider, monkeypatch):
    await provider.authorize(VISA)
    stale = await provider._read(fake.the_intent()["id"])
    await provider.capture(VISA)

    async def saw_it_before(charge: Charge) -> object:
        return stale

    monkeypatch.setattr(provider, "_found", saw_it_before)
    assert (await provider.void(VISA)).state is PaymentState.REFUNDED


async def test_a_void_forestalls_an_authorization_that_is_still_on_its_way(fake, provider):
    assert (await provider.void(VISA)).state is PaymentState.VOIDED
    assert (await provider.authorize(VISA)).state is PaymentState.VOIDED
    assert fake.effects == {"canceled": 1}


async def test_a_void_frees_what_no_search_has_found_yet(fake, provider, monkeypatch):
    await provider.authorize(VISA)

    async def nothing(reference: str) -> None:
        return None

    monkeypatch.setattr(provider, "_sought", nothing)
    assert (await provider.void(VISA)).state is PaymentState.VOIDED
    assert fake.effects == {"authorized": 1, "canceled": 1}
    assert len(fake.intents) == 1


# Declines and 3-D Secure


async def test_a_decline_is_an_answer_with_its_reason(fake, provider):
    for _ in range(2):
        standing = await provider.authorize(BAD_CARD)
        assert (standing.state, standing.reason) == (PaymentState.DECLINED, DECLINED)
        assert standing.payment == fake.the_intent()["id"]
    assert await provider.find(BAD_CARD) == standing
    assert fake.effects == {"declined": 1}
    with pytest.raises(PaymentRefused, match="declined"):
        await provider.capture(BAD_CARD)


async def test_a_voided_decline_cannot_be_paid_from_the_browser_any_more(fake, provider):
    await provider.authorize(BAD_CARD)
    assert (await provider.void(BAD_CARD)).state is PaymentState.VOIDED
    assert fake.the_intent()["status"] == "canceled"


async def test_three_d_secure_is_pending_until_the_buyer_has_done_it(fake, provider):
    standing = await provider.authorize(CHALLENGED)
    assert standing.state is PaymentState.PENDING
    secret = fake.the_intent()["client_secret"]
    assert standing.next_action == {"type": "use_stripe_sdk", "client_secret": secret}
    with pytest.raises(PaymentUnavailable, match="not authorized yet"):
        await provider.capture(CHALLENGED)

    fake.authenticate(standing.payment)
    again = await provider.authorize(CHALLENGED)
    assert (again.state, again.next_action) == (PaymentState.AUTHORIZED, None)
    assert (await provider.capture(CHALLENGED)).state is PaymentState.CAPTURED
    assert fake.effects == {"authorized": 1, "captured": 1}


async def test_three_d_secure_that_fails_is_a_decline(fake, provider):
    standing = await provider.authorize(CHALLENGED)
    fake.authenticate(standing.payment, succeeds=False)
    found = await provider.find(CHALLENGED)
    assert (found.state, found.reason) == (PaymentState.DECLINED, UNAUTHENTICATED)


async def test_three_d_secure_can_be_voided_while_the_buyer_is_at_it(fake, provider):
    await provider.authorize(CHALLENGED)
    assert (await provider.void(CHALLENGED)).state is PaymentState.VOIDED


async def test_with_a_page_to_come_back_to_the_buyer_is_sent_to_his_bank(fake):
    async for provider in opened(fake.url, return_url="https://shop.example/paid"):
        standing = await provider.authorize(CHALLENGED)
        assert standing.next_action is not None
        assert standing.next_action["type"] == "redirect"
        assert standing.next_action["url"].startswith("https://hooks.stripe.com/")


async def test_another_return_url_finds_the_payment_that_was_made(fake, provider):
    """A deployment changes it while a saga is under way."""
    first = await provider.authorize(VISA)
    async for changed in opened(fake.url, return_url="https://shop.example/paid"):
        assert await changed.authorize(VISA) == first
    assert fake.effects == {"authorized": 1}


# Refunds


async def test_refunds_add_up_and_end(fake, provider):
    charge = await paid(provider)
    assert (await provider.refund(charge, 4000, "one")).refunded == 4000
    last = await provider.refund(charge, 5000, "two")
    assert (last.state, last.refunded) == (PaymentState.REFUNDED, 9000)
    assert await provider.refund(charge, 4000, "one") == last
    with pytest.raises(PaymentRefused, match="already been refunded"):
        await provider.refund(charge, 1, "three")
    assert fake.effects["refunded"] == 2


async def test_under_one_name_it_is_given_back_once_also_when_stripe_forgot_the_key(fake, provider):
    charge = await paid(provider)
    await provider.refund(charge, 4000, "one")
    fake.forget_keys()
    assert (await provider.refund(charge, 4000, "one")).refunded == 4000
    with pytest.raises(PaymentRefused, match="4000 was given back, not 3000"):
        await provider.refund(charge, 3000, "one")
    assert fake.effects["refunded"] == 1


async def test_a_refund_that_failed_is_made_again(fake, provider):
    charge = await paid(provider)
    await provider.refund(charge, 4000, "one")
    fake.forget_keys()
    next(iter(fake.refunds.values()))["status"] = "failed"
    await provider.refund(charge, 4000, "one")
    assert fake.effects["refunded"] == 2


async def test_no_more_is_given_back_than_was_taken(provider):
    charge = await paid(provider)
    with pytest.raises(PaymentRefused, match="greater than unrefunded"):
        await provider.refund(charge, 9001, "one")


async def test_nothing_is_given_back_of_what_was_not_taken(provider):
    await provider.authorize(VISA)
    with pytest.raises(PaymentRefused, match="nothing was taken"):
        await provider.refund(VISA, 100, "one")


# Trouble

LOST = [Mishap.CUT_OFF, Mishap.BROKEN_AFTER]
NOT_DONE = [Mishap.RATE_LIMITED, Mishap.KEY_IN_USE, Mishap.BAD_GATEWAY]
STEPS: dict[str, Callable[[Provider], Awaitable[Standing]]] = {
    "authorize": lambda provider: provider.authorize(VISA),
    "capture": lambda provider: provider.capture(VISA),
    "refund": lambda provider: provider.refund(VISA, 4000, "one"),
    "void": lambda provider: provider.void(VISA),
}
WAYS = [
    ("authorize",),
    ("authorize", "capture"),
    ("authorize", "capture", "refund"),
    ("void",),
    ("authorize", "void"),
    ("authorize", "capture", "void"),
]


@pytest.mark.parametrize("way", WAYS, ids="-".join)
@pytest.mark.parametrize("mishap", [*LOST, *NOT_DONE], ids=lambda mishap: mishap.name)
async def test_a_step_whose_answer_was_lost_is_settled_by_asking_again(fake, provider, way, mishap):
    *before, last = [STEPS[step] for step in way]
    for step in before:
        await step(provider)
    effects = fake.effects.copy()
    fake.mishaps.append(mishap)
    with pytest.raises(PaymentUnavailable):
        await last(provider)
    done = fake.effects.copy()
    # A void of what was never authorized has two requests; the first has no effect on money.
    assert (done != effects) == (mishap in LOST and way != ("void",))
    first = await last(provider)
    assert await last(provider) == first
    assert done in (fake.effects, effects)
    assert set(fake.effects.values()) == {1}
    assert len(fake.intents) == 1


@pytest.mark.parametrize("step", ["authorize", "void"])
async def test_silence_ends_and_asking_again_finds_what_was_done(fake, provider, step):
    if step == "void":
        await provider.authorize(VISA)
    fake.mishaps.append(Mishap.UNANSWERED)
    async for hurried in opened(fake.url, timeout_seconds=2.0):
        with pytest.raises(PaymentUnavailable, match="did not answer in time"):
            await STEPS[step](hurried)
    done = fake.effects.copy()
    await STEPS[step](provider)
    assert fake.effects == done
    assert set(done.values()) == {1}


async def test_after_a_500_with_no_payment_nobody_knows_until_the_key_is_forgotten(fake, provider):
    """Stripe may still mend what it broke, so nothing is concluded and no second key is tried."""
    fake.mishaps.append(Mishap.BROKEN)
    for step in ("authorize", "authorize", "void"):
        with pytest.raises(PaymentUnavailable, match="HTTP 500"):
            await STEPS[step](provider)
    fake.forget_keys()
    assert (await provider.void(VISA)).state is PaymentState.VOIDED
    assert fake.effects == {"canceled": 1}


@pytest.mark.parametrize("step", ["capture", "void"])
async def test_a_500_does_not_come_again_for_a_day(fake, provider, step):
    """It would, if these steps had a key of their own: Stripe saves it."""
    await provider.authorize(VISA)
    fake.mishaps.append(Mishap.BROKEN)
    with pytest.raises(PaymentUnavailable):
        await STEPS[step](provider)
    await STEPS[step](provider)
    assert fake.effects["captured"] + fake.effects["canceled"] == 1


async def test_a_stripe_that_is_not_there_is_unavailable():
    async for provider in opened(f"http://127.0.0.1:{free_port()}"):
        with pytest.raises(PaymentUnavailable, match="cannot be reached"):
            await provider.authorize(VISA)


async def test_nothing_is_tried_twice_behind_our_back(fake, provider):
    fake.mishaps.append(Mishap.RATE_LIMITED)
    with pytest.raises(PaymentUnavailable):
        await provider.authorize(VISA)
    assert fake.asked == ["POST /v1/payment_intents"]


async def test_what_can_never_succeed_is_refused_in_one_line(fake, provider):
    unknown = msgspec.structs.replace(VISA, method="stripe:pm_gone")
    with pytest.raises(PaymentRefused, match=r"^No such PaymentMethod: 'pm_gone'$"):
        await provider.authorize(unknown)
    small = msgspec.structs.replace(VISA, amount=1)
    with pytest.raises(PaymentRefused, match=r"^Amount must be at least"):
        await provider.authorize(small)
    with pytest.raises(PaymentRefused, match=r"there is no payment of gala\.01JABC"):
        await provider.capture(VISA)
    lost = msgspec.structs.replace(VISA, payment="pi_of_another_account")
    with pytest.raises(PaymentRefused, match="No such payment_intent"):
        await provider.find(lost)
    assert not fake.effects


async def test_a_wrong_key_is_not_the_end_of_a_payment_and_is_not_shown(fake):
    async for provider in opened(fake.url, api_key="sk_test_wrong"):
        with pytest.raises(PaymentUnavailable) as caught:
            await provider.authorize(VISA)
        assert "sk_test" not in str(caught.value)


def test_a_key_that_no_header_could_carry_is_refused_without_showing_it():
    with pytest.raises(SettingsError) as caught:
        StripeProvider("sk_test_abc\n", WEBHOOK_SECRET)
    assert "sk_test" not in str(caught.value)


async def test_secrets_are_not_logged(provider, caplog):
    with caplog.at_level(logging.DEBUG):
        standing = await provider.authorize(CHALLENGED)
    assert standing.next_action is not None
    assert standing.next_action["client_secret"] not in caplog.text
    assert SECRET_KEY not in caplog.text


# Finding


async def test_a_payment_is_found_by_its_reference(fake, provider):
    assert await provider.find(VISA) is None
    standing = await provider.authorize(VISA)
    assert await provider.find(VISA) == standing


async def test_a_reference_in_other_letters_is_another_one(provider):
    await provider.authorize(VISA)
    other = msgspec.structs.replace(VISA, reference=VISA.reference.lower())
    assert await provider.find(other) is None


async def test_a_payment_that_search_does_not_know_yet_is_found(fake, provider):
    standing = await provider.authorize(VISA)
    fake.search_lags = True
    assert await provider.find(VISA) == standing


async def test_what_is_older_is_not_looked_through(fake, provider):
    await provider.authorize(VISA)
    fake.search_lags = True
    fake.the_intent()["created"] -= provided.SEARCH_LAG_SECONDS + 60
    assert await provider.find(VISA) is None


async def test_without_search_all_payments_are_looked_through_page_by_page(
    fake, provider, monkeypatch
):
    monkeypatch.setattr(provided, "LIST_PAGE", 2)
    fake.search_missing = True
    first = await provider.authorize(VISA)
    fake.the_intent()["created"] -= 86_400
    for number in range(5):
        await provider.authorize(msgspec.structs.replace(VISA, reference=f"gala.{number}"))
    assert await provider.find(VISA) == first
    assert await provider.find(msgspec.structs.replace(VISA, reference="gala.none")) is None


async def test_a_search_that_gave_up_is_not_taken_for_none(fake, provider, monkeypatch):
    monkeypatch.setattr(provided, "LIST_PAGE", 1)
    monkeypatch.setattr(provided, "LIST_PAGES_MAX", 2)
    for number in range(3):
        await provider.authorize(msgspec.structs.replace(VISA, reference=f"gala.{number}"))
    with pytest.raises(PaymentUnavailable, match="too many payments"):
        await provider.find(VISA)


# Methods


@pytest.mark.parametrize("method", ["stripe:pm_card_visa", "stripe:pm_1NxYzAbc"])
def test_methods_are_those_of_stripe(provider, method):
    assert provider.fault(method) is None


@pytest.mark.parametrize(
    "method",
    ["", "stripe:", "stripe:pm_", "pm_card_visa", "sandbox:ok", "stripe:tok_visa", "stripe:pm_a b"],
)
def test_any_other_method_is_a_fault(provider, method):
    assert provider.fault(method) == (
        "write stripe: and the id of a PaymentMethod, as in stripe:pm_card_visa"
    )


def test_a_repetition_is_known_for_less_than_stripes_day(provider):
    assert provider.name == "stripe"
    assert 0 < provider.remembers_seconds < 86_400


# Webhooks


def event(type: str = "payment_intent.succeeded", **object: object) -> bytes:
    object = {"id": "pi_1", "metadata": {"holdfast_order": VISA.reference}, **object}
    return json.dumps(
        {"id": "evt_1", "object": "event", "type": type, "data": {"object": object}}
    ).encode()


def signature(body: bytes, secret: str = WEBHOOK_SECRET, age_seconds: int = 0) -> tuple[int, str]:
    """As Stripe documents it, not as its SDK does it."""
    at = int(time.time()) - age_seconds
    signed = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256)
    return at, signed.hexdigest()


def signed(body: bytes, secret: str = WEBHOOK_SECRET, age_seconds: int = 0) -> dict[str, str]:
    at, right = signature(body, secret, age_seconds)
    return {"stripe-signature": f"t={at},v1={right},v0={'0' * 64}"}


@pytest.mark.parametrize(
    "type",
    [
        "payment_intent.succeeded",
        "payment_intent.amount_capturable_updated",
        "payment_intent.payment_failed",
        "charge.refunded",
        "charge.refund.updated",
        "refund.failed",
    ],
)
def test_a_message_of_stripes_names_its_charge(provider, type):
    assert provider.read_webhook(signed(event(type)), event(type)) == VISA.reference


@pytest.mark.parametrize(
    "body",
    [
        event("customer.created"),
        event("payment_intents.invented"),
        event(metadata={}),
        event(metadata=None),
        event(metadata={"holdfast_order": 7}),
        event("charge.dispute.created", metadata={}),
    ],
)
def test_a_message_about_nothing_of_ours_names_none(provider, body):
    assert provider.read_webhook(signed(body), body) is None


def test_while_the_secret_is_changed_one_right_signature_is_enough(provider):
    body = event()
    at, right = signature(body)
    _, old = signature(body, OLD_SECRET)
    for pair in ((old, right), (right, old)):
        headers = {"stripe-signature": f"t={at},v1={pair[0]},v1={pair[1]}"}
        assert provider.read_webhook(headers, body) == VISA.reference


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({}, event()),
        ({"stripe-signature": ""}, event()),
        ({"stripe-signature": "t=,v1="}, event()),
        ({"stripe-signature": f"t={int(time.time())}"}, event()),
        ({"stripe-signature": f"t={int(time.time())},v1=é"}, event()),
        ({"stripe-signature": f"t={int(time.time())},v1={'0' * 64}"}, event()),
        (signed(event(), OLD_SECRET), event()),
        (signed(event(), ""), event()),
        (signed(event(), age_seconds=301), event()),
        (signed(event()), event().replace(b"gala", b"ball")),
        (signed(event()), event() + b" "),
        (signed(b"\xff"), b"\xff"),
        (signed(b"not json"), b"not json"),
        (signed(b"[]"), b"[]"),
        (signed(b'{"type": "payment_intent.succeeded"}'), b'{"type": "payment_intent.succeeded"}'),
    ],
    ids=[
        "no header",
        "empty header",
        "empty parts",
        "no signature",
        "not ascii",
        "forged",
        "wrong secret",
        "no secret",
        "old",
        "tampered",
        "longer",
        "not utf-8",
        "not json",
        "not an event",
        "no object",
    ],
)
def test_a_message_that_is_not_stripes_is_forged(provider, headers, body):
    with pytest.raises(Forged):
        provider.read_webhook(headers, body)


def test_an_old_time_cannot_be_made_young(provider):
    body = event()
    at, right = signature(body, age_seconds=600)
    with pytest.raises(Forged):
        provider.read_webhook({"stripe-signature": f"t={at + 600},v1={right}"}, body)


def test_without_a_webhook_secret_every_message_is_forged():
    provider = StripeProvider(SECRET_KEY, "")
    with pytest.raises(Forged):
        provider.read_webhook(signed(event(), ""), event())


# The official stripe-mock: it keeps nothing, but it has Stripe's own schema of every request.


@pytest.fixture
def official() -> Iterator[str]:
    beside = str(Path(sys.executable).parent)
    program = shutil.which("stripe-mock") or shutil.which("stripe-mock", path=beside)
    if program is None:
        pytest.skip("stripe-mock: go install github.com/stripe/stripe-mock@v0.203.0")
    address = f"127.0.0.1:{free_port()}"
    command = [program, "-http-addr", address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert any(line.startswith("Listening for HTTP") for line in process.stdout)
            yield f"http://{address}"
        finally:
            process.terminate()


@pytest.mark.service
@pytest.mark.parametrize("return_url", [None, "https://shop.example/paid"])
async def test_stripes_own_schema_takes_what_is_sent(official, return_url):
    async for provider in opened(official, return_url=return_url, api_key="sk_test_123"):
        assert isinstance(provider, StripeProvider)
        await provider._confirmed(VISA)
        await provider._forestalled(VISA)
        await provider._sought(VISA.reference)
        await provider._listed(VISA.reference, {"limit": 1, "created": {"gte": 1}})
        intent = await provider._read("pi_123")
        await provider._intents.capture_async(intent.id, {"expand": provided.EXPAND})
        await provider._intents.cancel_async(intent.id, {"expand": provided.EXPAND})
        await provider._give_back(VISA, intent.id, "refund:one", 100)
