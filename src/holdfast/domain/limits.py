"""Every limit on what may be asked, in one place. Nothing here is unbounded."""

import re

EVENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""No dot: public ids are `{event}.{id}`, so the first dot ends the event's part."""
CALLER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")
PUBLIC_ID = re.compile(rf"({EVENT_ID.pattern})\.{CALLER_ID.pattern}")

LABEL_CHARS_MAX = 64
BUYER_CHARS_MAX = 128
NAME_CHARS_MAX = 200
PAYMENT_CHARS_MAX = 200

EVENT_SEATS_MAX = 1_000_000
EVENT_POOLS_MAX = 1_000
EVENT_TIERS_MAX = 1_000
POOL_CAPACITY_MAX = 1_000_000_000
PRICE_MAX = 1_000_000_000_000

EVENT_WORTH_MAX = 2**63 - 1
"""All units at the highest price: what a store can count exactly."""

HOLD_SECONDS_MAX = 86_400
GRACE_SECONDS_MAX = 86_400
EXTENSIONS_MAX = 100
BUYER_CAP_MAX = 1_000_000

ASK_SEATS_MAX = 10_000
ASK_BEST_MAX = 100
ASK_POOLS_MAX = 100
ASK_CHANNELS_MAX = 100
BEST_QUANTITY_MAX = 1_000
POOL_QUANTITY_MAX = 1_000_000
VERSION_MAX = 2**31 - 1
EXPIRE_MAX = 10_000
LOG_PAGE_MAX = 10_000

EARLIER_PRICES_MAX = 100
"""Changes of prices that are remembered, for refunds."""

RECORDS_KEPT_MS = 24 * 3600 * 1000
"""How long a command, or a key, is known when it comes again."""

FAULTS_SHOWN_MAX = 100
"""A file with a million faults is answered with the first hundred."""
