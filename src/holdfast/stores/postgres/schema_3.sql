-- Schema 3: checkout goes on where a process stopped. How it goes on is written with the order, under
-- a version that fences off whoever acts on an older one; `due_ms` tells when the next step has to be
-- taken, NULL when there is none, and `trouble` why a person has to look at it.

ALTER TABLE holdfast.orders
    ADD COLUMN version  bigint NOT NULL DEFAULT 1,
    ADD COLUMN due_ms   bigint,
    ADD COLUMN trouble  text,
    ADD COLUMN checkout text NOT NULL DEFAULT '{}';

-- Of all events together, and small: nearly all orders have nothing to be done and no trouble.
CREATE INDEX orders_by_due ON holdfast.orders (due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX orders_in_trouble ON holdfast.orders (created_ms) WHERE trouble IS NOT NULL;

-- Idempotency keys of calls that name no event, each with a digest of the first call that used it.
CREATE TABLE holdfast.order_keys (
    id     text COLLATE "C" NOT NULL PRIMARY KEY CHECK (octet_length(id) <= 256),
    digest text COLLATE "C" NOT NULL CHECK (octet_length(digest) <= 64),
    at_ms  bigint NOT NULL
);

CREATE INDEX order_keys_by_age ON holdfast.order_keys (at_ms);
