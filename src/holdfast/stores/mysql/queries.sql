-- Set-based: a batch of any size is a handful of statements. `{keys}` stands for a list of keys,
-- fewer than 1,000 of them (MariaDB makes a joined temporary table of a longer list); `{rows}` for
-- as many rows of values as there are to insert; JSON_TABLE for the rows of an update.
--
-- FORCE INDEX (PRIMARY) makes the plan certain, also on a table without statistics: a look-up in
-- the primary key for each key in turn. So rows are locked in the order of the keys, which come
-- sorted, and no row is read, and waited for, that was not named. STRAIGHT_JOIN says the same of
-- an update: first the rows of the JSON, then each one's row by its full key. Updates join because
-- neither server can read many rows of new values otherwise; every row that one touches was locked
-- before by a select that joins nothing.

-- name: counters
SELECT version, seq, capacity, revenue FROM holdfast_counters WHERE event = %s;

-- name: config
SELECT config FROM holdfast_events WHERE event = %s;

-- name: now
-- Of its own, after the last wait. NOW is the start of the statement; the session's time zone is
-- UTC, else the hour that comes twice in autumn would do so here.
SELECT CAST(FLOOR(UNIX_TIMESTAMP(NOW(6)) * 1000) AS SIGNED);

-- name: buyers
SELECT buyer FROM holdfast_buyers FORCE INDEX (PRIMARY) WHERE event = %s AND buyer IN ({keys})
FOR UPDATE;

-- name: buyers_now
SELECT buyer FROM holdfast_buyers FORCE INDEX (PRIMARY) WHERE event = %s AND buyer IN ({keys});

-- name: insert_buyer
-- Those who were not there to be locked, and got something. Whoever else served the same new buyer
-- meanwhile has made the row already, or waits for it here and then runs again. Made at once, to be
-- locked, it would be rolled back with a refusal; InnoDB leaves those who waited for it with locks
-- on the gap, and they deadlock (measured: 1,500 times in 20 s).
INSERT INTO holdfast_buyers (event, buyer) VALUES {rows};

-- name: seats
SELECT id, tier, channel, hold, until_ms, order_id, withdrawn
FROM holdfast_seats FORCE INDEX (PRIMARY) WHERE event = %s AND id IN ({keys}) FOR UPDATE;

-- name: chosen
-- Whoever has locked a chosen seat will probably take it: look for another instead of waiting.
SELECT id, tier, channel, hold, until_ms, order_id, withdrawn
FROM holdfast_seats FORCE INDEX (PRIMARY) WHERE event = %s AND id IN ({keys})
FOR UPDATE SKIP LOCKED;

-- name: unlocked_seats
-- Run where it commits at once, so that nothing stays locked; for sharing, so that those who look
-- at the same rows are not in each other's way. `{share}` is FOR SHARE on MySQL and
-- LOCK IN SHARE MODE on MariaDB.
SELECT id FROM holdfast_seats FORCE INDEX (PRIMARY) WHERE event = %s AND id IN ({keys})
{share} SKIP LOCKED;

-- name: unlocked_holds
SELECT id FROM holdfast_holds FORCE INDEX (PRIMARY) WHERE event = %s AND id IN ({keys})
{share} SKIP LOCKED;

-- name: seats_now
SELECT id, tier, channel, hold, until_ms, order_id, withdrawn
FROM holdfast_seats FORCE INDEX (PRIMARY) WHERE event = %s AND id IN ({keys});

-- name: pools
SELECT id, tier, capacity, held, sold, channel
FROM holdfast_pools FORCE INDEX (PRIMARY) WHERE event = %s AND id IN ({keys}) FOR UPDATE;

-- name: holds
SELECT id, event, buyer, state, seats, pools, amount, currency, placed_ms, soft_ms, hard_ms,
       extensions, version, order_id
FROM holdfast_holds FORCE INDEX (PRIMARY) WHERE event = %s AND id IN ({keys}) FOR UPDATE;

