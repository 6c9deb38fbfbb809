-- Schema 1, for PostgreSQL 13 and newer. Every key begins with the event's id: no transaction spans
-- two events, so an event may live anywhere. Text is compared byte by byte (COLLATE "C").
-- Deadlines are milliseconds since 1970.

CREATE TABLE holdfast.events (
    event   text COLLATE "C" NOT NULL PRIMARY KEY,
    version integer NOT NULL,
    config  text NOT NULL
);

-- The last row a batch locks: `seq` is advanced by the number of facts, so that the log has no gap
-- and its order is the order of commits. No foreign key points here. Room is left on its pages,
-- for it is written by every batch.
CREATE TABLE holdfast.counters (
    event    text COLLATE "C" NOT NULL PRIMARY KEY,
    version  integer NOT NULL,
    seq      bigint NOT NULL,
    capacity bigint NOT NULL,
    sold     bigint NOT NULL CHECK (sold >= 0),
    revenue  bigint NOT NULL,
    CONSTRAINT counters_not_oversold CHECK (sold <= capacity)
) WITH (fillfactor = 10);

-- Locked, where an event has a cap, so that two holds of one buyer are counted one after the other.
CREATE TABLE holdfast.buyers (
    event text COLLATE "C" NOT NULL,
    buyer text COLLATE "C" NOT NULL,
    PRIMARY KEY (event, buyer)
);

-- `hold` and `until_ms`: who has it and until when. Past `until_ms` it is free, whoever is named.
-- Only columns without an index change, and there is room on the page: an update stays in place.
CREATE TABLE holdfast.seats (
    event     text COLLATE "C" NOT NULL,
    id        text COLLATE "C" NOT NULL,
    tier      text COLLATE "C" NOT NULL,
    channel   text COLLATE "C",
    hold      text COLLATE "C",
    until_ms  bigint NOT NULL DEFAULT 0,
    order_id  text COLLATE "C",
    withdrawn boolean NOT NULL DEFAULT false,
    PRIMARY KEY (event, id)
) WITH (fillfactor = 50);

-- Where a seat is and whom it is for: written once, read for the map and for best available.
CREATE TABLE holdfast.seat_plans (
    event           text COLLATE "C" NOT NULL,
    id              text COLLATE "C" NOT NULL,
    section         text COLLATE "C" NOT NULL,
    row             text COLLATE "C" NOT NULL,
    number          integer NOT NULL,
    tier            text COLLATE "C" NOT NULL,
    x               double precision NOT NULL,
    y               double precision NOT NULL,
    rank            integer,
    accessible      boolean NOT NULL,
    companion       boolean NOT NULL,
    restricted_view boolean NOT NULL,
    channel         text COLLATE "C",
    position        integer NOT NULL,
    PRIMARY KEY (event, id)
);

-- A backstop: even if the program were wrong, a seat has one row here or none.
CREATE TABLE holdfast.sold_seats (
    event    text COLLATE "C" NOT NULL,
    seat     text COLLATE "C" NOT NULL,
    order_id text COLLATE "C" NOT NULL,
    CONSTRAINT sold_seats_once PRIMARY KEY (event, seat)
);

CREATE TABLE holdfast.pools (
    event    text COLLATE "C" NOT NULL,
    id       text COLLATE "C" NOT NULL,
    tier     text COLLATE "C" NOT NULL,
    channel  text COLLATE "C",
    capacity bigint NOT NULL,
    held     bigint NOT NULL CHECK (held >= 0),
    sold     bigint NOT NULL CHECK (sold >= 0),
    PRIMARY KEY (event, id),
    CONSTRAINT pools_not_oversold CHECK (held + sold <= capacity)
) WITH (fillfactor = 10);

CREATE TABLE holdfast.claims (
    event    text COLLATE "C" NOT NULL,
    pool     text COLLATE "C" NOT NULL,
    hold     text COLLATE "C" NOT NULL,
    quantity bigint NOT NULL CHECK (quantity > 0),
    until_ms bigint NOT NULL,
    PRIMARY KEY (event, pool, hold)
);

CREATE INDEX claims_by_deadline ON holdfast.claims (event, pool, until_ms);

-- `until_ms` is the deadline that counts while the hold is open, and NULL once it is over.
CREATE TABLE holdfast.holds (
    event      text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    buyer      text COLLATE "C" NOT NULL,
    state      text COLLATE "C" NOT NULL,
    seats      text NOT NULL,
    pools      text NOT NULL,
    units      bigint NOT NULL CHECK (units > 0),
    amount     bigint NOT NULL,
    currency   text COLLATE "C" NOT NULL,
    placed_ms  bigint NOT NULL,
    soft_ms    bigint NOT NULL,
    hard_ms    bigint NOT NULL,
    extensions integer NOT NULL,
    version    integer NOT NULL,
    order_id   text COLLATE "C",
    until_ms   bigint,
    PRIMARY KEY (event, id)
);

CREATE INDEX holds_by_deadline ON holdfast.holds (event, until_ms) INCLUDE (units)
    WHERE until_ms IS NOT NULL;
CREATE INDEX holds_by_buyer ON holdfast.holds (event, buyer) WHERE until_ms IS NOT NULL;

CREATE TABLE holdfast.orders (
    event      text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    buyer      text COLLATE "C" NOT NULL,
    state      text COLLATE "C" NOT NULL,
    seats      text NOT NULL,
    pools      text NOT NULL,
    units      bigint NOT NULL CHECK (units > 0),
    amount     bigint NOT NULL,
    currency   text COLLATE "C" NOT NULL,
    created_ms bigint NOT NULL,
    hold       text COLLATE "C",
    payment    text COLLATE "C",
    PRIMARY KEY (event, id)
);

CREATE INDEX orders_by_buyer ON holdfast.orders (event, buyer);
-- A backstop: one payment pays for one order.
CREATE UNIQUE INDEX orders_by_payment ON holdfast.orders (event, payment)
    WHERE payment IS NOT NULL;

-- The first answer to every command that made something, so that it can be given again.
CREATE TABLE holdfast.commands (
    event   text COLLATE "C" NOT NULL,
    id      text COLLATE "C" NOT NULL,
    digest  text COLLATE "C" NOT NULL,
    outcome text NOT NULL,
    at_ms   bigint NOT NULL,
    PRIMARY KEY (event, id)
);

CREATE INDEX commands_by_age ON holdfast.commands (event, at_ms);

CREATE TABLE holdfast.log (
    event text COLLATE "C" NOT NULL,
    seq   bigint NOT NULL,
    type  text COLLATE "C" NOT NULL,
    at_ms bigint NOT NULL,
    data  text NOT NULL,
    PRIMARY KEY (event, seq)
);
