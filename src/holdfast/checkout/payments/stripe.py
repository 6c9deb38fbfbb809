"""Stripe, behind the payment port.

A payment is a PaymentIntent that is confirmed when it is made and captured later. It bears the
charge's reference in its metadata. A step has one effect because of

    authorize   an idempotency key, which Stripe knows for a day
    capture     the PaymentIntent's own status: Stripe captures it once
    void        the same; what was captured is refunded, as below
    refund      its name in the refund's metadata, for good, and an idempotency key against a race

Stripe saves the answer to a key whatever it was: a 500 comes again for a day, and a state is told
as it was, not as it is. So a key is used only where nothing else guards, and after a saved answer
the payment is read.
"""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import stripe

from holdfast.domain.payments import Charge, PaymentState, Standing
from holdfast.errors import (
    Forged,
    PaymentError,
    PaymentRefused,
    PaymentUnavailable,
    SettingsError,
)

if TYPE_CHECKING:
    from stripe.params import (
        PaymentIntentCreateParams,
        PaymentIntentListParams,
        RefundCreateParams,
    )

METHOD = re.compile(r"stripe:(pm_[A-Za-z0-9_]{1,200})")
KEY = re.compile(r"[!-~]+")
ORDER = "holdfast_order"
STEP = "holdfast_step"
EXPAND = ["latest_charge"]
"""What was refunded stands in the charge, which is only named unless it is asked for."""

REMEMBERS_SECONDS = 23 * 3600.0
"""Stripe forgets a key after 24 hours at the earliest."""
WEBHOOK_AGE_SECONDS_MAX = 300
SEARCH_LAG_SECONDS = 300
"""Stripe's search knows a payment after a minute or so; what is younger than this is listed."""
LIST_PAGE = 100
LIST_PAGES_MAX = 20
REASON_CHARS_MAX = 300

STATES = {
    "requires_confirmation": PaymentState.PENDING,
    "requires_action": PaymentState.PENDING,
    "processing": PaymentState.PENDING,
    "requires_payment_method": PaymentState.DECLINED,
    "requires_capture": PaymentState.AUTHORIZED,
    "succeeded": PaymentState.CAPTURED,
    "canceled": PaymentState.VOIDED,
}
TAKEN = (PaymentState.CAPTURED, PaymentState.REFUNDED)
FREED = (PaymentState.VOIDED, PaymentState.REFUNDED)
NOT_GIVEN = ("failed", "canceled")
"""States of a refund that gave nothing back."""
OF_PAYMENTS = ("payment_intent.", "charge.", "refund.")
"""How the types of those events begin whose object bears our metadata."""