-- name: dead_holds
-- Found when all that may be waited for is locked: whoever else is at one keeps it.
SELECT id, event, buyer, state, seats, pools, amount, currency, placed_ms, soft_ms, hard_ms,
       extensions, version, order_id
FROM holdfast_holds FORCE INDEX (PRIMARY) WHERE event = %s AND id IN ({keys})
FOR UPDATE SKIP LOCKED;

-- name: peek_holds
SELECT id, event, buyer, state, seats, pools, amount, currency, placed_ms, soft_ms, hard_ms,
       extensions, version, order_id
FROM holdfast_holds FORCE INDEX (PRIMARY) WHERE event = %s AND id IN ({keys});

-- name: orders
SELECT id, event, buyer, state, seats, pools, amount, currency, created_ms, hold, payment,
       version, due_ms, trouble, checkout
FROM holdfast_orders FORCE INDEX (PRIMARY) WHERE event = %s AND id IN ({keys}) FOR UPDATE;

-- name: peek_orders
SELECT id, event, buyer, state, seats, pools, amount, currency, created_ms, hold, payment,
       version, due_ms, trouble, checkout
FROM holdfast_orders FORCE INDEX (PRIMARY) WHERE event = %s AND id IN ({keys});

-- name: records
SELECT id, digest, outcome, at_ms
FROM holdfast_commands FORCE INDEX (PRIMARY) WHERE event = %s AND id IN ({keys});

-- name: payments
SELECT o.payment, o.id FROM JSON_TABLE(%s, '$[*]' COLUMNS (
    payment VARCHAR(200) CHARACTER SET utf8mb4 PATH '$'
)) AS n STRAIGHT_JOIN holdfast_orders o FORCE INDEX (holdfast_orders_by_payment)
    ON o.event = %s AND o.payment = n.payment;

-- name: claims
-- Claims change only under their pool's lock, which the batch has.
SELECT c.pool, c.hold, c.quantity, c.until_ms
FROM JSON_TABLE(%s, '$[*]' COLUMNS (
    pool VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[0]',
    hold VARCHAR(129) CHARACTER SET utf8mb4 PATH '$[1]'
)) AS share STRAIGHT_JOIN holdfast_claims c FORCE INDEX (PRIMARY)
    ON c.event = %s AND c.pool = share.pool AND c.hold = share.hold;

-- name: lapsed
-- Of one pool; those of several are put together with UNION ALL.
(SELECT pool, hold, quantity, until_ms
 FROM holdfast_claims FORCE INDEX (holdfast_claims_by_deadline)
 WHERE event = %s AND pool = %s AND until_ms <= %s ORDER BY until_ms LIMIT %s);

-- name: due
SELECT id, event, buyer, state, seats, pools, amount, currency, placed_ms, soft_ms, hard_ms,
       extensions, version, order_id
FROM holdfast_holds FORCE INDEX (holdfast_holds_by_deadline)
WHERE event = %s AND until_ms <= %s ORDER BY until_ms LIMIT %s;

-- name: tallies
-- What buyers have: their open holds, and in a row without a hold what was sold to them. In one
-- statement, so that a hold that is being sold is seen on one side or the other, not on neither.
SELECT h.buyer, h.id, h.until_ms, h.units FROM JSON_TABLE(%s, '$[*]' COLUMNS (
    buyer VARCHAR(128) CHARACTER SET utf8mb4 PATH '$'
)) AS n STRAIGHT_JOIN holdfast_holds h FORCE INDEX (holdfast_holds_by_buyer)
    ON h.event = %s AND h.buyer = n.buyer AND h.until_ms IS NOT NULL
UNION ALL
SELECT o.buyer, NULL, NULL, CAST(SUM(o.units) AS SIGNED) FROM JSON_TABLE(%s, '$[*]' COLUMNS (
    buyer VARCHAR(128) CHARACTER SET utf8mb4 PATH '$'
)) AS n STRAIGHT_JOIN holdfast_orders o FORCE INDEX (holdfast_orders_by_buyer)
    ON o.event = %s AND o.buyer = n.buyer AND o.state IN ('confirmed', 'captured')
