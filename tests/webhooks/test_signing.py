"""What is sent is signed as Standard Webhooks says: receivers who follow it can tell."""

import base64
import json
import time
from datetime import UTC, datetime

import pytest
import standardwebhooks

from holdfast.brokers.webhooks.signing import headers, new_secret
from tests.webhooks.receiving import Forged, verify

BODY = b'{"id":"gala.1","data":{"name":"\xc3\x9cbung"}}'
NOW = 1_790_000_000


def official(secret: str, sent: dict[str, str], body: bytes) -> object:
    """The package that the specification's authors publish."""
    return standardwebhooks.Webhook(secret).verify(body, sent)


def test_a_secret_is_written_as_the_specification_has_it():
    secret = new_secret()
    assert secret.startswith("whsec_")
    assert 24 <= len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) <= 64
    assert new_secret() != secret


def test_the_signature_is_the_one_of_the_specification():
    """Against a value computed by the official package."""
    secret = new_secret()
    sent = headers([secret], "gala.1", NOW, BODY)
    at = datetime.fromtimestamp(NOW, UTC)
    signed = standardwebhooks.Webhook(secret).sign("gala.1", at, BODY.decode())
    assert sent["webhook-signature"] == signed
    assert sent["content-type"] == "application/cloudevents+json"


@pytest.mark.parametrize("check", [verify, official])
def test_what_we_send_is_accepted(check):
    secret = new_secret()
    sent = headers([secret], "gala.1", int(time.time()), BODY)
    assert check(secret, sent, BODY) == json.loads(BODY)


TAMPERED = {
    "body": lambda sent, body: (sent, body.replace(b"gala", b"galb")),
    "a blank in the body": lambda sent, body: (sent, body + b" "),
    "id": lambda sent, body: ({**sent, "webhook-id": "gala.2"}, body),
    "timestamp": lambda sent, body: (
        {**sent, "webhook-timestamp": str(int(sent["webhook-timestamp"]) + 1)},
        body,
    ),
    "signature": lambda sent, body: ({**sent, "webhook-signature": "v1,AAAA"}, body),
    "version": lambda sent, body: (
        {**sent, "webhook-signature": sent["webhook-signature"].replace("v1,", "v2,")},
        body,
    ),
    "id and timestamp read at another dot": lambda sent, body: (
        {**sent, "webhook-id": "gala", "webhook-timestamp": "1"},
        f"{sent['webhook-timestamp']}.".encode() + body,
    ),
}


@pytest.mark.parametrize("what", TAMPERED)
@pytest.mark.parametrize(
    ("check", "error"), [(verify, Forged), (official, standardwebhooks.WebhookVerificationError)]
)
def test_what_was_tampered_with_is_rejected(check, error, what):
    secret = new_secret()
    sent, body = TAMPERED[what](headers([secret], "gala.1", int(time.time()), BODY), BODY)
    with pytest.raises(error):
        check(secret, sent, body)


@pytest.mark.parametrize("ago", [301, -301, 10**6])
@pytest.mark.parametrize(
    ("check", "error"), [(verify, Forged), (official, standardwebhooks.WebhookVerificationError)]
)
def test_what_was_sent_long_ago_is_rejected(check, error, ago):
    secret = new_secret()
    # A second more: the other side looks at its clock later than we did.
    at = int(time.time()) - ago - (1 if ago > 0 else -2)
    with pytest.raises(error):
        check(secret, headers([secret], "gala.1", at, BODY), BODY)


@pytest.mark.parametrize("check", [verify, official])
def test_whoever_knows_one_of_two_secrets_can_tell(check):
    new, old, other = new_secret(), new_secret(), new_secret()
    sent = headers([new, old], "gala.1", int(time.time()), BODY)
    assert sent["webhook-signature"].count("v1,") == 2
    for secret in (new, old):
        assert check(secret, sent, BODY) == json.loads(BODY)
    with pytest.raises((Forged, standardwebhooks.WebhookVerificationError)):
        check(other, sent, BODY)
