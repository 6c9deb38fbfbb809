"""What is put into the dead letters of a broker: the fact, and why it could not be delivered."""

import msgspec

from holdfast.domain.cloudevents import DEAD_LETTER, Message

FACT_BYTES_MAX = 500_000
"""A fact that is too large for its topic would be so for the dead letters too: then they only name
it, and it is on the log."""

_encode = msgspec.json.Encoder().encode


def dead_letter(message: Message, reason: str) -> bytes:
    fact = msgspec.Raw(message.body) if len(message.body) <= FACT_BYTES_MAX else None
    return _encode(
        {
            "specversion": "1.0",
            "id": message.id,
            "source": f"/v1/events/{message.event}",
            "type": DEAD_LETTER,
            "subject": message.event,
            "sequence": message.seq,
            "datacontenttype": "application/json",
            "data": {"reason": reason, "type": message.type, "fact": fact},
        }
    )