GROUP BY o.buyer;

-- name: house
SELECT id, section, `row`, number, tier, x, y, `rank`, `accessible`, companion,
       restricted_view, channel
FROM holdfast_seat_plans WHERE event = %s ORDER BY position;

-- name: busy_seats
-- The seats that are not simply free: what a house has to be told after it was built.
SELECT id, tier, channel, hold, until_ms, order_id, withdrawn
FROM holdfast_seats WHERE event = %s AND (until_ms > 0 OR withdrawn);

-- name: log_data
-- Tells which seats other processes touched since a house was last brought up to date.
SELECT data FROM holdfast_log WHERE event = %s AND seq > %s ORDER BY seq LIMIT %s;

-- name: insert_event
INSERT INTO holdfast_events (event, version, config) VALUES {rows};

-- name: update_event
UPDATE holdfast_events SET version = %s, config = %s WHERE event = %s AND version = %s;

-- name: last_position
SELECT COALESCE(MAX(position), 0) FROM holdfast_seat_plans WHERE event = %s;

-- name: insert_plan
INSERT INTO holdfast_seat_plans (event, id, section, `row`, number, tier, x, y, `rank`,
                                 `accessible`, companion, restricted_view, channel, position)
VALUES {rows};

-- name: insert_seat
INSERT INTO holdfast_seats (event, id, tier, channel) VALUES {rows};

-- name: update_seat
-- The guard is the seat as it was decided on: had anybody else had it meanwhile, no row matches.
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (
    hold VARCHAR(129) CHARACTER SET utf8mb4 PATH '$[0]',
    until_ms BIGINT PATH '$[1]',
    order_id VARCHAR(129) CHARACTER SET utf8mb4 PATH '$[2]',
    withdrawn BOOLEAN PATH '$[3]',
    event VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[4]',
    id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[5]',
    was_hold VARCHAR(129) CHARACTER SET utf8mb4 PATH '$[6]',
    was_until_ms BIGINT PATH '$[7]',
    was_order_id VARCHAR(129) CHARACTER SET utf8mb4 PATH '$[8]'
)) AS n STRAIGHT_JOIN holdfast_seats s FORCE INDEX (PRIMARY)
    ON s.event = n.event AND s.id = n.id AND s.hold <=> n.was_hold
       AND s.until_ms = n.was_until_ms AND s.order_id <=> n.was_order_id
SET s.hold = n.hold, s.until_ms = n.until_ms, s.order_id = n.order_id, s.withdrawn = n.withdrawn;

-- name: insert_sold
INSERT INTO holdfast_sold_seats (event, seat, order_id) VALUES {rows};

-- name: delete_sold
DELETE s FROM JSON_TABLE(%s, '$[*]' COLUMNS (
    event VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[0]',
    seat VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[1]',
    order_id VARCHAR(129) CHARACTER SET utf8mb4 PATH '$[2]'
)) AS n STRAIGHT_JOIN holdfast_sold_seats s FORCE INDEX (PRIMARY)
    ON s.event = n.event AND s.seat = n.seat AND s.order_id = n.order_id;

-- name: insert_pool
INSERT INTO holdfast_pools (event, id, tier, channel, capacity, held, sold) VALUES {rows};

-- name: update_pool
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (
    capacity BIGINT PATH '$[0]',
    held BIGINT PATH '$[1]',
    sold BIGINT PATH '$[2]',
    event VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[3]',
    id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[4]',
    was_capacity BIGINT PATH '$[5]',
    was_held BIGINT PATH '$[6]',
    was_sold BIGINT PATH '$[7]'
)) AS n STRAIGHT_JOIN holdfast_pools p FORCE INDEX (PRIMARY)
    ON p.event = n.event AND p.id = n.id AND p.capacity = n.was_capacity AND p.held = n.was_held
       AND p.sold = n.was_sold
SET p.capacity = n.capacity, p.held = n.held, p.sold = n.sold;

