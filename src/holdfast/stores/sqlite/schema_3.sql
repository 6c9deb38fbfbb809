-- Schema 3: checkout goes on where a process stopped. How it goes on is written with the order, under
-- a version that fences off whoever acts on an older one; `due_ms` tells when the next step has to be
-- taken, NULL when there is none, and `trouble` why a person has to look at it.

ALTER TABLE orders ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
ALTER TABLE orders ADD COLUMN due_ms INTEGER;
ALTER TABLE orders ADD COLUMN trouble TEXT;
ALTER TABLE orders ADD COLUMN checkout TEXT NOT NULL DEFAULT '{}';

-- Of all events together, and small: nearly all orders have nothing to be done and no trouble.
CREATE INDEX orders_by_due ON orders (due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX orders_in_trouble ON orders (created_ms) WHERE trouble IS NOT NULL;

-- Idempotency keys of calls that name no event, each with a digest of the first call that used it.
CREATE TABLE order_keys (
    id     TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(id AS BLOB)) <= 256),
    digest TEXT NOT NULL CHECK (length(CAST(digest AS BLOB)) <= 64),
    at_ms  INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX order_keys_by_age ON order_keys (at_ms);
