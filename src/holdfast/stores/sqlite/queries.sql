-- SQLite has no SELECT ... FOR UPDATE and needs none: BEGIN IMMEDIATE admits one writer.
-- Look-ups by key are run once per key by executemany: SQLite is in this process, so that costs
-- a few microseconds and no round trip.

-- name: counters
SELECT version, seq, capacity, revenue FROM counters WHERE event = ?;

-- name: config
SELECT config FROM events WHERE event = ?;

-- name: seats
SELECT id, tier, channel, hold, until_ms, order_id, withdrawn
FROM seats WHERE event = ? AND id = ?;

-- name: pools
SELECT id, tier, capacity, held, sold, channel FROM pools WHERE event = ? AND id = ?;

-- name: holds
SELECT id, event, buyer, state, seats, pools, amount, currency, placed_ms, soft_ms, hard_ms,
       extensions, version, order_id
FROM holds WHERE event = ? AND id = ?;

-- name: orders
SELECT id, event, buyer, state, seats, pools, amount, currency, created_ms, hold, payment,
       version, due_ms, trouble, checkout
FROM orders WHERE event = ? AND id = ?;

-- name: records
SELECT id, digest, outcome, at_ms FROM commands WHERE event = ? AND id = ?;

-- name: payments
SELECT payment, id FROM orders WHERE event = ? AND payment = ? AND payment IS NOT NULL;

-- name: claims
-- A hold names its pools, so its claims are found by full key.
SELECT pool, hold, quantity, until_ms FROM claims WHERE event = ? AND pool = ? AND hold = ?;

-- name: lapsed
SELECT pool, hold, quantity, until_ms FROM claims
WHERE event = ? AND pool = ? AND until_ms <= ? ORDER BY until_ms LIMIT ?;

-- name: due
SELECT id, event, buyer, state, seats, pools, amount, currency, placed_ms, soft_ms, hard_ms,
       extensions, version, order_id
FROM holds WHERE event = ? AND until_ms <= ? AND until_ms IS NOT NULL ORDER BY until_ms LIMIT ?;

-- name: open_by_buyer
SELECT id, until_ms, units FROM holds WHERE event = ? AND buyer = ? AND until_ms IS NOT NULL;

-- name: sold_to_buyer
SELECT COALESCE(SUM(units), 0) FROM orders
WHERE event = ? AND buyer = ? AND state IN ('confirmed', 'captured');

-- name: house
SELECT id, section, row, number, tier, x, y, rank, accessible, companion, restricted_view, channel
FROM seat_plans WHERE event = ? ORDER BY position;

-- name: busy_seats
-- The seats that are not simply free: what a house has to be told after it was built.
SELECT id, tier, channel, hold, until_ms, order_id, withdrawn
FROM seats WHERE event = ? AND (until_ms > 0 OR withdrawn);

-- name: log_data
-- Tells which seats other processes touched since a house was last brought up to date.
SELECT data FROM log WHERE event = ? AND seq > ? ORDER BY seq LIMIT ?;

-- name: insert_event
INSERT INTO events (event, version, config) VALUES (?, ?, ?);

-- name: update_event
UPDATE events SET version = ?, config = ? WHERE event = ? AND version = ?;

-- name: last_position
SELECT COALESCE(MAX(position), 0) FROM seat_plans WHERE event = ?;

-- name: insert_plan
INSERT INTO seat_plans (event, id, section, row, number, tier, x, y, rank, accessible, companion,
                        restricted_view, channel, position)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_seat
INSERT INTO seats (event, id, tier, channel) VALUES (?, ?, ?, ?);

-- name: update_seat
-- The guard is the seat as it was decided on: had anybody else had it meanwhile, no row changes.
UPDATE seats SET hold = ?, until_ms = ?, order_id = ?, withdrawn = ?
WHERE event = ? AND id = ? AND hold IS ? AND until_ms = ? AND order_id IS ?;