-- name: insert_claim
INSERT INTO holdfast_claims (event, pool, hold, quantity, until_ms) VALUES {rows};

-- name: update_claim
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (
    until_ms BIGINT PATH '$[0]',
    event VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[1]',
    pool VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[2]',
    hold VARCHAR(129) CHARACTER SET utf8mb4 PATH '$[3]',
    was_until_ms BIGINT PATH '$[4]'
)) AS n STRAIGHT_JOIN holdfast_claims c FORCE INDEX (PRIMARY)
    ON c.event = n.event AND c.pool = n.pool AND c.hold = n.hold AND c.until_ms = n.was_until_ms
SET c.until_ms = n.until_ms;

-- name: delete_claim
DELETE c FROM JSON_TABLE(%s, '$[*]' COLUMNS (
    event VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[0]',
    pool VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[1]',
    hold VARCHAR(129) CHARACTER SET utf8mb4 PATH '$[2]'
)) AS n STRAIGHT_JOIN holdfast_claims c FORCE INDEX (PRIMARY)
    ON c.event = n.event AND c.pool = n.pool AND c.hold = n.hold;

-- name: insert_hold
INSERT INTO holdfast_holds (event, id, buyer, state, seats, pools, units, amount, currency,
                            placed_ms, soft_ms, hard_ms, extensions, version, order_id, until_ms)
VALUES {rows};

-- name: update_hold
-- The fence: whoever acts on an older version of the hold matches no row.
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (
    state VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[0]',
    soft_ms BIGINT PATH '$[1]',
    hard_ms BIGINT PATH '$[2]',
    extensions BIGINT PATH '$[3]',
    version BIGINT PATH '$[4]',
    order_id VARCHAR(129) CHARACTER SET utf8mb4 PATH '$[5]',
    until_ms BIGINT PATH '$[6]',
    event VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[7]',
    id VARCHAR(129) CHARACTER SET utf8mb4 PATH '$[8]',
    was_version BIGINT PATH '$[9]'
)) AS n STRAIGHT_JOIN holdfast_holds h FORCE INDEX (PRIMARY)
    ON h.event = n.event AND h.id = n.id AND h.version = n.was_version
SET h.state = n.state, h.soft_ms = n.soft_ms, h.hard_ms = n.hard_ms, h.extensions = n.extensions,
    h.version = n.version, h.order_id = n.order_id, h.until_ms = n.until_ms;

-- name: insert_order
INSERT INTO holdfast_orders (event, id, buyer, state, seats, pools, units, amount, currency,
                             created_ms, hold, payment, version, due_ms, trouble, checkout)
VALUES {rows};

-- name: update_order
-- The fence: whoever acts on an older version of the order matches no row.
-- What a provider named comes as TEXT: a VARCHAR would be cut here, not refused by its column.
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (
    state VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[0]',
    payment TEXT CHARACTER SET utf8mb4 PATH '$[1]',
    version BIGINT PATH '$[2]',
    due_ms BIGINT PATH '$[3]',
    trouble MEDIUMTEXT CHARACTER SET utf8mb4 PATH '$[4]',
    checkout MEDIUMTEXT CHARACTER SET utf8mb4 PATH '$[5]',
    event VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[6]',
    id VARCHAR(129) CHARACTER SET utf8mb4 PATH '$[7]',
    was_version BIGINT PATH '$[8]'
)) AS n STRAIGHT_JOIN holdfast_orders o FORCE INDEX (PRIMARY)
    ON o.event = n.event AND o.id = n.id AND o.version = n.was_version
SET o.state = n.state, o.payment = n.payment, o.version = n.version, o.due_ms = n.due_ms,
    o.trouble = n.trouble, o.checkout = n.checkout;

