"""A small Stripe: PaymentIntents, their charges and refunds, in the shapes that Stripe documents.

It keeps state, which the official stripe-mock does not, and does as it is told about idempotency
keys: the answer to a key is saved, failures too; what was refused before anything ran is not.

    pm_card_visa                     authorized
    pm_card_chargeDeclined           402, card_declined
    pm_card_threeDSecure2Required    requires_action, until `authenticate`
"""

import asyncio
import itertools
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl

from aiohttp import web

WAIT_SECONDS_MAX = 10.0
SECRET_KEY = "sk_test_4eC39HqLyjWDarjtT1zdp7dc"
DECLINED = "Your card was declined."
UNAUTHENTICATED = (
    "We are unable to authenticate your payment method. "
    "Please choose a different payment method and try again."
)
CANCELABLE = (
    "requires_payment_method",
    "requires_capture",
    "requires_confirmation",
    "requires_action",
    "processing",
)
CREATING = {
    "amount",
    "currency",
    "capture_method",
    "confirm",
    "payment_method",
    "metadata[holdfast_order]",
    "automatic_payment_methods[enabled]",
    "automatic_payment_methods[allow_redirects]",
    "return_url",
    "use_stripe_sdk",
    "expand[0]",
}
REFUNDING = {
    "payment_intent",
    "amount",
    "metadata[holdfast_order]",
    "metadata[holdfast_step]",
    "expand[0]",
}
QUERY = re.compile(r'metadata\["(\w+)"\]:"([^"]*)"')

T = TypeVar("T")
Object = dict[str, Any]  # as in JSON
Form = dict[str, str]


class Mishap(Enum):
    """What happens to a request that changes something."""

    RATE_LIMITED = "429 before anything ran"
    KEY_IN_USE = "409 before anything ran"
    BROKEN = "500 in place of the effect, saved under the key"
    BAD_GATEWAY = "502 of something in between, in HTML, in place of the effect"
    BROKEN_AFTER = "500 after the effect, saved under the key"
    CUT_OFF = "the effect, then the connection is closed"
    UNANSWERED = "the effect, then nothing"


class Answer(NamedTuple):
    status: int
    body: Object
    saved: bool = True
    """Under the request's key."""


class Refused(Exception):
    def __init__(self, status: int, error: Object, saved: bool = True) -> None:
        self.answer = Answer(status, {"error": error}, saved)


