-- Schema 1. Every key begins with the event's id: no transaction spans two events, so an event
-- may live anywhere. Text is compared byte by byte (SQLite's BINARY, the default).
-- Deadlines are milliseconds since 1970. The tables have no rowid: the key is the order on disk.

CREATE TABLE events (
    event   TEXT NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    config  TEXT NOT NULL
) WITHOUT ROWID;

-- The last row a batch writes: `seq` is advanced by the number of facts, so that the log has no
-- gap and its order is the order of commits. No foreign key points here.
CREATE TABLE counters (
    event    TEXT NOT NULL PRIMARY KEY,
    version  INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    capacity INTEGER NOT NULL,
    sold     INTEGER NOT NULL CHECK (sold >= 0),
    revenue  INTEGER NOT NULL,
    CHECK (sold <= capacity)
) WITHOUT ROWID;

-- `hold` and `until_ms`: who has it and until when. Past `until_ms` it is free, whoever is named.
CREATE TABLE seats (
    event      TEXT NOT NULL,
    id         TEXT NOT NULL,
    tier       TEXT NOT NULL,
    channel    TEXT,
    hold       TEXT,
    until_ms   INTEGER NOT NULL DEFAULT 0,
    order_id   TEXT,
    withdrawn  INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (event, id)
) WITHOUT ROWID;

-- Where a seat is and whom it is for: written once, read for the map and for best available.
CREATE TABLE seat_plans (
    event           TEXT NOT NULL,
    id              TEXT NOT NULL,
    section         TEXT NOT NULL,
    row             TEXT NOT NULL,
    number          INTEGER NOT NULL,
    tier            TEXT NOT NULL,
    x               REAL NOT NULL,
    y               REAL NOT NULL,
    rank            INTEGER,
    accessible      INTEGER NOT NULL,
    companion       INTEGER NOT NULL,
    restricted_view INTEGER NOT NULL,
    channel         TEXT,
    position        INTEGER NOT NULL,
    PRIMARY KEY (event, id)
) WITHOUT ROWID;

-- A backstop: even if the program were wrong, a seat has one row here or none.
CREATE TABLE sold_seats (
    event    TEXT NOT NULL,
    seat     TEXT NOT NULL,
    order_id TEXT NOT NULL,
    PRIMARY KEY (event, seat)
) WITHOUT ROWID;

CREATE TABLE pools (
    event    TEXT NOT NULL,
    id       TEXT NOT NULL,
    tier     TEXT NOT NULL,
    channel  TEXT,
    capacity INTEGER NOT NULL,
    held     INTEGER NOT NULL CHECK (held >= 0),
    sold     INTEGER NOT NULL CHECK (sold >= 0),
    PRIMARY KEY (event, id),
    CHECK (held + sold <= capacity)
) WITHOUT ROWID;

CREATE TABLE claims (
    event    TEXT NOT NULL,
    pool     TEXT NOT NULL,
    hold     TEXT NOT NULL,
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    until_ms INTEGER NOT NULL,
    PRIMARY KEY (event, pool, hold)
) WITHOUT ROWID;

CREATE INDEX claims_by_deadline ON claims (event, pool, until_ms);

-- `until_ms` is the deadline that counts while the hold is open, and NULL once it is over.
CREATE TABLE holds (
    event      TEXT NOT NULL,
    id         TEXT NOT NULL,
    buyer      TEXT NOT NULL,
    state      TEXT NOT NULL,
    seats      TEXT NOT NULL,
    pools      TEXT NOT NULL,
    units      INTEGER NOT NULL CHECK (units > 0),
    amount     INTEGER NOT NULL,
    currency   TEXT NOT NULL,
    placed_ms  INTEGER NOT NULL,
    soft_ms    INTEGER NOT NULL,
    hard_ms    INTEGER NOT NULL,
    extensions INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    order_id   TEXT,
    until_ms   INTEGER,
    PRIMARY KEY (event, id)
) WITHOUT ROWID;

CREATE INDEX holds_by_deadline ON holds (event, until_ms, units) WHERE until_ms IS NOT NULL;
CREATE INDEX holds_by_buyer ON holds (event, buyer) WHERE until_ms IS NOT NULL;

CREATE TABLE orders (
    event      TEXT NOT NULL,
    id         TEXT NOT NULL,
    buyer      TEXT NOT NULL,
    state      TEXT NOT NULL,
    seats      TEXT NOT NULL,
    pools      TEXT NOT NULL,
    units      INTEGER NOT NULL CHECK (units > 0),
    amount     INTEGER NOT NULL,
    currency   TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    hold       TEXT,
    payment    TEXT,
    PRIMARY KEY (event, id)
) WITHOUT ROWID;

CREATE INDEX orders_by_buyer ON orders (event, buyer);
-- A backstop: one payment pays for one order.
CREATE UNIQUE INDEX orders_by_payment ON orders (event, payment) WHERE payment IS NOT NULL;

-- The first answer to every command that made something, so that it can be given again.
CREATE TABLE commands (
    event   TEXT NOT NULL,
    id      TEXT NOT NULL,
    digest  TEXT NOT NULL,
    outcome TEXT NOT NULL,
    at_ms   INTEGER NOT NULL,
    PRIMARY KEY (event, id)
) WITHOUT ROWID;

CREATE INDEX commands_by_age ON commands (event, at_ms);

CREATE TABLE log (
    event TEXT NOT NULL,
    seq   INTEGER NOT NULL,
    type  TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    data  TEXT NOT NULL,
    PRIMARY KEY (event, seq)
) WITHOUT ROWID;
