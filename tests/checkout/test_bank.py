"""The sandbox's books: one effect for each step, never more money back than was taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.checkout.payments.bank import NEVER, Bank, payment_id
from holdfast.checkout.payments.sandbox_methods import fault_of
from holdfast.domain.payments import Charge, PaymentState
from holdfast.errors import PaymentError, PaymentRefused, PaymentUnavailable


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def charge(method: str = "sandbox:ok", reference: str = "show.1", amount: int = 900) -> Charge:
    return Charge(reference, amount, "EUR", method)


def captured(bank: Bank, method: str = "sandbox:ok") -> Charge:
    asked = charge(method)
    bank.authorize(asked)
    bank.capture(asked)
    return asked


def test_a_slow_payment_is_pending_until_its_time():
    clock = Clock()
    bank = Bank(clock=clock)
    answer = bank.authorize(charge("sandbox:slow:5"))
    assert (answer.standing.state, answer.after_seconds) == (PaymentState.PENDING, 5.0)
    with pytest.raises(PaymentUnavailable):
        bank.capture(charge("sandbox:slow:5"))
    clock.now += 4
    assert bank.authorize(charge("sandbox:slow:5")).after_seconds == 1.0
    clock.now += 1
    answer = bank.authorize(charge("sandbox:slow:5"))
    assert (answer.standing.state, answer.after_seconds) == (PaymentState.AUTHORIZED, 0.0)
    assert bank.tally.authorizations == 1


def test_a_slow_payment_that_was_voided_meanwhile_stays_so():
    clock = Clock()
    bank = Bank(clock=clock)
    bank.authorize(charge("sandbox:slow:5"))
    assert bank.void(charge("sandbox:slow:5")).state is PaymentState.VOIDED
    clock.now += 5
    assert bank.authorize(charge("sandbox:slow:5")).standing.state is PaymentState.VOIDED


def test_only_the_first_answer_of_a_timeout_never_comes():
    bank = Bank()
    assert bank.authorize(charge("sandbox:timeout")).after_seconds == NEVER
    again = bank.authorize(charge("sandbox:timeout"))
    assert (again.standing.state, again.after_seconds) == (PaymentState.AUTHORIZED, 0.0)
    assert bank.tally.authorizations == 1


@pytest.mark.parametrize("wrong", [charge(amount=901), Charge("show.1", 900, "USD", "sandbox:ok")])
def test_no_step_is_done_for_another_amount_than_was_authorized(wrong):
    bank = Bank()
    bank.authorize(charge())
    for step in (bank.authorize, bank.capture, lambda asked: bank.refund(asked, 1, "one")):
        with pytest.raises(PaymentRefused, match="is 900 EUR"):
            step(wrong)
    assert bank.tally.captures == 0


def test_refunds_never_exceed_what_was_taken():
    bank = Bank()
    asked = captured(bank)
    assert bank.refund(asked, 400, "one").refunded == 400
    with pytest.raises(PaymentRefused, match="500 is left"):
        bank.refund(asked, 501, "two")
    with pytest.raises(PaymentRefused, match="400 was given back"):
        bank.refund(asked, 500, "one")
    for amount in (0, -1):
        with pytest.raises(PaymentRefused):
            bank.refund(asked, amount, "none")
    last = bank.refund(asked, 500, "two")
    assert (last.state, last.refunded) == (PaymentState.REFUNDED, 900)
    assert (bank.tally.refunds, bank.tally.refunded) == (2, 900)


def test_a_void_gives_back_what_is_left_of_what_was_taken():
    bank = Bank()
    asked = captured(bank)
    bank.refund(asked, 400, "void")
    for _ in range(2):
        standing = bank.void(asked)
        assert (standing.state, standing.refunded) == (PaymentState.REFUNDED, 900)
    assert (bank.tally.voids, bank.tally.refunds, bank.tally.refunded) == (0, 2, 900)


def test_what_was_voided_before_it_was_authorized_is_never_authorized():
    bank = Bank()
    assert bank.void(charge()).state is PaymentState.VOIDED
    assert bank.authorize(charge()).standing.state is PaymentState.VOIDED
    with pytest.raises(PaymentRefused):
        bank.capture(charge())
    assert (bank.tally.authorizations, bank.tally.voided) == (0, 0)


def test_a_bank_that_adopts_goes_on_where_a_dead_one_ended():
    first = Bank().authorize(charge()).standing
    assert Bank(adopts=True).find("show.1") is None
    assert Bank(adopts=True).capture(charge()).state is PaymentState.CAPTURED
    assert Bank(adopts=True).void(charge()).state is PaymentState.VOIDED
    assert Bank(adopts=True).refund(charge(), 100, "one").refunded == 100
    assert Bank(adopts=True).capture(charge()).payment == first.payment == payment_id("show.1")


@pytest.mark.parametrize("method", ["sandbox:declined", "sandbox:error"])
def test_what_was_never_authorized_is_not_adopted(method):
    with pytest.raises(PaymentRefused, match=r"no payment of show\.1"):
        Bank(adopts=True).capture(charge(method))


def test_the_buyers_first_word_counts():
    bank = Bank(pages="http://here")
    asked = charge("sandbox:3ds", "show.a:b")
    pending = bank.authorize(asked).standing
    assert pending.state is PaymentState.PENDING
    assert pending.next_action == {
        "type": "redirect",
        "url": "http://here/payments/show.a%3Ab/act",
    }
    assert bank.act("show.a:b", approve=False).reason == "the buyer did not approve"
    assert bank.act("show.a:b", approve=True).state is PaymentState.DECLINED
    assert (bank.tally.declines, bank.tally.authorizations) == (1, 0)
    with pytest.raises(PaymentRefused):
        bank.act("show.unknown", approve=True)


def test_the_oldest_that_are_over_are_forgotten_and_no_other():
    bank = Bank(payments_max=3)
    bank.authorize(charge(reference="open"))
    for nth in range(10):
        done = charge(reference=f"done.{nth}")
        bank.authorize(done)
        bank.capture(done)
        assert len(bank) <= 3
    known = {f"done.{nth}" for nth in range(10) if bank.find(f"done.{nth}")}
    assert known == {"done.8", "done.9"}
    assert bank.find("open") is not None


def test_a_bank_full_of_open_payments_takes_no_more():
    bank = Bank(payments_max=2)
    bank.authorize(charge(reference="one"))
    bank.authorize(charge(reference="two"))
    with pytest.raises(PaymentUnavailable, match="not over yet"):
        bank.authorize(charge(reference="three"))
    bank.void(charge(reference="one"))
    assert bank.authorize(charge(reference="three")).standing.state is PaymentState.AUTHORIZED


@pytest.mark.parametrize(
    "method",
    [
        *("sandbox:ok", "sandbox:slow:0", "sandbox:slow:0.25", "sandbox:slow:99999", "sandbox:3ds"),
        *("sandbox:capture-error:3", "sandbox:void-error:0", "sandbox:refund-refused"),
    ],
)
def test_there_is_no_fault_with_a_known_method(method):
    assert fault_of(method) is None


@pytest.mark.parametrize(
    "method",
    [
        *("", "card", "sandbox", "sandbox:", "sandbox:okk", "sandbox:ok:", "sandbox:ok:1", "x:ok"),
        *("sandbox:slow", "sandbox:slow:x", "sandbox:slow:-1", "sandbox:slow:.5", "sandbox:slow:"),
        *("sandbox:slow:1e3", "sandbox:slow:\u0665", "sandbox:void-error:1001", "stripe:pm\n"),
        "sandbox:" + "x" * 10_000,
    ],
)
def test_every_other_method_is_one_clear_line(method):
    fault = fault_of(method)
    assert fault is not None
    assert "sandbox:ok, sandbox:declined, sandbox:slow:SECONDS" in fault
    assert fault.isprintable()
    assert len(fault) < 400
    with pytest.raises(PaymentRefused):
        Bank().authorize(charge(method))


METHODS = (
    *("ok", "declined", "timeout", "error", "3ds", "slow:5", "capture-declined", "refund-refused"),
    *("capture-error:1", "void-error:1"),
)
steps = st.tuples(
    st.sampled_from(["authorize", "capture", "void", "refund", "approve", "decline", "wait"]),
    st.sampled_from(["a", "b"]),
    st.integers(-1, 6),
)


@given(st.sampled_from(METHODS), st.sampled_from(METHODS), st.lists(steps, max_size=30))
def test_no_sequence_of_steps_moves_money_that_is_not_there(one, two, sequence):
    clock = Clock()
    bank = Bank(clock=clock)
    charges = {
        "a": charge(f"sandbox:{one}", "a", amount=5),
        "b": charge(f"sandbox:{two}", "b", amount=5),
    }
    for step, reference, number in sequence:
        before = bank.find(reference)
        try:
            take(bank, clock, charges[reference], step, number)
        except PaymentError:
            assert bank.find(reference) == before
        tally = bank.tally
        assert tally.captured + tally.voided <= tally.authorized
        assert tally.refunded <= tally.captured
        assert tally.authorizations <= len(bank)
        assert (tally.authorized, tally.captured) == (5 * tally.authorizations, 5 * tally.captures)
        assert tally.refunded == sum(found.refunded for found in map(bank.find, "ab") if found)


def take(bank: Bank, clock: Clock, asked: Charge, step: str, number: int) -> None:
    match step:
        case "authorize":
            bank.authorize(asked)
        case "capture":
            bank.capture(asked)
        case "void":
            bank.void(asked)
        case "refund":
            bank.refund(asked, number, f"name {number}")
        case "wait":
            clock.now += 10
        case _:
            bank.act(asked.reference, approve=step == "approve")