class StripeFake:
    """Read and changed by tests while it runs in a thread of its own."""

    def __init__(self) -> None:
        self.url = ""
        self.intents: dict[str, Object] = {}
        self.charges: dict[str, Object] = {}
        self.refunds: dict[str, Object] = {}
        self.effects: Counter[str] = Counter()
        """What had an effect; repetitions do not count."""
        self.asked: list[str] = []
        """Method and path of every request."""
        self.forms: list[Form] = []
        self.mishaps: list[Mishap] = []
        """What the next requests that change something meet, one each."""
        self.search_lags = False
        self.search_missing = False
        self._saved: dict[str, tuple[str, Form, Answer]] = {}
        self._numbers = itertools.count(1)
        self._over = asyncio.Event()

    def the_intent(self) -> Object:
        (intent,) = self.intents.values()
        return intent

    def forget_keys(self) -> None:
        """As Stripe may, a day later."""
        self._saved.clear()

    def authenticate(self, payment: str, succeeds: bool = True) -> None:
        """The buyer went through 3-D Secure."""
        intent = self.intents[payment]
        intent["next_action"] = None
        if succeeds:
            self._set_aside(intent)
        else:
            intent["status"] = "requires_payment_method"
            intent["last_payment_error"] = _error(
                "card_error", UNAUTHENTICATED, code="payment_intent_authentication_failure"
            )

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path}")
        if request.headers.get("Authorization") != f"Bearer {SECRET_KEY}":
            error = _error("invalid_request_error", "Invalid API Key provided: sk_test_****zdp7")
            return _response(Answer(401, {"error": error}))
        if request.method == "GET":
            return _response(self._answer("GET", request.path, dict(request.query)))
        form = dict(parse_qsl((await request.read()).decode(), strict_parsing=False))
        self.forms.append(form)
        return await self._change(request, form)

    async def _change(self, request: web.BaseRequest, form: Form) -> web.StreamResponse:
        key = request.headers["Idempotency-Key"]
        mishap = self.mishaps.pop(0) if self.mishaps else None
        if mishap is Mishap.RATE_LIMITED:
            error = _error("invalid_request_error", "Request rate limit.", code="rate_limit")
            return _response(Answer(429, {"error": error}))
        if mishap is Mishap.KEY_IN_USE:
            text = f"There is currently another in-progress request using this key: {key}"
            error = _error("idempotency_error", text, code="idempotency_key_in_use")
            return _response(Answer(409, {"error": error}))
        if mishap is Mishap.BAD_GATEWAY:
            return web.Response(status=502, text="<html>Bad Gateway</html>")
        if key in self._saved:
            return _response(*self._replay(key, request.path, form))
        if mishap is not Mishap.BROKEN:
            answer = self._answer("POST", request.path, form)
        if mishap in (Mishap.BROKEN, Mishap.BROKEN_AFTER):
            answer = Answer(500, {"error": _error("api_error", "An unknown error occurred")})
        if answer.saved:
            # A copy, as text: what is told again is what was, not what became of it.
            kept = answer._replace(body=json.loads(json.dumps(answer.body)))
            self._saved[key] = request.path, form, kept
        if mishap is Mishap.CUT_OFF:
            assert request.transport is not None
            request.transport.abort()
        if mishap is Mishap.UNANSWERED:
            await self._over.wait()
        return _response(answer)

    def _replay(self, key: str, path: str, form: Form) -> tuple[Answer, bool]:
        first_path, first_form, answer = self._saved[key]
        if (first_path, first_form) == (path, form):
            return answer, True
        text = (
            "Keys for idempotent requests can only be used with the same parameters they were "
            f"first used with. Try using a key other than '{key}' if you meant to execute a "
            "different request."
        )
        return Answer(400, {"error": _error("idempotency_error", text)}), False

    def _answer(self, method: str, path: str, form: Form) -> Answer:
        try:
            return Answer(200, self._route(method, path)(form))
        except Refused as refused:
            return refused.answer

    def _route(self, method: str, path: str) -> Callable[[Form], Object]:
        match method, path.removeprefix("/v1/").split("/"):
            case "POST", ["payment_intents"]:
                return self._create
            case "GET", ["payment_intents"]:
                return self._list
            case "GET", ["payment_intents", "search"]:
                return self._search
            case "GET", ["payment_intents", id]:
                return lambda form: _shown(self._intent(id), self.charges, form)
            case "POST", ["payment_intents", id, "capture"]:
                return lambda form: self._capture(self._intent(id), form)
            case "POST", ["payment_intents", id, "cancel"]:
                return lambda form: self._cancel(self._intent(id), form)
            case "POST", ["refunds"]:
                return self._refund
            case "GET", ["refunds"]:
                return self._list_refunds
        raise _invalid(404, f"Unrecognized request URL ({method}: {path}).", saved=False)

    def _intent(self, id: str) -> Object:
        if id not in self.intents:
            text = f"No such payment_intent: '{id}'"
            raise _invalid(404, text, code="resource_missing", param="intent")
        return self.intents[id]

    def _create(self, form: Form) -> Object:
        _check_names(form, CREATING)
        if int(form["amount"]) < 50:
            text = "Amount must be at least $0.50 usd"
            raise _invalid(400, text, code="amount_too_small", param="amount", saved=False)
        id = f"pi_3Fake{next(self._numbers):016}"
        intent: Object = {
            "id": id,
            "object": "payment_intent",
            "amount": int(form["amount"]),
            "amount_capturable": 0,
            "amount_received": 0,
            "canceled_at": None,
            "cancellation_reason": None,
            "capture_method": form.get("capture_method", "automatic"),
            "client_secret": f"{id}_secret_hushhush",
            "confirmation_method": "automatic",
            "created": int(time.time()),
            "currency": form["currency"],
            "last_payment_error": None,
            "latest_charge": None,
            "livemode": False,
            "metadata": _metadata(form),
            "next_action": None,
            "payment_method": None,
            "status": "requires_payment_method",
        }
        if form.get("confirm") == "true":
            self._confirm(intent, form)
        else:
            self.intents[id] = intent
        return _shown(intent, self.charges, form)

    def _confirm(self, intent: Object, form: Form) -> None:
        redirects = form.get("automatic_payment_methods[allow_redirects]", "always")
        if redirects == "always" and "return_url" not in form:
            text = "To confirm a PaymentIntent that accepts redirects, provide a `return_url`."
            raise _invalid(400, text, saved=False)
        method = form["payment_method"]
        match method:
            case "pm_card_visa":
                intent["payment_method"] = method
                self._set_aside(intent)
            case "pm_card_threeDSecure2Required":
                intent["payment_method"] = method
                intent["status"] = "requires_action"
                intent["next_action"] = _three_d_secure(form)
            case "pm_card_chargeDeclined":
                self._decline(intent)
            case _:
                text = f"No such PaymentMethod: '{method}'"
                raise _invalid(
                    400, text, code="resource_missing", param="payment_method", saved=False
                )
        self.intents[intent["id"]] = intent

    def _set_aside(self, intent: Object) -> None:
        charge = self._charge(intent, "succeeded")
        intent["status"] = "requires_capture"
        intent["amount_capturable"] = intent["amount"]
        intent["latest_charge"] = charge["id"]
        self.effects["authorized"] += 1

    def _decline(self, intent: Object) -> None:
        charge = self._charge(intent, "failed")
        error = _error(
            "card_error",
            DECLINED,
            code="card_declined",
            decline_code="generic_decline",
            charge=charge["id"],
        )
        intent["latest_charge"] = charge["id"]
        intent["last_payment_error"] = error
        self.intents[intent["id"]] = intent
        self.effects["declined"] += 1
        raise Refused(402, {**error, "payment_intent": dict(intent)})

    def _charge(self, intent: Object, status: str) -> Object:
        id = f"ch_3Fake{next(self._numbers):016}"
        self.charges[id] = {
            "id": id,
            "object": "charge",
            "amount": intent["amount"],
            "amount_captured": 0,
            "amount_refunded": 0,
            "captured": False,
            "currency": intent["currency"],
            "livemode": False,
            "metadata": dict(intent["metadata"]),
            "paid": status == "succeeded",
            "payment_intent": intent["id"],
            "refunded": False,
            "status": status,
        }
        return self.charges[id]

    def _capture(self, intent: Object, form: Form) -> Object:
        _check_names(form, {"expand[0]"})
        _check_status(intent, "captured", ("requires_capture",))
        charge = self.charges[intent["latest_charge"]]
        charge.update(captured=True, amount_captured=intent["amount"])
        intent.update(status="succeeded", amount_capturable=0, amount_received=intent["amount"])
        self.effects["captured"] += 1
        return _shown(intent, self.charges, form)

    def _cancel(self, intent: Object, form: Form) -> Object:
        _check_names(form, {"expand[0]"})
        _check_status(intent, "canceled", CANCELABLE)
        intent.update(status="canceled", amount_capturable=0, next_action=None)
        intent["canceled_at"] = int(time.time())
        self.effects["canceled"] += 1
        return _shown(intent, self.charges, form)

    def _refund(self, form: Form) -> Object:
        _check_names(form, REFUNDING)
        intent = self._intent(form["payment_intent"])
        charge = self.charges.get(intent["latest_charge"])
        if charge is None or not charge["captured"]:
            raise _invalid(
                400, f"This PaymentIntent ({intent['id']}) does not have a successful charge."
            )
        left = charge["amount_captured"] - charge["amount_refunded"]
        if not left:
            text = f"Charge {charge['id']} has already been refunded."
            raise _invalid(400, text, code="charge_already_refunded")
        amount = int(form.get("amount", left))
        if amount > left:
            text = f"Refund amount (${amount / 100}) is greater than unrefunded amount on charge"
            raise _invalid(400, text, param="amount")
        charge["amount_refunded"] += amount
        charge["refunded"] = charge["amount_refunded"] == charge["amount_captured"]
        id = f"re_3Fake{next(self._numbers):016}"
        self.refunds[id] = {
            "id": id,
            "object": "refund",
            "amount": amount,
            "charge": charge["id"],
            "created": int(time.time()),
            "currency": charge["currency"],
            "metadata": _metadata(form),
            "payment_intent": intent["id"],
            "reason": None,
            "status": "succeeded",
        }
        self.effects["refunded"] += 1
        return self.refunds[id]

    def _list(self, form: Form) -> Object:
        since = int(form.get("created[gte]", 0))
        found = [each for each in reversed(self.intents.values()) if each["created"] >= since]
        return _page("/v1/payment_intents", found, form)

    def _list_refunds(self, form: Form) -> Object:
        of = form["payment_intent"]
        found = [each for each in reversed(self.refunds.values()) if each["payment_intent"] == of]
        return _page("/v1/refunds", found, form)

    def _search(self, form: Form) -> Object:
        if self.search_missing:
            raise _invalid(400, "Search is not available for your account.")
        query = QUERY.fullmatch(form["query"])
        if query is None:
            raise _invalid(400, "We were unable to parse your search query.", param="query")
        name, value = query.groups()
        found = [
            intent
            for intent in self.intents.values()
            # Search makes no difference between upper and lower case.
            if intent["metadata"].get(name, "").lower() == value.lower()
        ]
        return {
            "object": "search_result",
            "url": "/v1/payment_intents/search",
            "has_more": False,
            "next_page": None,
            "data": [] if self.search_lags else found,
        }

    def end(self) -> None:
        """Whoever still waits for an answer gets it."""
        self._over.set()