class StripeProvider:
    """Each step takes `timeout_seconds` at most, however many requests it needs. Nothing is tried
    twice here: whoever asks does that."""

    name = "stripe"
    remembers_seconds = REMEMBERS_SECONDS

    def __init__(
        self,
        api_key: str,
        webhook_secret: str,
        api_base: str | None = None,
        timeout_seconds: float = 20.0,
        return_url: str | None = None,
    ) -> None:
        if not KEY.fullmatch(api_key):
            # The HTTP client would refuse it as well, and show it in a traceback.
            raise SettingsError("the Stripe key is empty, or has spaces or line breaks in it")
        if api_key.startswith("pk_"):
            raise SettingsError("the Stripe key is a publishable one: the secret one begins sk_")
        self._webhook_secret = webhook_secret
        self._timeout_seconds = timeout_seconds
        self._return_url = return_url
        self._http = _Http()
        client = stripe.StripeClient(
            api_key,
            base_addresses={"api": api_base.rstrip("/")} if api_base else None,
            max_network_retries=0,
            http_client=self._http,
        )
        self._intents = client.v1.payment_intents
        self._refunds = client.v1.refunds

    def fault(self, method: str) -> str | None:
        if METHOD.fullmatch(method):
            return None
        return "write stripe: and the id of a PaymentMethod, as in stripe:pm_card_visa"

    async def open(self) -> None:
        # At DEBUG the SDK logs whole answers, with the client secrets in them.
        logging.getLogger("stripe").setLevel(logging.INFO)

    async def close(self) -> None:
        await self._http.close_async()  # type: ignore[no-untyped-call]  # so it is in the SDK

    async def authorize(self, charge: Charge) -> Standing:
        async with self._asking():
            if charge.payment is not None:
                return _standing(_same(charge, await self._read(charge.payment)))
            try:
                return _standing(await self._confirmed(charge))
            except stripe.StripeError as error:
                # Used for another ask: with another return_url, or by a void that came first. Or
                # for an answer of 500, which says nothing about what was done.
                if not _key_is_used_up(error) or (found := await self._found(charge)) is None:
                    raise
                return _standing(_same(charge, found))

    async def find(self, charge: Charge) -> Standing | None:
        async with self._asking():
            found = await self._found(charge)
            return None if found is None else _standing(found)

    async def capture(self, charge: Charge) -> Standing:
        async with self._asking():
            intent = _same(charge, await self._existing(charge))
            if intent.status == "requires_capture":
                taking = self._intents.capture_async(intent.id, {"expand": EXPAND})
                intent = await self._moved(intent.id, taking)
            standing = _standing(intent)
            if standing.state in TAKEN:
                return standing
            if standing.state is PaymentState.PENDING:
                # Not refused: it may still be authorized.
                raise PaymentUnavailable(f"the payment of {charge.reference} is not authorized yet")
            raise PaymentRefused(
                f"the payment of {charge.reference} is {standing.state}: nothing to take"
            )

    async def void(self, charge: Charge) -> Standing:
        async with self._asking():
            intent = await self._found(charge) or await self._forestalled(charge)
            if intent.status not in ("succeeded", "canceled"):
                # A declined one as well: else the buyer's browser could still pay it.
                freeing = self._intents.cancel_async(intent.id, {"expand": EXPAND})
                intent = await self._moved(intent.id, freeing)
            standing = _standing(intent)
            if standing.state is PaymentState.CAPTURED:
                left = intent.amount_received - standing.refunded
                await self._give_back(charge, intent.id, f"void:{left}", left)
                standing = _standing(await self._read(intent.id))
            if standing.state in FREED:
                return standing
            raise PaymentUnavailable(f"the payment of {charge.reference} cannot be freed just now")

    async def refund(self, charge: Charge, amount: int, name: str) -> Standing:
        async with self._asking():
            intent = _same(charge, await self._existing(charge))
            if _standing(intent).state not in TAKEN:
                raise PaymentRefused(f"nothing was taken of {charge.reference}: there is no refund")
            await self._give_back(charge, intent.id, f"refund:{name}", amount)
            return _standing(await self._read(intent.id))

    def read_webhook(self, headers: Mapping[str, str], body: bytes) -> str | None:
        try:
            stripe.WebhookSignature.verify_header(
                body,
                headers.get("stripe-signature"),
                self._webhook_secret,
                WEBHOOK_AGE_SECONDS_MAX,
            )
            event = msgspec.json.decode(body, type=_Event)
        except (stripe.SignatureVerificationError, ValueError, TypeError) as cause:
            # A body that is not UTF-8 is a ValueError, a signature that is not ASCII a TypeError.
            raise Forged("this is not signed by Stripe, or too long ago") from cause
        if not event.type.startswith(OF_PAYMENTS):
            return None
        reference = (event.data.object.metadata or {}).get(ORDER)
        return reference if isinstance(reference, str) else None

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[None]:
        """Stripe's errors end here, and so does waiting."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                yield
        except TimeoutError as cause:
            raise PaymentUnavailable("Stripe did not answer in time") from cause
        except stripe.StripeError as cause:
            raise _translated(cause) from cause

    async def _read(self, payment: str) -> stripe.PaymentIntent:
        return await self._intents.retrieve_async(payment, {"expand": EXPAND})

    async def _confirmed(self, charge: Charge) -> stripe.PaymentIntent:
        """Made and confirmed, by this call or by an earlier one; as it is now."""
        try:
            intent = await self._intents.create_async(
                self._confirmation(charge), {"idempotency_key": _key(charge, "authorize")}
            )
        except stripe.CardError as error:
            declined = error.error.payment_intent if error.error else None
            if declined is None:
                raise
            return await self._read(declined.id)
        answer = intent.last_response
        saved = answer is not None and _is_saved(answer.headers)
        return await self._read(intent.id) if saved else intent

    def _confirmation(self, charge: Charge) -> "PaymentIntentCreateParams":
        method = METHOD.fullmatch(charge.method)
        if method is None:
            raise PaymentRefused(f"{charge.method} is no method of Stripe")
        params: PaymentIntentCreateParams = {
            **_unconfirmed(charge),
            "payment_method": method[1],
            "confirm": True,
            "expand": EXPAND,
        }
        if self._return_url is None:
            # No page to come back to, so no redirect: Stripe.js does 3-D Secure in place.
            params["automatic_payment_methods"] = {"enabled": True, "allow_redirects": "never"}
            params["use_stripe_sdk"] = True
        else:
            params["automatic_payment_methods"] = {"enabled": True, "allow_redirects": "always"}
            params["return_url"] = self._return_url
        return params

    async def _forestalled(self, charge: Charge) -> stripe.PaymentIntent:
        """The order to authorize may still be on its way. Whoever uses its key first wins: either
        it finds the key taken by a payment that nobody confirms, or this finds out about it."""
        try:
            return await self._intents.create_async(
                _unconfirmed(charge), {"idempotency_key": _key(charge, "authorize")}
            )
        except stripe.IdempotencyError:
            return await self._confirmed(charge)

    async def _existing(self, charge: Charge) -> stripe.PaymentIntent:
        found = await self._found(charge)
        if found is None:
            raise PaymentRefused(f"there is no payment of {charge.reference}")
        return found

    async def _found(self, charge: Charge) -> stripe.PaymentIntent | None:
        payment = charge.payment or await self._sought(charge.reference)
        # Read again also after a search, which may show what was true a minute ago.
        return None if payment is None else await self._read(payment)

    async def _sought(self, reference: str) -> str | None:
        query = f'metadata["{ORDER}"]:"{reference}"'
        try:
            page = await self._intents.search_async({"query": query, "limit": LIST_PAGE})
        except stripe.InvalidRequestError:
            # Accounts in India have no search.
            return await self._listed(reference, {"limit": LIST_PAGE})
        # Search makes no difference between upper and lower case; a reference does.
        same = [intent for intent in page.data if _reference(intent) == reference]
        if same:
            return same[0].id
        since = int(time.time()) - SEARCH_LAG_SECONDS
        return await self._listed(reference, {"limit": LIST_PAGE, "created": {"gte": since}})

    async def _listed(self, reference: str, params: "PaymentIntentListParams") -> str | None:
        """Among the newest. None only if all were seen: a wrong None would be a second payment."""
        page = await self._intents.list_async(params)
        for _ in range(LIST_PAGES_MAX):
            for intent in page.data:
                if _reference(intent) == reference:
                    return intent.id
            if not page.has_more:
                return None
            page = await page.next_page_async()
        raise PaymentUnavailable(f"too many payments to find the one of {reference} among them")

    async def _moved(
        self, payment: str, moving: Awaitable[stripe.PaymentIntent]
    ) -> stripe.PaymentIntent:
        try:
            return await moving
        except stripe.InvalidRequestError as error:
            if error.code != "payment_intent_unexpected_state":
                raise
            return await self._read(payment)  # somebody else moved it first

    async def _give_back(self, charge: Charge, payment: str, step: str, amount: int) -> None:
        refunds = await self._refunds.list_async({"payment_intent": payment, "limit": LIST_PAGE})
        async for refund in refunds.auto_paging_iter():
            if getattr(refund.metadata, STEP, None) != step or refund.status in NOT_GIVEN:
                continue
            if refund.amount != amount:
                raise PaymentRefused(
                    f"under this name {refund.amount} was given back, not {amount}"
                )
            return
        params: RefundCreateParams = {
            "payment_intent": payment,
            "amount": amount,
            "metadata": {ORDER: charge.reference, STEP: step},
        }
        made = await self._refunds.create_async(params, {"idempotency_key": _key(charge, step)})
        if made.status in NOT_GIVEN:
            raise PaymentRefused(f"Stripe made a refund, and it is {made.status}")


class _Http(stripe.HTTPXClient):
    """The SDK gives a form that is written already as `data`, which httpx warns about. And it
    limits each request, where the step is limited as a whole."""

    def _get_request_args_kwargs(
        self, method: str, url: str, headers: Mapping[str, str], post_data: str | None
    ) -> tuple[Any, Any]:  # as the SDK has them: the arguments of httpx's `request`
        positional, named = super()._get_request_args_kwargs(method, url, headers, None)
        del named["data"]
        return positional, {**named, "content": post_data, "timeout": None}


class _Object(msgspec.Struct):
    metadata: dict[str, Any] | None = None
    """Any: objects that are not ours may have whatever they like in it."""


class _Data(msgspec.Struct):
    object: _Object


class _Event(msgspec.Struct):
    """As much of an event as is needed, the same in every version of Stripe's API."""

    type: str
    data: _Data


