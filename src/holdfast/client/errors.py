"""What a call to a service can end with that is no answer. A refusal is not here: it is a value.

HoldfastError
  ClientError
    Unauthorized   no key, an unknown one, or a Buyer-Token that is not the service's
    Forbidden      this key may not do that
    Invalid        the input is malformed; lists every fault; nothing was tried
    RateLimited    too many requests: try again in `retry_after` seconds
    Unavailable    no answer, after all attempts; what was asked may have been done
    Unexpected     an answer that says nothing this client knows: a bug, or not Holdfast at all
    StreamGap      live frames did not join: what was missed is not known
"""

from collections.abc import Sequence

from holdfast import errors
from holdfast.domain.faults import Fault


class ClientError(errors.HoldfastError):
    """Its text is one line. `status` and `reason` are the answer's, where there was one."""

    def __init__(self, text: str, *, status: int | None = None, reason: str = "") -> None:
        super().__init__(" ".join(text.split()))
        self.status = status
        self.reason = reason


class Unauthorized(ClientError):
    pass


class Forbidden(ClientError):
    pass


class Invalid(ClientError, errors.Invalid):
    """Also a `holdfast.Invalid`: the engine raises that for the same input."""

    def __init__(self, text: str, faults: Sequence[Fault]) -> None:
        errors.Invalid.__init__(self, list(faults))
        if not self.faults:
            self.args = (text,)
        self.status = 422
        self.reason = "invalid"


class RateLimited(ClientError):
    def __init__(self, text: str, retry_after: float, reason: str = "rate_limited") -> None:
        super().__init__(text, status=429, reason=reason)
        self.retry_after = retry_after


class Unavailable(ClientError):
    """Asking again with `idempotency_key`, where there is one, settles what became of it."""

    def __init__(
        self,
        text: str,
        *,
        status: int | None = None,
        reason: str = "",
        retry_after: float | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        super().__init__(text, status=status, reason=reason)
        self.retry_after = retry_after
        self.idempotency_key = idempotency_key


class Unexpected(ClientError):
    pass


class StreamGap(ClientError):
    pass