-- name: update_order_units
-- The same, where it has other units since.
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (
    state VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[0]',
    payment TEXT CHARACTER SET utf8mb4 PATH '$[1]',
    seats MEDIUMTEXT CHARACTER SET utf8mb4 PATH '$[2]',
    pools MEDIUMTEXT CHARACTER SET utf8mb4 PATH '$[3]',
    units BIGINT PATH '$[4]',
    amount BIGINT PATH '$[5]',
    version BIGINT PATH '$[6]',
    due_ms BIGINT PATH '$[7]',
    trouble MEDIUMTEXT CHARACTER SET utf8mb4 PATH '$[8]',
    checkout MEDIUMTEXT CHARACTER SET utf8mb4 PATH '$[9]',
    event VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[10]',
    id VARCHAR(129) CHARACTER SET utf8mb4 PATH '$[11]',
    was_version BIGINT PATH '$[12]'
)) AS n STRAIGHT_JOIN holdfast_orders o FORCE INDEX (PRIMARY)
    ON o.event = n.event AND o.id = n.id AND o.version = n.was_version
SET o.state = n.state, o.payment = n.payment, o.seats = n.seats, o.pools = n.pools,
    o.units = n.units, o.amount = n.amount, o.version = n.version, o.due_ms = n.due_ms,
    o.trouble = n.trouble, o.checkout = n.checkout;

-- name: insert_record
INSERT INTO holdfast_commands (event, id, digest, outcome, at_ms) VALUES {rows};

-- name: old_records
-- Two processes never wait for each other here: each takes what the other left. The digest keeps
-- MySQL from reading all of the index, which would do for the id alone.
SELECT id, digest FROM holdfast_commands FORCE INDEX (holdfast_commands_by_age)
WHERE event = %s AND at_ms < %s ORDER BY at_ms LIMIT %s FOR UPDATE SKIP LOCKED;

-- name: forget_records
DELETE c FROM JSON_TABLE(%s, '$[*]' COLUMNS (
    id VARCHAR(129) CHARACTER SET utf8mb4 PATH '$'
)) AS n STRAIGHT_JOIN holdfast_commands c FORCE INDEX (PRIMARY) ON c.event = %s AND c.id = n.id;

-- name: insert_key
INSERT INTO holdfast_order_keys (id, digest, at_ms) VALUES {rows};

-- name: update_key
-- A key whose day is over is used anew. The guard is its last use.
UPDATE holdfast_order_keys FORCE INDEX (PRIMARY) SET digest = %s, at_ms = %s
WHERE id = %s AND digest = %s AND at_ms = %s;

-- name: insert_counters
INSERT INTO holdfast_counters (event, version, seq, capacity, sold, revenue)
VALUES (%s, %s, 0, 0, 0, 0);

-- name: advance
-- Last of all. A batch that was decided under an older configuration matches no row. The reply to
-- the update carries LAST_INSERT_ID: neither server can return a column of an updated row.
UPDATE holdfast_counters
SET seq = LAST_INSERT_ID(seq + %s), version = %s, capacity = capacity + %s, sold = sold + %s,
    revenue = revenue + %s
WHERE event = %s AND version = %s;

-- name: append
INSERT INTO holdfast_log (event, seq, type, at_ms, data) VALUES {rows};

-- name: summaries
SELECT e.config, c.seq, c.capacity,
       (SELECT CAST(COALESCE(SUM(h.units), 0) AS SIGNED) FROM holdfast_holds h
        WHERE h.event = e.event AND h.until_ms > %s),
       c.sold, c.revenue
FROM holdfast_events e JOIN holdfast_counters c ON c.event = e.event
WHERE e.event = COALESCE(%s, e.event) ORDER BY e.event;

-- name: map_seats
SELECT p.id, p.section, p.`row`, p.number, p.tier, p.x, p.y,
       CASE WHEN s.order_id IS NOT NULL THEN 'sold'
            WHEN s.until_ms > %s THEN 'held' ELSE 'available' END,
       p.channel, p.`accessible`, p.companion, p.restricted_view
FROM holdfast_seat_plans p JOIN holdfast_seats s ON s.event = p.event AND s.id = p.id
WHERE p.event = %s AND NOT s.withdrawn ORDER BY p.position;