def _key(charge: Charge, step: str) -> str:
    return f"holdfast:{charge.reference}:{step}"


def _is_saved(headers: Mapping[str, str] | None) -> bool:
    """Whether an answer is the one that an earlier request under the same key got."""
    return headers is not None and headers.get("idempotent-replayed") == "true"


def _key_is_used_up(error: stripe.StripeError) -> bool:
    return isinstance(error, stripe.IdempotencyError) or _is_saved(error.headers)


def _unconfirmed(charge: Charge) -> "PaymentIntentCreateParams":
    return {
        "amount": charge.amount,
        "currency": charge.currency.lower(),
        "capture_method": "manual",
        "metadata": {ORDER: charge.reference},
    }


def _reference(intent: stripe.PaymentIntent) -> str | None:
    return getattr(intent.metadata, ORDER, None)


def _same(charge: Charge, intent: stripe.PaymentIntent) -> stripe.PaymentIntent:
    if (intent.amount, intent.currency) != (charge.amount, charge.currency.lower()):
        raise PaymentRefused(
            f"the payment of {charge.reference} is {intent.amount} {intent.currency.upper()}, "
            f"not {charge.amount} {charge.currency}"
        )
    return intent


def _standing(intent: stripe.PaymentIntent) -> Standing:
    # A status that Stripe invents later is not the end of a payment yet.
    state = STATES.get(intent.status, PaymentState.PENDING)
    last = intent.latest_charge
    refunded = last.amount_refunded if isinstance(last, stripe.Charge) else 0
    if state is PaymentState.CAPTURED and refunded >= intent.amount_received:
        state = PaymentState.REFUNDED
    declined = state is PaymentState.DECLINED
    return Standing(
        intent.id,
        state,
        reason=_line(getattr(intent.last_payment_error, "message", None)) if declined else None,
        next_action=_next_action(intent),
        refunded=refunded,
        reference=_reference(intent),
    )


def _next_action(intent: stripe.PaymentIntent) -> dict[str, str] | None:
    action = intent.next_action
    if intent.status != "requires_action" or action is None:
        return None
    if action.type == "redirect_to_url" and action.redirect_to_url and action.redirect_to_url.url:
        return {"type": "redirect", "url": action.redirect_to_url.url}
    # Stripe.js knows all the others: handleNextAction needs the client secret, and only that.
    return {"type": "use_stripe_sdk", "client_secret": intent.client_secret or ""}


def _translated(error: stripe.StripeError) -> PaymentError:
    match error:
        case stripe.InvalidRequestError() | stripe.IdempotencyError() | stripe.CardError():
            return PaymentRefused(_line(error.user_message))
        case stripe.AuthenticationError() | stripe.PermissionError():
            # Stripe's own text shows a part of the key. With the right one it can still be done.
            return PaymentUnavailable("Stripe does not take the key, or not for this")
        case stripe.APIConnectionError():
            return PaymentUnavailable("Stripe cannot be reached, or broke off")
    return PaymentUnavailable(f"Stripe cannot do it now (HTTP {error.http_status})")


def _line(text: str | None) -> str:
    return " ".join((text or "Stripe does not say why").split())[:REASON_CHARS_MAX]