-- name: insert_sold
INSERT INTO sold_seats (event, seat, order_id) VALUES (?, ?, ?);

-- name: delete_sold
DELETE FROM sold_seats WHERE event = ? AND seat = ? AND order_id = ?;

-- name: insert_pool
INSERT INTO pools (event, id, tier, channel, capacity, held, sold) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: update_pool
UPDATE pools SET capacity = ?, held = ?, sold = ?
WHERE event = ? AND id = ? AND capacity = ? AND held = ? AND sold = ?;

-- name: insert_claim
INSERT INTO claims (event, pool, hold, quantity, until_ms) VALUES (?, ?, ?, ?, ?);

-- name: update_claim
UPDATE claims SET until_ms = ? WHERE event = ? AND pool = ? AND hold = ? AND until_ms = ?;

-- name: delete_claim
DELETE FROM claims WHERE event = ? AND pool = ? AND hold = ?;

-- name: insert_hold
INSERT INTO holds (event, id, buyer, state, seats, pools, units, amount, currency, placed_ms,
                   soft_ms, hard_ms, extensions, version, order_id, until_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: update_hold
-- The fence: whoever acts on an older version of the hold changes no row.
UPDATE holds SET state = ?, soft_ms = ?, hard_ms = ?, extensions = ?, version = ?, order_id = ?,
                 until_ms = ?
WHERE event = ? AND id = ? AND version = ?;

-- name: insert_order
INSERT INTO orders (event, id, buyer, state, seats, pools, units, amount, currency, created_ms,
                    hold, payment, version, due_ms, trouble, checkout)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: update_order
-- The fence: whoever acts on an older version of the order changes no row.
UPDATE orders SET state = ?, payment = ?, version = ?, due_ms = ?, trouble = ?, checkout = ?
WHERE event = ? AND id = ? AND version = ?;

-- name: update_order_units
-- The same, where it has other units since.
UPDATE orders SET state = ?, payment = ?, seats = ?, pools = ?, units = ?, amount = ?, version = ?,
                  due_ms = ?, trouble = ?, checkout = ?
WHERE event = ? AND id = ? AND version = ?;

-- name: insert_record
INSERT INTO commands (event, id, digest, outcome, at_ms) VALUES (?, ?, ?, ?, ?);

-- name: forget_records
DELETE FROM commands WHERE (event, id) IN (
    SELECT event, id FROM commands WHERE event = ? AND at_ms < ? ORDER BY at_ms LIMIT ?);

-- name: insert_key
INSERT INTO order_keys (id, digest, at_ms) VALUES (?, ?, ?);

-- name: update_key
-- A key whose day is over is used anew. The guard is its last use.
UPDATE order_keys SET digest = ?, at_ms = ? WHERE id = ? AND digest = ? AND at_ms = ?;

-- name: insert_counters
INSERT INTO counters (event, version, seq, capacity, sold, revenue) VALUES (?, ?, 0, 0, 0, 0);

-- name: advance
-- Last of all. A batch that was decided under an older configuration changes no row.
UPDATE counters SET seq = seq + ?, version = ?, capacity = capacity + ?, sold = sold + ?,
                    revenue = revenue + ?
WHERE event = ? AND version = ? RETURNING seq;

-- name: append
INSERT INTO log (event, seq, type, at_ms, data) VALUES (?, ?, ?, ?, ?);

-- name: summaries
SELECT e.config, c.seq, c.capacity,
       (SELECT COALESCE(SUM(units), 0) FROM holds h
        WHERE h.event = e.event AND h.until_ms > ?1 AND h.until_ms IS NOT NULL),
       c.sold, c.revenue
FROM events e JOIN counters c ON c.event = e.event
WHERE ?2 IS NULL OR e.event = ?2 ORDER BY e.event;

-- name: map_seats
SELECT p.id, p.section, p.row, p.number, p.tier, p.x, p.y,
       CASE WHEN s.order_id IS NOT NULL THEN 'sold'
            WHEN s.until_ms > ?2 THEN 'held' ELSE 'available' END,
       p.channel, p.accessible, p.companion, p.restricted_view
FROM seat_plans p JOIN seats s ON s.event = p.event AND s.id = p.id
WHERE p.event = ?1 AND NOT s.withdrawn ORDER BY p.position;

-- name: map_pools
-- A pool's row counts every claim that is written; those past their deadline are free already.
SELECT p.id, p.capacity,
       p.capacity - p.held - p.sold + (
           SELECT COALESCE(SUM(c.quantity), 0) FROM claims c
           WHERE c.event = p.event AND c.pool = p.id AND c.until_ms <= ?2),
       p.tier, p.channel
FROM pools p WHERE p.event = ?1 ORDER BY p.id;

-- name: standing
SELECT e.config, c.seq FROM events e JOIN counters c ON c.event = e.event WHERE e.event = ?;

-- name: statuses
-- The ids of all held and of all sold seats, each put together here: in Python every row costs.
SELECT group_concat(id, char(31)) FILTER (WHERE order_id IS NULL),
       group_concat(id, char(31)) FILTER (WHERE order_id IS NOT NULL)
FROM seats
WHERE event = ?1 AND NOT withdrawn AND (order_id IS NOT NULL OR until_ms > ?2);

-- name: log
SELECT event, seq, type, at_ms, data FROM log WHERE event = ? AND seq > ? ORDER BY seq LIMIT ?;

-- name: due_events
SELECT event FROM counters c WHERE EXISTS (
    SELECT 1 FROM holds h
    WHERE h.event = c.event AND h.until_ms <= ? AND h.until_ms IS NOT NULL)
ORDER BY event;

-- name: due_orders
SELECT id, event, buyer, state, seats, pools, amount, currency, created_ms, hold, payment,
       version, due_ms, trouble, checkout
FROM orders WHERE due_ms <= ? AND due_ms IS NOT NULL ORDER BY due_ms LIMIT ?;

-- name: troubled_orders
SELECT id, event, buyer, state, seats, pools, amount, currency, created_ms, hold, payment,
       version, due_ms, trouble, checkout
FROM orders WHERE trouble IS NOT NULL ORDER BY created_ms LIMIT ?;

-- name: census_counters
SELECT version, seq, capacity, sold, revenue FROM counters WHERE event = ?;

-- name: census_seats
SELECT id, tier, channel, hold, until_ms, order_id, withdrawn
FROM seats WHERE event = ? ORDER BY id;

-- name: census_pools
SELECT id, tier, capacity, held, sold, channel FROM pools WHERE event = ? ORDER BY id;

-- name: census_claims
SELECT pool, hold, quantity, until_ms FROM claims WHERE event = ? ORDER BY pool, hold;

-- name: census_holds
SELECT id, event, buyer, state, seats, pools, amount, currency, placed_ms, soft_ms, hard_ms,
       extensions, version, order_id
FROM holds WHERE event = ? ORDER BY id;

-- name: census_orders
SELECT id, event, buyer, state, seats, pools, amount, currency, created_ms, hold, payment,
       version, due_ms, trouble, checkout
FROM orders WHERE event = ? ORDER BY id;

-- name: census_sold
SELECT seat, order_id FROM sold_seats WHERE event = ? ORDER BY seat;

-- name: mend_seat
UPDATE seats SET hold = ?, until_ms = ?, order_id = ? WHERE event = ? AND id = ?;

-- name: mend_pool
UPDATE pools SET held = ?, sold = ? WHERE event = ? AND id = ?;

-- name: clear_claims
DELETE FROM claims WHERE event = ?;

-- name: clear_sold
DELETE FROM sold_seats WHERE event = ?;

-- name: mend_counters
UPDATE counters SET version = ?, capacity = ?, sold = ?, revenue = ? WHERE event = ?;

-- name: strays
-- Events of which some rows are there but not their own: the event, and its counter.
SELECT event FROM (
    SELECT event FROM events UNION SELECT event FROM counters
    UNION SELECT event FROM seats UNION SELECT event FROM pools
    UNION SELECT event FROM holds UNION SELECT event FROM orders
    UNION SELECT event FROM log
) AS known
WHERE event NOT IN (SELECT event FROM events)
   OR event NOT IN (SELECT event FROM counters) ORDER BY event;

-- name: heads
SELECT event, seq FROM counters;

-- name: census_deadlines
SELECT id, until_ms FROM holds WHERE event = ? AND until_ms IS NOT NULL ORDER BY id;

-- name: census_plans
SELECT id, tier, channel FROM seat_plans WHERE event = ? ORDER BY id;

-- name: mend_deadline
UPDATE holds SET until_ms = ? WHERE event = ? AND id = ?;

-- name: documents
SELECT kind, id, version, body FROM documents
WHERE kind = ?1 AND (?2 IS NULL OR id = ?2) ORDER BY id;

-- name: insert_document
-- Where there is one already, no row changes: somebody else was first.
INSERT INTO documents (kind, id, version, body) VALUES (?, ?, ?, ?)
ON CONFLICT (kind, id) DO NOTHING;

-- name: update_document
-- The guard is the version that was read: whoever replaces an older one changes no row.
UPDATE documents SET version = ?, body = ? WHERE kind = ? AND id = ? AND version = ?;

-- name: delete_document
DELETE FROM documents WHERE kind = ? AND id = ? AND version = ?;

-- name: claim_key
-- A key that is there keeps its digest, unless it is older than keys are remembered.
INSERT INTO order_keys (id, digest, at_ms) VALUES (?1, ?2, ?3)
ON CONFLICT (id) DO UPDATE SET digest = excluded.digest, at_ms = excluded.at_ms WHERE at_ms < ?4;

-- name: key_use
SELECT id, digest, at_ms FROM order_keys WHERE id = ?;

-- name: forget_keys
DELETE FROM order_keys WHERE id IN (
    SELECT id FROM order_keys WHERE at_ms < ? ORDER BY at_ms LIMIT ?);

-- name: free_key
-- The guard is the digest: what somebody else claimed since stays.
DELETE FROM order_keys WHERE id = ? AND digest = ?;

-- name: prune
-- The oldest of them, so that the log has no gap in the middle. Its last fact stays, else nobody
-- could tell a log that was pruned from one that is empty.
DELETE FROM log WHERE event = ?1 AND seq <= ?2
  AND seq < (SELECT MIN(seq) + ?3 FROM log WHERE event = ?1)
  AND seq < (SELECT MAX(seq) FROM log WHERE event = ?1);

-- name: cursors
SELECT follower, event, seq, fence, moved_ms FROM cursors
WHERE ?1 IS NULL OR follower = ?1 ORDER BY follower, event;

-- name: begin_cursor
-- Where there is one, it is moved as any other is: from 0, and by no lower fence.
INSERT INTO cursors (follower, event, seq, fence, moved_ms) VALUES (?1, ?2, ?4, ?5, ?6)
ON CONFLICT (follower, event) DO UPDATE
SET seq = ?4, fence = ?5, moved_ms = CASE WHEN seq = ?4 THEN moved_ms ELSE ?6 END
WHERE seq = ?3 AND fence <= ?5;

-- name: move_cursor
-- The guard is the place where the mover believes it to be, and the fence: whoever was replaced has
-- a lower one and changes no row.
UPDATE cursors SET seq = ?4, fence = ?5, moved_ms = CASE WHEN seq = ?4 THEN moved_ms ELSE ?6 END
WHERE follower = ?1 AND event = ?2 AND seq = ?3 AND fence <= ?5;

-- name: forget_cursors
DELETE FROM cursors WHERE follower = ?;