-- name: map_pools
-- A pool's row counts every claim that is written; those past their deadline are free already.
SELECT p.id, p.capacity,
       CAST(p.capacity - p.held - p.sold + (
           SELECT COALESCE(SUM(c.quantity), 0) FROM holdfast_claims c
           WHERE c.event = p.event AND c.pool = p.id AND c.until_ms <= %s) AS SIGNED),
       p.tier, p.channel
FROM holdfast_pools p WHERE p.event = %s ORDER BY p.id;

-- name: standing
SELECT e.config, c.seq FROM holdfast_events e JOIN holdfast_counters c ON c.event = e.event
WHERE e.event = %s;

-- name: statuses
-- The ids of the busy seats, put together here: in Python every row costs. In parts, because the
-- server cuts what is longer than its largest packet, and with their number, to tell that it did.
SELECT order_id IS NOT NULL, COUNT(*), GROUP_CONCAT(id SEPARATOR 0x1F)
FROM holdfast_seats
WHERE event = %s AND NOT withdrawn AND (order_id IS NOT NULL OR until_ms > %s)
GROUP BY 1, MOD(CRC32(id), 64);

-- name: log
SELECT event, seq, type, at_ms, data FROM holdfast_log
WHERE event = %s AND seq > %s ORDER BY seq LIMIT %s;

-- name: due_events
SELECT event FROM holdfast_counters c WHERE EXISTS (
    SELECT 1 FROM holdfast_holds h WHERE h.event = c.event AND h.until_ms <= %s)
ORDER BY event;

-- name: due_orders
SELECT id, event, buyer, state, seats, pools, amount, currency, created_ms, hold, payment,
       version, due_ms, trouble, checkout
FROM holdfast_orders FORCE INDEX (holdfast_orders_by_due)
WHERE due_ms <= %s ORDER BY due_ms LIMIT %s;

-- name: troubled_orders
SELECT id, event, buyer, state, seats, pools, amount, currency, created_ms, hold, payment,
       version, due_ms, trouble, checkout
FROM holdfast_orders FORCE INDEX (holdfast_orders_in_trouble)
WHERE trouble IS NOT NULL ORDER BY created_ms LIMIT %s;

-- name: heads
SELECT event, seq FROM holdfast_counters ORDER BY event;

-- name: pulse
-- One number for all events; it grows with whatever is committed.
SELECT CAST(COALESCE(SUM(seq), 0) + COUNT(*) AS SIGNED) FROM holdfast_counters;

-- name: census_counters
SELECT version, seq, capacity, sold, revenue FROM holdfast_counters WHERE event = %s;

-- name: census_seats
SELECT id, tier, channel, hold, until_ms, order_id, withdrawn
FROM holdfast_seats WHERE event = %s ORDER BY id;

-- name: census_pools
SELECT id, tier, capacity, held, sold, channel FROM holdfast_pools WHERE event = %s ORDER BY id;

-- name: census_claims
SELECT pool, hold, quantity, until_ms FROM holdfast_claims WHERE event = %s ORDER BY pool, hold;

-- name: census_holds
SELECT id, event, buyer, state, seats, pools, amount, currency, placed_ms, soft_ms, hard_ms,
       extensions, version, order_id
FROM holdfast_holds WHERE event = %s ORDER BY id;

-- name: census_orders
SELECT id, event, buyer, state, seats, pools, amount, currency, created_ms, hold, payment,
       version, due_ms, trouble, checkout
FROM holdfast_orders WHERE event = %s ORDER BY id;

-- name: census_sold
SELECT seat, order_id FROM holdfast_sold_seats WHERE event = %s ORDER BY seat;

-- name: census_deadlines
SELECT id, until_ms FROM holdfast_holds WHERE event = %s AND until_ms IS NOT NULL ORDER BY id;

-- name: census_plans
SELECT id, tier, channel FROM holdfast_seat_plans WHERE event = %s ORDER BY id;