@contextmanager
def stripe_fake() -> Iterator[StripeFake]:
    """In a thread of its own, so that anybody can call it: this loop, another process, `curl`."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="stripe-fake", daemon=True)
    thread.start()
    fake = StripeFake()

    def wait(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, loop).result(WAIT_SECONDS_MAX)

    try:
        runner = wait(_started(fake))
        yield fake
        wait(_stopped(fake, runner))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT_SECONDS_MAX)
        loop.close()


async def _started(fake: StripeFake) -> web.ServerRunner:
    runner = web.ServerRunner(web.Server(fake.handle), shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    return runner


async def _stopped(fake: StripeFake, runner: web.ServerRunner) -> None:
    fake.end()
    await runner.cleanup()


def _three_d_secure(form: Form) -> Object:
    page = "https://hooks.stripe.com/3d_secure_2/hosted?merchant=acct_fake"
    if form.get("use_stripe_sdk") == "true":
        sdk = {"type": "three_d_secure_redirect", "stripe_js": page, "source": "src_fake"}
        return {"type": "use_stripe_sdk", "use_stripe_sdk": sdk}
    return {
        "type": "redirect_to_url",
        "redirect_to_url": {"return_url": form["return_url"], "url": page},
    }


def _shown(intent: Object, charges: dict[str, Object], form: Form) -> Object:
    if form.get("expand[0]") != "latest_charge" or intent["latest_charge"] is None:
        return dict(intent)
    return {**intent, "latest_charge": dict(charges[intent["latest_charge"]])}


def _page(url: str, found: list[Object], form: Form) -> Object:
    ids = [each["id"] for each in found]
    start = ids.index(form["starting_after"]) + 1 if "starting_after" in form else 0
    end = start + int(form.get("limit", 10))
    return {"object": "list", "url": url, "has_more": end < len(found), "data": found[start:end]}


def _metadata(form: Form) -> Form:
    return {name[9:-1]: value for name, value in form.items() if name.startswith("metadata[")}


def _check_names(form: Form, known: set[str]) -> None:
    for name in form.keys() - known:
        text = f"Received unknown parameter: {name}"
        raise _invalid(400, text, code="parameter_unknown", param=name, saved=False)


def _check_status(intent: Object, done: str, allowed: tuple[str, ...]) -> None:
    if intent["status"] in allowed:
        return
    text = (
        f"This PaymentIntent could not be {done} because it has a status of {intent['status']}. "
        f"Only a PaymentIntent with one of the following statuses may be {done}: "
        f"{', '.join(allowed)}."
    )
    error = _error("invalid_request_error", text, code="payment_intent_unexpected_state")
    raise Refused(400, {**error, "payment_intent": dict(intent)})


def _invalid(status: int, message: str, saved: bool = True, **more: str) -> Refused:
    return Refused(status, _error("invalid_request_error", message, **more), saved)


def _error(type: str, message: str, **more: str) -> Object:
    return {"type": type, "message": message, **more}


def _response(answer: Answer, replayed: bool = False) -> web.Response:
    headers = {"Request-Id": "req_fake"}
    if replayed:
        headers["Idempotent-Replayed"] = "true"
    return web.json_response(answer.body, status=answer.status, headers=headers)
