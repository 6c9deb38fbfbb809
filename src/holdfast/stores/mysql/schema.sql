-- Schema 1, for MySQL 8.0 and MariaDB 10.6 and newer. Every key begins with the event's id: no
-- transaction spans two events, so an event may live anywhere. Deadlines are milliseconds since
-- 1970.
--
-- Ids and labels are VARBINARY holding UTF-8: compared byte by byte, blanks at the end included.
-- The two servers have no collation in common that does so. Four bytes for each character that
-- Holdfast allows: 64 in a label, 128 in a buyer, 200 in a payment. Holds, orders and commands have
-- ASCII ids of at most 129 characters, `{event}.{id}`.
--
-- No foreign keys: their checks lock rows that no batch has named. DDL is not transactional here,
-- so every step may be run again.

CREATE TABLE IF NOT EXISTS holdfast_events (
    event   VARBINARY(64) NOT NULL,
    version BIGINT NOT NULL,
    config  MEDIUMTEXT CHARACTER SET utf8mb4 NOT NULL,
    PRIMARY KEY (event)
) ENGINE = InnoDB;

-- The last row a batch locks: `seq` is advanced by the number of facts, so that the log has no gap
-- and its order is the order of commits.
CREATE TABLE IF NOT EXISTS holdfast_counters (
    event    VARBINARY(64) NOT NULL,
    version  BIGINT NOT NULL,
    seq      BIGINT NOT NULL,
    capacity BIGINT NOT NULL,
    sold     BIGINT NOT NULL,
    revenue  BIGINT NOT NULL,
    PRIMARY KEY (event),
    CONSTRAINT holdfast_counters_not_oversold CHECK (sold >= 0 AND sold <= capacity)
) ENGINE = InnoDB;

-- Locked, where an event has a cap, so that two holds of one buyer are counted one after the other.
CREATE TABLE IF NOT EXISTS holdfast_buyers (
    event VARBINARY(64) NOT NULL,
    buyer VARBINARY(512) NOT NULL,
    PRIMARY KEY (event, buyer)
) ENGINE = InnoDB;

-- `hold` and `until_ms`: who has it and until when. Past `until_ms` it is free, whoever is named.
CREATE TABLE IF NOT EXISTS holdfast_seats (
    event     VARBINARY(64) NOT NULL,
    id        VARBINARY(256) NOT NULL,
    tier      VARBINARY(256) NOT NULL,
    channel   VARBINARY(256),
    hold      VARBINARY(256),
    until_ms  BIGINT NOT NULL DEFAULT 0,
    order_id  VARBINARY(256),
    withdrawn BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (event, id)
) ENGINE = InnoDB;

-- Where a seat is and whom it is for: written once, read for the map and for best available.
-- The names in quotes are words of SQL on these servers.
CREATE TABLE IF NOT EXISTS holdfast_seat_plans (
    event           VARBINARY(64) NOT NULL,
    id              VARBINARY(256) NOT NULL,
    section         VARBINARY(256) NOT NULL,
    `row`           VARBINARY(256) NOT NULL,
    number          BIGINT NOT NULL,
    tier            VARBINARY(256) NOT NULL,
    x               DOUBLE NOT NULL,
    y               DOUBLE NOT NULL,
    `rank`          BIGINT,
    `accessible`    BOOLEAN NOT NULL,
    companion       BOOLEAN NOT NULL,
    restricted_view BOOLEAN NOT NULL,
    channel         VARBINARY(256),
    position        BIGINT NOT NULL,
    PRIMARY KEY (event, id)
) ENGINE = InnoDB;