-- name: strays
-- Events of which some rows are there but not their own: the event, and its counter.
SELECT event FROM (
    SELECT event FROM holdfast_events UNION SELECT event FROM holdfast_counters
    UNION SELECT event FROM holdfast_seats UNION SELECT event FROM holdfast_pools
    UNION SELECT event FROM holdfast_holds UNION SELECT event FROM holdfast_orders
    UNION SELECT event FROM holdfast_log
) AS known
WHERE event NOT IN (SELECT event FROM holdfast_events)
   OR event NOT IN (SELECT event FROM holdfast_counters) ORDER BY event;

-- name: mend_lock_seats
-- Whoever mends locks everything, in the order in which batches lock.
SELECT id FROM holdfast_seats FORCE INDEX (PRIMARY) WHERE event = %s ORDER BY id FOR UPDATE;

-- name: mend_lock_pools
SELECT id FROM holdfast_pools FORCE INDEX (PRIMARY) WHERE event = %s ORDER BY id FOR UPDATE;

-- name: mend_lock_holds
SELECT id FROM holdfast_holds FORCE INDEX (PRIMARY) WHERE event = %s ORDER BY id FOR UPDATE;

-- name: mend_lock_counter
SELECT seq FROM holdfast_counters WHERE event = %s FOR UPDATE;

-- name: mend_seat
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (
    hold VARCHAR(129) CHARACTER SET utf8mb4 PATH '$[0]',
    until_ms BIGINT PATH '$[1]',
    order_id VARCHAR(129) CHARACTER SET utf8mb4 PATH '$[2]',
    event VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[3]',
    id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[4]'
)) AS n STRAIGHT_JOIN holdfast_seats s FORCE INDEX (PRIMARY) ON s.event = n.event AND s.id = n.id
SET s.hold = n.hold, s.until_ms = n.until_ms, s.order_id = n.order_id;

-- name: mend_pool
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (
    held BIGINT PATH '$[0]',
    sold BIGINT PATH '$[1]',
    event VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[2]',
    id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[3]'
)) AS n STRAIGHT_JOIN holdfast_pools p FORCE INDEX (PRIMARY) ON p.event = n.event AND p.id = n.id
SET p.held = n.held, p.sold = n.sold;

-- name: mend_deadline
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (
    until_ms BIGINT PATH '$[0]',
    event VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[1]',
    id VARCHAR(129) CHARACTER SET utf8mb4 PATH '$[2]'
)) AS n STRAIGHT_JOIN holdfast_holds h FORCE INDEX (PRIMARY) ON h.event = n.event AND h.id = n.id
SET h.until_ms = n.until_ms;

-- name: clear_claims
DELETE FROM holdfast_claims WHERE event = %s;

-- name: clear_sold
DELETE FROM holdfast_sold_seats WHERE event = %s;

-- name: mend_counters
UPDATE holdfast_counters SET version = %s, capacity = %s, sold = %s, revenue = %s WHERE event = %s;

-- name: head
SELECT seq FROM holdfast_counters WHERE event = %s;

-- name: documents
SELECT kind, id, version, body FROM holdfast_documents
WHERE kind = %s AND id = COALESCE(%s, id) ORDER BY id;

-- name: insert_document
-- Where there is one already, it is a duplicate, which is caught: somebody else was first. Not
-- INSERT IGNORE, which would cut a body that is too long instead of refusing it.
INSERT INTO holdfast_documents (kind, id, version, body) VALUES (%s, %s, %s, %s);

-- name: update_document
-- The guard is the version that was read: whoever replaces an older one matches no row.
UPDATE holdfast_documents FORCE INDEX (PRIMARY) SET version = %s, body = %s
WHERE kind = %s AND id = %s AND version = %s;

-- name: delete_document
DELETE FROM holdfast_documents WHERE kind = %s AND id = %s AND version = %s;

