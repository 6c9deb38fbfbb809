"""What the sandbox's service is asked over HTTP, besides a `Charge`, and what it answers, besides a
`Standing`. All of it is JSON.

    POST /payments/{reference}/authorize, /capture, /void    a Charge
    POST /payments/{reference}/refund                        a RefundAsk
    GET  /payments/{reference}                               404 if there is none
    POST /payments/{reference}/act                           an Act

200 with the Standing, else a Problem: 409 refused for good, 422 malformed, 5xx ask again.
"""

import msgspec

from holdfast.domain.payments import Charge

REFUSED = 409
UNKNOWN = 404


class RefundAsk(msgspec.Struct, frozen=True):
    charge: Charge
    amount: int
    name: str


class Act(msgspec.Struct, frozen=True):
    approve: bool


class Problem(msgspec.Struct, frozen=True):
    detail: str
