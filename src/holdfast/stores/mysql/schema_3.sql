-- Schema 3: checkout goes on where a process stopped. How it goes on is written with the order, under
-- a version that fences off whoever acts on an older one; `due_ms` tells when the next step has to be
-- taken, NULL when there is none, and `trouble` why a person has to look at it.

-- Idempotency keys of calls that name no event, each with a digest of the first call that used it.
CREATE TABLE IF NOT EXISTS holdfast_order_keys (
    id     VARBINARY(256) NOT NULL,
    digest VARBINARY(64) NOT NULL,
    at_ms  BIGINT NOT NULL,
    PRIMARY KEY (id),
    KEY holdfast_order_keys_by_age (at_ms)
) ENGINE = InnoDB;

-- One statement, which is done whole or not at all: where it is run again, its first column is there
-- already, and so is all the rest. The default of `checkout` is in brackets because MySQL gives a
-- text no other. These servers have no index on some of the rows: the one on trouble has its first
-- byte only. Both are only ever read without locks.
ALTER TABLE holdfast_orders
    ADD COLUMN version BIGINT NOT NULL DEFAULT 1,
    ADD COLUMN due_ms BIGINT,
    ADD COLUMN trouble VARBINARY(4000),
    ADD COLUMN checkout MEDIUMTEXT CHARACTER SET utf8mb4 NOT NULL DEFAULT ('{}'),
    ADD KEY holdfast_orders_by_due (due_ms),
    ADD KEY holdfast_orders_in_trouble (trouble(1));