-- name: claim_keys
-- A key that is there keeps its digest, unless it is older than keys are remembered. It is locked all
-- the same, in the order of the keys, so that nobody removes it before its digest is read. The new
-- digest has a name only because it comes from a table: of VALUES the two servers have no common way
-- to speak. `at_ms` is set last, as both look at what it was.
INSERT INTO holdfast_order_keys (id, digest, at_ms)
SELECT n.id, n.digest, %s FROM JSON_TABLE(%s, '$[*]' COLUMNS (
    id TEXT CHARACTER SET utf8mb4 PATH '$[0]',
    digest TEXT CHARACTER SET utf8mb4 PATH '$[1]'
)) AS n
ON DUPLICATE KEY UPDATE
    digest = IF(holdfast_order_keys.at_ms < %s, n.digest, holdfast_order_keys.digest),
    at_ms = IF(holdfast_order_keys.at_ms < %s, %s, holdfast_order_keys.at_ms);

-- name: key_uses
SELECT k.id, k.digest, k.at_ms FROM JSON_TABLE(%s, '$[*]' COLUMNS (
    id TEXT CHARACTER SET utf8mb4 PATH '$'
)) AS n STRAIGHT_JOIN holdfast_order_keys k FORCE INDEX (PRIMARY) ON k.id = n.id;

-- name: old_keys
-- Two processes never wait for each other here: each takes what the other left. The digest keeps
-- MySQL from reading all of the index, as in old_records.
SELECT id, digest FROM holdfast_order_keys FORCE INDEX (holdfast_order_keys_by_age)
WHERE at_ms < %s ORDER BY at_ms LIMIT %s FOR UPDATE SKIP LOCKED;

-- name: free_keys
-- The guard is the digest: what somebody else claimed since stays.
DELETE k FROM JSON_TABLE(%s, '$[*]' COLUMNS (
    id TEXT CHARACTER SET utf8mb4 PATH '$[0]',
    digest TEXT CHARACTER SET utf8mb4 PATH '$[1]'
)) AS n STRAIGHT_JOIN holdfast_order_keys k FORCE INDEX (PRIMARY)
    ON k.id = n.id AND k.digest = n.digest;

-- name: tail
-- Of one event; those of several are put together with UNION ALL. MariaDB has no LATERAL.
(SELECT event, seq, type, at_ms, data FROM holdfast_log FORCE INDEX (PRIMARY)
 WHERE event = %s AND seq > %s ORDER BY seq LIMIT %s)

-- name: log_ends
SELECT MIN(seq), MAX(seq) FROM holdfast_log WHERE event = %s;

-- name: prune
-- The oldest of them, so that the log has no gap in the middle.
DELETE FROM holdfast_log WHERE event = %s AND seq < %s;

-- name: cursors
SELECT follower, event, seq, fence, moved_ms FROM holdfast_cursors
WHERE follower = COALESCE(%s, follower) ORDER BY follower, event;

-- name: begin_cursors
-- Makes and locks those that may have to be made, in order of events; one that is there stays as it
-- is.
INSERT INTO holdfast_cursors (follower, event, seq, fence, moved_ms)
SELECT %s, n.event, 0, 0, %s FROM JSON_TABLE(%s, '$[*]' COLUMNS (
    event VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[0]'
)) AS n
ON DUPLICATE KEY UPDATE fence = holdfast_cursors.fence;

-- name: lock_cursors
SELECT event, seq, fence, moved_ms FROM holdfast_cursors FORCE INDEX (PRIMARY)
WHERE follower = %s AND event IN ({keys}) ORDER BY event FOR UPDATE;

-- name: move_cursors
-- Those that were locked, and found where the mover believes them to be, with no higher fence.
UPDATE JSON_TABLE(%s, '$[*]' COLUMNS (
    event VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[0]',
    seq BIGINT PATH '$[1]',
    fence BIGINT PATH '$[2]',
    moved_ms BIGINT PATH '$[3]'
)) AS n STRAIGHT_JOIN holdfast_cursors c FORCE INDEX (PRIMARY)
    ON c.follower = %s AND c.event = n.event
SET c.seq = n.seq, c.fence = n.fence, c.moved_ms = n.moved_ms;

-- name: forget_cursors
DELETE FROM holdfast_cursors WHERE follower = %s;
