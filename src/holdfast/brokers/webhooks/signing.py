"""Secrets and signatures, as Standard Webhooks 1.0 has them: HMAC-SHA256 over id, time and body."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable

PREFIX = "whsec_"
SECRET_BYTES = 32
CONTENT_TYPE = "application/cloudevents+json"


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signature(secret: str, id: str, at_seconds: int, body: bytes) -> str:
    """Of one secret. The id of a fact has one dot, after which a number comes: no other reading of
    what is signed has a time in its place."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = hmac.new(key, f"{id}.{at_seconds}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


def headers(live: Iterable[str], id: str, at_seconds: int, body: bytes) -> dict[str, str]:
    """Of a message, signed with every secret that is live: whoever knows one of them can tell."""
    return {
        "webhook-id": id,
        "webhook-timestamp": str(at_seconds),
        "webhook-signature": " ".join(signature(each, id, at_seconds, body) for each in live),
        "content-type": CONTENT_TYPE,
    }