-- A backstop: even if the program were wrong, a seat has one row here or none.
CREATE TABLE IF NOT EXISTS holdfast_sold_seats (
    event    VARBINARY(64) NOT NULL,
    seat     VARBINARY(256) NOT NULL,
    order_id VARBINARY(256) NOT NULL,
    PRIMARY KEY (event, seat)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS holdfast_pools (
    event    VARBINARY(64) NOT NULL,
    id       VARBINARY(256) NOT NULL,
    tier     VARBINARY(256) NOT NULL,
    channel  VARBINARY(256),
    capacity BIGINT NOT NULL,
    held     BIGINT NOT NULL,
    sold     BIGINT NOT NULL,
    PRIMARY KEY (event, id),
    CONSTRAINT holdfast_pools_not_oversold
        CHECK (held >= 0 AND sold >= 0 AND held + sold <= capacity)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS holdfast_claims (
    event    VARBINARY(64) NOT NULL,
    pool     VARBINARY(256) NOT NULL,
    hold     VARBINARY(256) NOT NULL,
    quantity BIGINT NOT NULL,
    until_ms BIGINT NOT NULL,
    PRIMARY KEY (event, pool, hold),
    KEY holdfast_claims_by_deadline (event, pool, until_ms),
    CONSTRAINT holdfast_claims_quantity CHECK (quantity > 0)
) ENGINE = InnoDB;

-- `until_ms` is the deadline that counts while the hold is open, and NULL once it is over. Both
-- indexes are only ever read without locks, so that changing a deadline waits for nobody.
CREATE TABLE IF NOT EXISTS holdfast_holds (
    event      VARBINARY(64) NOT NULL,
    id         VARBINARY(256) NOT NULL,
    buyer      VARBINARY(512) NOT NULL,
    state      VARBINARY(16) NOT NULL,
    seats      MEDIUMTEXT CHARACTER SET utf8mb4 NOT NULL,
    pools      MEDIUMTEXT CHARACTER SET utf8mb4 NOT NULL,
    units      BIGINT NOT NULL,
    amount     BIGINT NOT NULL,
    currency   VARBINARY(16) NOT NULL,
    placed_ms  BIGINT NOT NULL,
    soft_ms    BIGINT NOT NULL,
    hard_ms    BIGINT NOT NULL,
    extensions BIGINT NOT NULL,
    version    BIGINT NOT NULL,
    order_id   VARBINARY(256),
    until_ms   BIGINT,
    PRIMARY KEY (event, id),
    KEY holdfast_holds_by_deadline (event, until_ms, units),
    KEY holdfast_holds_by_buyer (event, buyer, until_ms, units),
    CONSTRAINT holdfast_holds_units CHECK (units > 0)
) ENGINE = InnoDB;

-- A backstop: one payment pays for one order. Any number of orders may have none.
CREATE TABLE IF NOT EXISTS holdfast_orders (
    event      VARBINARY(64) NOT NULL,
    id         VARBINARY(256) NOT NULL,
    buyer      VARBINARY(512) NOT NULL,
    state      VARBINARY(16) NOT NULL,
    seats      MEDIUMTEXT CHARACTER SET utf8mb4 NOT NULL,
    pools      MEDIUMTEXT CHARACTER SET utf8mb4 NOT NULL,
    units      BIGINT NOT NULL,
    amount     BIGINT NOT NULL,
    currency   VARBINARY(16) NOT NULL,
    created_ms BIGINT NOT NULL,
    hold       VARBINARY(256),
    payment    VARBINARY(800),
    PRIMARY KEY (event, id),
    KEY holdfast_orders_by_buyer (event, buyer, state, units),
    UNIQUE KEY holdfast_orders_by_payment (event, payment),
    CONSTRAINT holdfast_orders_units CHECK (units > 0)
) ENGINE = InnoDB;

-- The first answer to every command that made something, so that it can be given again.
CREATE TABLE IF NOT EXISTS holdfast_commands (
    event   VARBINARY(64) NOT NULL,
    id      VARBINARY(256) NOT NULL,
    digest  VARBINARY(64) NOT NULL,
    outcome MEDIUMTEXT CHARACTER SET utf8mb4 NOT NULL,
    at_ms   BIGINT NOT NULL,
    PRIMARY KEY (event, id),
    KEY holdfast_commands_by_age (event, at_ms)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS holdfast_log (
    event VARBINARY(64) NOT NULL,
    seq   BIGINT NOT NULL,
    type  VARBINARY(64) NOT NULL,
    at_ms BIGINT NOT NULL,
    data  MEDIUMTEXT CHARACTER SET utf8mb4 NOT NULL,
    PRIMARY KEY (event, seq)
) ENGINE = InnoDB;
