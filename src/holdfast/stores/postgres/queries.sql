-- Set-based: a batch of any size is a handful of statements, each with arrays for its columns.
--
-- Rows are found by `asked CROSS JOIN LATERAL (one row by its full key)`. That is a look-up in the
-- primary key for each key in turn, whatever the planner thinks of the table: the sub-select cannot
-- be merged into the rest. So rows are locked in the order of the keys, which come sorted. And the
-- locking select itself joins nothing: under READ COMMITTED a join that is looked at again after a
-- wait shows one side as it was before.

-- name: counters
SELECT version, seq, capacity, revenue, pg_postmaster_start_time()::text
FROM holdfast.counters WHERE event = $1;

-- name: look
-- Seats as they are, locked by nobody, and after them rows of other kinds, to save round trips: first
-- answers to commands, which have nothing to say about `withdrawn`; last the event's version, which
-- server it is, how far the log is, and the time. Without that row there is no such event.
SELECT found.* FROM unnest($2::text::text[]) AS asked (id) CROSS JOIN LATERAL (
    SELECT id, tier, channel, hold, until_ms, order_id, withdrawn
    FROM holdfast.seats WHERE event = $1 AND seats.id = asked.id LIMIT 1
) found
UNION ALL
SELECT found.* FROM unnest($3::text::text[]) AS asked (id) CROSS JOIN LATERAL (
    SELECT id, digest, outcome, NULL, at_ms, NULL, NULL::boolean
    FROM holdfast.commands WHERE event = $1 AND commands.id = asked.id LIMIT 1
) found
UNION ALL
SELECT version::text, pg_postmaster_start_time()::text, NULL, seq::text,
       (extract(epoch FROM clock_timestamp()) * 1000)::bigint, NULL, false
FROM holdfast.counters WHERE event = $1;

-- name: config
SELECT config FROM holdfast.events WHERE event = $1;

-- name: now
-- Of its own, after the last wait: transaction time would be as old as the wait was long.
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- name: add_buyers
INSERT INTO holdfast.buyers (event, buyer)
SELECT $1, buyer FROM unnest($2::text::text[]) AS asked (buyer) ON CONFLICT DO NOTHING;

-- name: lock_buyers
SELECT found.* FROM unnest($2::text::text[]) AS asked (buyer) CROSS JOIN LATERAL (
    SELECT buyer FROM holdfast.buyers
    WHERE event = $1 AND buyers.buyer = asked.buyer FOR UPDATE
) found;

-- name: seats
SELECT found.* FROM unnest($2::text::text[]) AS asked (id) CROSS JOIN LATERAL (
    SELECT id, tier, channel, hold, until_ms, order_id, withdrawn
    FROM holdfast.seats WHERE event = $1 AND seats.id = asked.id FOR UPDATE
) found;

-- name: chosen
-- Whoever has locked a chosen seat will probably take it: look for another instead of waiting.
SELECT found.* FROM unnest($2::text::text[]) AS asked (id) CROSS JOIN LATERAL (
    SELECT id, tier, channel, hold, until_ms, order_id, withdrawn
    FROM holdfast.seats WHERE event = $1 AND seats.id = asked.id FOR UPDATE SKIP LOCKED
) found;

-- name: seats_now
SELECT found.* FROM unnest($2::text::text[]) AS asked (id) CROSS JOIN LATERAL (
    SELECT id, tier, channel, hold, until_ms, order_id, withdrawn
    FROM holdfast.seats WHERE event = $1 AND seats.id = asked.id LIMIT 1
) found;

-- name: pools
SELECT found.* FROM unnest($2::text::text[]) AS asked (id) CROSS JOIN LATERAL (
    SELECT id, tier, capacity, held, sold, channel
    FROM holdfast.pools WHERE event = $1 AND pools.id = asked.id FOR UPDATE
) found;

-- name: holds
-- After them a row that tells the time, which saves asking for it: the count has to be known first,
-- and for that the last of them has to be locked, so no wait is between this clock and its use.
WITH locked AS MATERIALIZED (
    SELECT found.* FROM unnest($2::text::text[]) AS asked (id) CROSS JOIN LATERAL (
        SELECT id, event, buyer, state, seats, pools, amount, currency, placed_ms, soft_ms, hard_ms,
               extensions, version, order_id
        FROM holdfast.holds WHERE event = $1 AND holds.id = asked.id FOR UPDATE
    ) found
)
SELECT *, NULL::bigint FROM locked
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       CASE WHEN (SELECT count(*) FROM locked) >= 0
            THEN (extract(epoch FROM clock_timestamp()) * 1000)::bigint END;

-- name: dead_holds
-- Found when all that may be waited for is locked: whoever else is at one keeps it.
SELECT found.* FROM unnest($2::text::text[]) AS asked (id) CROSS JOIN LATERAL (
    SELECT id, event, buyer, state, seats, pools, amount, currency, placed_ms, soft_ms, hard_ms,
           extensions, version, order_id
    FROM holdfast.holds WHERE event = $1 AND holds.id = asked.id FOR UPDATE SKIP LOCKED
) found;

-- name: peek_holds
SELECT found.* FROM unnest($2::text::text[]) AS asked (id) CROSS JOIN LATERAL (
    SELECT id, event, buyer, state, seats, pools, amount, currency, placed_ms, soft_ms, hard_ms,
           extensions, version, order_id
    FROM holdfast.holds WHERE event = $1 AND holds.id = asked.id LIMIT 1
) found;

-- name: orders
-- With the time after them, as `holds` has it.
WITH locked AS MATERIALIZED (
    SELECT found.* FROM unnest($2::text::text[]) AS asked (id) CROSS JOIN LATERAL (
        SELECT id, event, buyer, state, seats, pools, amount, currency, created_ms, hold, payment,
               version, due_ms, trouble, checkout
        FROM holdfast.orders WHERE event = $1 AND orders.id = asked.id FOR UPDATE
    ) found
)
SELECT *, NULL::bigint FROM locked
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       CASE WHEN (SELECT count(*) FROM locked) >= 0
            THEN (extract(epoch FROM clock_timestamp()) * 1000)::bigint END;

-- name: peek_orders
SELECT found.* FROM unnest($2::text::text[]) AS asked (id) CROSS JOIN LATERAL (
    SELECT id, event, buyer, state, seats, pools, amount, currency, created_ms, hold, payment,
           version, due_ms, trouble, checkout
    FROM holdfast.orders WHERE event = $1 AND orders.id = asked.id LIMIT 1
) found;

-- name: records
-- With the time: nothing is waited for here.
SELECT found.*, NULL::bigint FROM unnest($2::text::text[]) AS asked (id) CROSS JOIN LATERAL (
    SELECT id, digest, outcome, at_ms
    FROM holdfast.commands WHERE event = $1 AND commands.id = asked.id LIMIT 1
) found
UNION ALL
SELECT NULL, NULL, NULL, NULL, (extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- name: key_uses
-- Of no event: a key is found wherever it was used.
SELECT found.* FROM unnest($1::text::text[]) AS asked (id) CROSS JOIN LATERAL (
    SELECT id, digest, at_ms FROM holdfast.order_keys WHERE order_keys.id = asked.id LIMIT 1
) found;

-- name: payments
SELECT payment, id FROM holdfast.orders
WHERE event = $1 AND payment = ANY ($2::text::text[]) AND payment IS NOT NULL;

-- name: claims
-- Claims change only under their pool's lock, which the batch has.
SELECT c.pool, c.hold, c.quantity, c.until_ms
FROM unnest($2::text::text[], $3::text::text[]) AS share (pool, hold)
JOIN holdfast.claims c ON c.event = $1 AND c.pool = share.pool AND c.hold = share.hold;

-- name: lapsed
SELECT c.pool, c.hold, c.quantity, c.until_ms
FROM unnest($2::text::text[], $3::text::bigint[]) AS short (pool, units)
CROSS JOIN LATERAL (
    SELECT pool, hold, quantity, until_ms FROM holdfast.claims
    WHERE event = $1 AND pool = short.pool AND until_ms <= $4 AND quantity > 0
    ORDER BY until_ms LIMIT short.units
) c;

-- name: due
SELECT id, event, buyer, state, seats, pools, amount, currency, placed_ms, soft_ms, hard_ms,
       extensions, version, order_id
FROM holdfast.holds
WHERE event = $1
  AND until_ms <= coalesce($3::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
ORDER BY until_ms LIMIT $2;

-- name: tallies
-- What buyers have: their open holds, and in a row without a hold what was sold to them. In one
-- statement, so that a hold that is being sold is seen on one side or the other, not on neither.
SELECT buyer, id, until_ms, units FROM holdfast.holds
WHERE event = $1 AND buyer = ANY ($2::text::text[]) AND until_ms IS NOT NULL
UNION ALL
SELECT buyer, NULL, NULL, sum(units)::bigint FROM holdfast.orders
WHERE event = $1 AND buyer = ANY ($2::text::text[]) AND state IN ('confirmed', 'captured')
GROUP BY buyer;

-- name: house
SELECT id, section, row, number, tier, x, y, rank, accessible, companion, restricted_view, channel
FROM holdfast.seat_plans WHERE event = $1 ORDER BY position;

-- name: busy_seats
-- The seats that are not simply free: what a house has to be told after it was built.
SELECT id, tier, channel, hold, until_ms, order_id, withdrawn
FROM holdfast.seats WHERE event = $1 AND (until_ms > 0 OR withdrawn);

-- name: log_data
-- Tells which seats other processes touched since a house was last brought up to date.
SELECT data FROM holdfast.log WHERE event = $1 AND seq > $2 ORDER BY seq LIMIT $3;

-- name: insert_event
INSERT INTO holdfast.events (event, version, config)
SELECT * FROM unnest($1::text::text[], $2::text::integer[], $3::text::text[]);

-- name: update_event
UPDATE holdfast.events e SET version = n.version, config = n.config
FROM unnest($1::text::integer[], $2::text::text[], $3::text::text[], $4::text::integer[])
     AS n (version, config, event, was_version)
WHERE e.event = n.event AND e.version = n.was_version;

-- name: last_position
SELECT coalesce(max(position), 0) FROM holdfast.seat_plans WHERE event = $1;

-- name: insert_plan
INSERT INTO holdfast.seat_plans (event, id, section, row, number, tier, x, y, rank, accessible,
                                 companion, restricted_view, channel, position)
SELECT * FROM unnest($1::text::text[], $2::text::text[], $3::text::text[], $4::text::text[], $5::text::integer[], $6::text::text[],
                     $7::text::double precision[], $8::text::double precision[], $9::text::integer[],
                     $10::text::boolean[], $11::text::boolean[], $12::text::boolean[], $13::text::text[], $14::text::integer[]);

-- name: insert_seat
INSERT INTO holdfast.seats (event, id, tier, channel)
SELECT * FROM unnest($1::text::text[], $2::text::text[], $3::text::text[], $4::text::text[]);

-- name: update_seat
-- The guard is the seat as it was decided on: had anybody else had it meanwhile, no row changes. It
-- is all of the seat, for here a seat may have been decided on that nobody had looked at.
UPDATE holdfast.seats s
SET hold = n.hold, until_ms = n.until_ms, order_id = n.order_id, withdrawn = n.withdrawn
FROM unnest($1::text::text[], $2::text::bigint[], $3::text::text[], $4::text::boolean[], $5::text::text[], $6::text::text[],
            $7::text::text[], $8::text::bigint[], $9::text::text[], $10::text::text[], $11::text::text[],
            $12::text::boolean[])
     AS n (hold, until_ms, order_id, withdrawn, event, id, was_hold, was_until_ms, was_order_id,
           tier, channel, was_withdrawn)
WHERE s.event = n.event AND s.id = n.id AND s.hold IS NOT DISTINCT FROM n.was_hold
  AND s.until_ms = n.was_until_ms AND s.order_id IS NOT DISTINCT FROM n.was_order_id
  AND s.tier = n.tier AND s.channel IS NOT DISTINCT FROM n.channel
  AND s.withdrawn = n.was_withdrawn;

-- name: insert_sold
INSERT INTO holdfast.sold_seats (event, seat, order_id)
SELECT * FROM unnest($1::text::text[], $2::text::text[], $3::text::text[]);

-- name: delete_sold
DELETE FROM holdfast.sold_seats s USING unnest($1::text::text[], $2::text::text[], $3::text::text[])
     AS n (event, seat, order_id)
WHERE s.event = n.event AND s.seat = n.seat AND s.order_id = n.order_id;

-- name: insert_pool
INSERT INTO holdfast.pools (event, id, tier, channel, capacity, held, sold)
SELECT * FROM unnest($1::text::text[], $2::text::text[], $3::text::text[], $4::text::text[], $5::text::bigint[], $6::text::bigint[],
                     $7::text::bigint[]);

-- name: update_pool
UPDATE holdfast.pools p SET capacity = n.capacity, held = n.held, sold = n.sold
FROM unnest($1::text::bigint[], $2::text::bigint[], $3::text::bigint[], $4::text::text[], $5::text::text[], $6::text::bigint[],
            $7::text::bigint[], $8::text::bigint[])
     AS n (capacity, held, sold, event, id, was_capacity, was_held, was_sold)
WHERE p.event = n.event AND p.id = n.id AND p.capacity = n.was_capacity AND p.held = n.was_held
  AND p.sold = n.was_sold;

-- name: insert_claim
INSERT INTO holdfast.claims (event, pool, hold, quantity, until_ms)
SELECT * FROM unnest($1::text::text[], $2::text::text[], $3::text::text[], $4::text::bigint[], $5::text::bigint[]);

-- name: update_claim
UPDATE holdfast.claims c SET until_ms = n.until_ms
FROM unnest($1::text::bigint[], $2::text::text[], $3::text::text[], $4::text::text[], $5::text::bigint[])
     AS n (until_ms, event, pool, hold, was_until_ms)
WHERE c.event = n.event AND c.pool = n.pool AND c.hold = n.hold AND c.until_ms = n.was_until_ms;

-- name: delete_claim
DELETE FROM holdfast.claims c USING unnest($1::text::text[], $2::text::text[], $3::text::text[])
     AS n (event, pool, hold)
WHERE c.event = n.event AND c.pool = n.pool AND c.hold = n.hold;

-- name: insert_hold
INSERT INTO holdfast.holds (event, id, buyer, state, seats, pools, units, amount, currency,
                            placed_ms, soft_ms, hard_ms, extensions, version, order_id, until_ms)
SELECT * FROM unnest($1::text::text[], $2::text::text[], $3::text::text[], $4::text::text[],
                     string_to_array($5::text, E'\x1f'), string_to_array($6::text, E'\x1f'),
                     $7::text::bigint[], $8::text::bigint[], $9::text::text[], $10::text::bigint[], $11::text::bigint[],
                     $12::text::bigint[], $13::text::integer[], $14::text::integer[], $15::text::text[], $16::text::bigint[]);

-- name: update_hold
-- The fence: whoever acts on an older version of the hold changes no row.
UPDATE holdfast.holds h
SET state = n.state, soft_ms = n.soft_ms, hard_ms = n.hard_ms, extensions = n.extensions,
    version = n.version, order_id = n.order_id, until_ms = n.until_ms
FROM unnest($1::text::text[], $2::text::bigint[], $3::text::bigint[], $4::text::integer[], $5::text::integer[], $6::text::text[],
            $7::text::bigint[], $8::text::text[], $9::text::text[], $10::text::integer[])
     AS n (state, soft_ms, hard_ms, extensions, version, order_id, until_ms, event, id, was_version)
WHERE h.event = n.event AND h.id = n.id AND h.version = n.was_version;

-- name: insert_order
INSERT INTO holdfast.orders (event, id, buyer, state, seats, pools, units, amount, currency,
                             created_ms, hold, payment, version, due_ms, trouble, checkout)
SELECT * FROM unnest($1::text::text[], $2::text::text[], $3::text::text[], $4::text::text[],
                     string_to_array($5::text, E'\x1f'), string_to_array($6::text, E'\x1f'),
                     $7::text::bigint[], $8::text::bigint[], $9::text::text[], $10::text::bigint[], $11::text::text[],
                     $12::text::text[], $13::text::bigint[], $14::text::bigint[], $15::text::text[],
                     string_to_array($16::text, E'\x1f'));

-- name: update_order
-- The fence: whoever acts on an older version of the order changes no row.
UPDATE holdfast.orders o
SET state = n.state, payment = n.payment, version = n.version, due_ms = n.due_ms,
    trouble = n.trouble, checkout = n.checkout
FROM unnest($1::text::text[], $2::text::text[], $3::text::bigint[], $4::text::bigint[], $5::text::text[],
            string_to_array($6::text, E'\x1f'), $7::text::text[], $8::text::text[], $9::text::bigint[])
     AS n (state, payment, version, due_ms, trouble, checkout, event, id, was_version)
WHERE o.event = n.event AND o.id = n.id AND o.version = n.was_version;

-- name: update_order_units
-- The same, where it has other units since.
UPDATE holdfast.orders o
SET state = n.state, payment = n.payment, seats = n.seats, pools = n.pools, units = n.units,
    amount = n.amount, version = n.version, due_ms = n.due_ms, trouble = n.trouble,
    checkout = n.checkout
FROM unnest($1::text::text[], $2::text::text[], string_to_array($3::text, E'\x1f'),
            string_to_array($4::text, E'\x1f'), $5::text::bigint[], $6::text::bigint[], $7::text::bigint[],
            $8::text::bigint[], $9::text::text[], string_to_array($10::text, E'\x1f'),
            $11::text::text[], $12::text::text[], $13::text::bigint[])
     AS n (state, payment, seats, pools, units, amount, version, due_ms, trouble, checkout, event, id,
           was_version)
WHERE o.event = n.event AND o.id = n.id AND o.version = n.was_version;

-- name: insert_record
INSERT INTO holdfast.commands (event, id, digest, outcome, at_ms)
SELECT * FROM unnest($1::text::text[], $2::text::text[], $3::text::text[],
                     string_to_array($4::text, E'\x1f'), $5::text::bigint[]);

-- name: forget_records
-- Two processes never wait for each other here: each takes what the other left. All records are of
-- some time from 0 on: that they are named so is for the index, which nobody else shall use.
DELETE FROM holdfast.commands c USING unnest($1::text::text[], $2::text::bigint[], $3::text::bigint[])
     AS old (event, before_ms, most)
WHERE c.event = old.event AND c.id = ANY (ARRAY (
    SELECT id FROM holdfast.commands
    WHERE event = old.event AND at_ms < old.before_ms AND at_ms >= 0
    ORDER BY at_ms LIMIT old.most FOR UPDATE SKIP LOCKED));

-- name: insert_key
INSERT INTO holdfast.order_keys (id, digest, at_ms)
SELECT * FROM unnest($1::text::text[], $2::text::text[], $3::text::bigint[]);

-- name: update_key
-- A key whose day is over is used anew. The guard is its last use.
UPDATE holdfast.order_keys k SET digest = n.digest, at_ms = n.at_ms
FROM unnest($1::text::text[], $2::text::bigint[], $3::text::text[], $4::text::text[], $5::text::bigint[])
     AS n (digest, at_ms, id, was_digest, was_at_ms)
WHERE k.id = n.id AND k.digest = n.was_digest AND k.at_ms = n.was_at_ms;

-- name: forget_keys
-- As forget_records.
DELETE FROM holdfast.order_keys k USING unnest($1::text::bigint[], $2::text::bigint[])
     AS old (before_ms, most)
WHERE k.id = ANY (ARRAY (
    SELECT id FROM holdfast.order_keys
    WHERE at_ms < old.before_ms ORDER BY at_ms LIMIT old.most FOR UPDATE SKIP LOCKED));

-- name: insert_counters
INSERT INTO holdfast.counters (event, version, seq, capacity, sold, revenue)
SELECT event, version, 0, 0, 0, 0 FROM unnest($1::text::text[], $2::text::integer[]) AS n (event, version);

-- name: advance
-- Last of all: the counter, and the facts under the numbers that it gives. A batch that was decided
-- under an older configuration changes no row.
WITH counter AS (
    UPDATE holdfast.counters
    SET seq = seq + $1, version = $2, capacity = capacity + $3, sold = sold + $4,
        revenue = revenue + $5
    WHERE event = $6 AND version = $7 RETURNING event, seq
), log AS (
    INSERT INTO holdfast.log (event, seq, type, at_ms, data)
    SELECT counter.event, counter.seq - $1 + fact.nth, fact.type, $8, fact.data
    FROM counter, unnest($9::text::text[], string_to_array($10::text, E'\x1f')) WITH ORDINALITY
         AS fact (type, data, nth)
)
SELECT seq FROM counter;

-- name: together
-- All writes of a batch, each as it stands in this file, and then `advance`, in one round trip. The
-- counter still comes last, and moves only if each wrote as many rows as it should: its condition
-- needs their counts first; and, where the time was presumed, only if it is about that time. `result`
-- is the counter's number; where no transaction is around it, and
-- a row was not as expected, it has to be an error, so that nothing stays written.
WITH {writes},
counter AS (
    UPDATE holdfast.counters
    SET seq = seq + $1, version = $2, capacity = capacity + $3, sold = sold + $4,
        revenue = revenue + $5
    WHERE event = $6 AND version = $7 AND {as_expected} RETURNING event, seq
), log AS (
    INSERT INTO holdfast.log (event, seq, type, at_ms, data)
    SELECT counter.event, counter.seq - $1 + fact.nth, fact.type, $8, fact.data
    FROM counter, unnest($9::text::text[], string_to_array($10::text, E'\x1f')) WITH ORDINALITY
         AS fact (type, data, nth)
)
SELECT {result};

-- name: flush
-- The commit of the transaction waits for the disk. For a standby it does not wait here: a commit
-- that was told to stop waiting for one would be reported as done. Tells whether it waits.
SELECT set_config('synchronous_commit', CASE current_setting('synchronous_standby_names')
                  WHEN '' THEN 'on' ELSE 'off' END, true) = 'on' AS told;

-- name: summaries
SELECT e.config, c.seq, c.capacity,
       (SELECT coalesce(sum(units), 0)::bigint FROM holdfast.holds h
        WHERE h.event = e.event AND h.until_ms > $1),
       c.sold, c.revenue
FROM holdfast.events e JOIN holdfast.counters c ON c.event = e.event
WHERE $2::text IS NULL OR e.event = $2 ORDER BY e.event;

-- name: map_seats
SELECT p.id, p.section, p.row, p.number, p.tier, p.x, p.y,
       CASE WHEN s.order_id IS NOT NULL THEN 'sold'
            WHEN s.until_ms > $2 THEN 'held' ELSE 'available' END,
       p.channel, p.accessible, p.companion, p.restricted_view
FROM holdfast.seat_plans p JOIN holdfast.seats s ON s.event = p.event AND s.id = p.id
WHERE p.event = $1 AND NOT s.withdrawn ORDER BY p.position;

-- name: map_pools
-- A pool's row counts every claim that is written; those past their deadline are free already.
SELECT p.id, p.capacity,
       (p.capacity - p.held - p.sold + (
           SELECT coalesce(sum(c.quantity), 0) FROM holdfast.claims c
           WHERE c.event = p.event AND c.pool = p.id AND c.until_ms <= $2 AND c.quantity > 0))::bigint,
       p.tier, p.channel
FROM holdfast.pools p WHERE p.event = $1 ORDER BY p.id;

-- name: standing
SELECT e.config, c.seq FROM holdfast.events e JOIN holdfast.counters c ON c.event = e.event
WHERE e.event = $1;

-- name: statuses
-- The ids of all held and of all sold seats, each put together here: in Python every row costs.
SELECT string_agg(id, chr(31)) FILTER (WHERE order_id IS NULL),
       string_agg(id, chr(31)) FILTER (WHERE order_id IS NOT NULL)
FROM holdfast.seats
WHERE event = $1 AND NOT withdrawn AND (order_id IS NOT NULL OR until_ms > $2);

-- name: log
SELECT event, seq, type, at_ms, data FROM holdfast.log
WHERE event = $1 AND seq > $2 ORDER BY seq LIMIT $3;

-- name: due_events
SELECT event FROM holdfast.counters c WHERE EXISTS (
    SELECT 1 FROM holdfast.holds h WHERE h.event = c.event AND h.until_ms <= $1)
ORDER BY event;

-- name: due_orders
SELECT id, event, buyer, state, seats, pools, amount, currency, created_ms, hold, payment,
       version, due_ms, trouble, checkout
FROM holdfast.orders WHERE due_ms <= $1 ORDER BY due_ms LIMIT $2;

-- name: troubled_orders
SELECT id, event, buyer, state, seats, pools, amount, currency, created_ms, hold, payment,
       version, due_ms, trouble, checkout
FROM holdfast.orders WHERE trouble IS NOT NULL ORDER BY created_ms LIMIT $1;

-- name: census_counters
SELECT version, seq, capacity, sold, revenue FROM holdfast.counters WHERE event = $1;

-- name: census_seats
SELECT id, tier, channel, hold, until_ms, order_id, withdrawn
FROM holdfast.seats WHERE event = $1 ORDER BY id;

-- name: census_pools
SELECT id, tier, capacity, held, sold, channel FROM holdfast.pools WHERE event = $1 ORDER BY id;

-- name: census_claims
SELECT pool, hold, quantity, until_ms FROM holdfast.claims WHERE event = $1 ORDER BY pool, hold;

-- name: census_holds
SELECT id, event, buyer, state, seats, pools, amount, currency, placed_ms, soft_ms, hard_ms,
       extensions, version, order_id
FROM holdfast.holds WHERE event = $1 ORDER BY id;

-- name: census_orders
SELECT id, event, buyer, state, seats, pools, amount, currency, created_ms, hold, payment,
       version, due_ms, trouble, checkout
FROM holdfast.orders WHERE event = $1 ORDER BY id;

-- name: census_sold
SELECT seat, order_id FROM holdfast.sold_seats WHERE event = $1 ORDER BY seat;

-- name: mend_lock_seats
-- Whoever mends locks everything, in the order in which batches lock.
SELECT id FROM holdfast.seats WHERE event = $1 ORDER BY id FOR UPDATE;

-- name: mend_lock_pools
SELECT id FROM holdfast.pools WHERE event = $1 ORDER BY id FOR UPDATE;

-- name: mend_lock_holds
SELECT id FROM holdfast.holds WHERE event = $1 ORDER BY id FOR UPDATE;

-- name: mend_lock_counter
SELECT seq FROM holdfast.counters WHERE event = $1 FOR UPDATE;

-- name: mend_seat
UPDATE holdfast.seats s SET hold = n.hold, until_ms = n.until_ms, order_id = n.order_id
FROM unnest($1::text::text[], $2::text::bigint[], $3::text::text[], $4::text::text[], $5::text::text[])
     AS n (hold, until_ms, order_id, event, id)
WHERE s.event = n.event AND s.id = n.id;

-- name: mend_pool
UPDATE holdfast.pools p SET held = n.held, sold = n.sold
FROM unnest($1::text::bigint[], $2::text::bigint[], $3::text::text[], $4::text::text[]) AS n (held, sold, event, id)
WHERE p.event = n.event AND p.id = n.id;

-- name: clear_claims
DELETE FROM holdfast.claims WHERE event = ANY ($1::text::text[]);

-- name: clear_sold
DELETE FROM holdfast.sold_seats WHERE event = ANY ($1::text::text[]);

-- name: mend_counters
UPDATE holdfast.counters c
SET version = n.version, capacity = n.capacity, sold = n.sold, revenue = n.revenue
FROM unnest($1::text::integer[], $2::text::bigint[], $3::text::bigint[], $4::text::bigint[], $5::text::text[])
     AS n (version, capacity, sold, revenue, event)
WHERE c.event = n.event;

-- name: barrier
-- A tiny commit that waits for its flush, whatever the server's own default is: everything committed
-- before it is durable then. Of these facts, it tells those that are on the log as they were written;
-- and those that were pruned since, for what a crash has forgotten was at the log's end. And the time.
WITH flush AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'on', true),
           pg_logical_emit_message(true, 'holdfast', '')
)
SELECT found.*, (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM flush LEFT JOIN (
    SELECT asked.* FROM unnest($1::text::text[], $2::text::bigint[], $3::text::bigint[],
                               $4::text::text[])
         AS asked (event, seq, at_ms, data)
    CROSS JOIN LATERAL (
        SELECT 1 FROM holdfast.log
        WHERE log.event = asked.event AND log.seq = asked.seq AND log.at_ms = asked.at_ms
          AND log.data = asked.data
        UNION ALL
        SELECT 1 WHERE asked.seq < (
            SELECT seq FROM holdfast.log WHERE log.event = asked.event ORDER BY seq LIMIT 1)
        LIMIT 1
    ) there
) found ON true;

-- name: heads
SELECT event, seq FROM holdfast.counters ORDER BY event;

-- name: strays
-- Events of which some rows are there but not their own: the event, and its counter.
SELECT event FROM (
    SELECT event FROM holdfast.events UNION SELECT event FROM holdfast.counters
    UNION SELECT event FROM holdfast.seats UNION SELECT event FROM holdfast.pools
    UNION SELECT event FROM holdfast.holds UNION SELECT event FROM holdfast.orders
    UNION SELECT event FROM holdfast.log
) AS known
WHERE event NOT IN (SELECT event FROM holdfast.events)
   OR event NOT IN (SELECT event FROM holdfast.counters) ORDER BY event;

-- name: census_deadlines
SELECT id, until_ms FROM holdfast.holds WHERE event = $1 AND until_ms IS NOT NULL ORDER BY id;

-- name: census_plans
SELECT id, tier, channel FROM holdfast.seat_plans WHERE event = $1 ORDER BY id;

-- name: mend_deadline
UPDATE holdfast.holds h SET until_ms = n.until_ms
FROM unnest($1::text::bigint[], $2::text::text[], $3::text::text[]) AS n (until_ms, event, id)
WHERE h.event = n.event AND h.id = n.id;

-- name: head
SELECT seq FROM holdfast.counters WHERE event = $1;

-- name: last_fact
SELECT seq, at_ms, data FROM holdfast.log WHERE event = $1 ORDER BY seq DESC LIMIT 1;

-- name: documents
SELECT kind, id, version, body FROM holdfast.documents
WHERE kind = $1 AND ($2::text IS NULL OR id = $2) ORDER BY id;

-- name: insert_document
-- Where there is one already, no row changes: somebody else was first, and has been waited for.
INSERT INTO holdfast.documents (kind, id, version, body) VALUES ($1, $2, $3, $4)
ON CONFLICT (kind, id) DO NOTHING;

-- name: update_document
-- The guard is the version that was read: whoever replaces an older one changes no row.
UPDATE holdfast.documents SET version = $1, body = $2
WHERE kind = $3 AND id = $4 AND version = $5;

-- name: delete_document
DELETE FROM holdfast.documents WHERE kind = $1 AND id = $2 AND version = $3;

-- name: claim_keys
-- A key that is there keeps its digest, unless it is older than keys are remembered ($4). It is
-- written all the same, in the order of the keys, so that its digest can be told, and nobody removes
-- it meanwhile. Some of the old ones go with it: two processes never wait for each other there.
WITH moment AS (
    SELECT coalesce($3::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
), claimed AS (
    INSERT INTO holdfast.order_keys AS k (id, digest, at_ms)
    SELECT n.id, n.digest, moment.now
    FROM moment, unnest($1::text::text[], $2::text::text[]) AS n (id, digest)
    ON CONFLICT (id) DO UPDATE
    SET digest = CASE WHEN k.at_ms < excluded.at_ms - $4 THEN excluded.digest ELSE k.digest END,
        at_ms = CASE WHEN k.at_ms < excluded.at_ms - $4 THEN excluded.at_ms ELSE k.at_ms END
    RETURNING id, digest
), forgotten AS (
    DELETE FROM holdfast.order_keys WHERE id = ANY (ARRAY (
        SELECT id FROM holdfast.order_keys
        WHERE at_ms < (SELECT now FROM moment) - $4 AND id <> ALL ($1::text::text[])
        ORDER BY at_ms LIMIT $5 FOR UPDATE SKIP LOCKED))
)
SELECT id, digest FROM claimed;

-- name: free_keys
-- The guard is the digest: what somebody else claimed since stays. Locked first, in the order of the
-- keys.
DELETE FROM holdfast.order_keys WHERE id = ANY (ARRAY (
    SELECT found.id FROM unnest($1::text::text[], $2::text::text[]) AS n (id, digest)
    CROSS JOIN LATERAL (
        SELECT id FROM holdfast.order_keys k
        WHERE k.id = n.id AND k.digest = n.digest FOR UPDATE
    ) found));

-- name: tails
-- Each event's part is cut off by itself, in the order of its facts; the parts are not mixed.
SELECT found.* FROM unnest($1::text::text[], $2::text::bigint[]) AS asked (event, after)
CROSS JOIN LATERAL (
    SELECT event, seq, type, at_ms, data FROM holdfast.log
    WHERE log.event = asked.event AND log.seq > asked.after ORDER BY log.seq LIMIT $3
) found;

-- name: prune
-- The oldest of them, so that the log has no gap in the middle. Its last fact stays, else nobody
-- could tell a log that was pruned from one that is empty.
DELETE FROM holdfast.log WHERE event = $1 AND seq <= $2
  AND seq < (SELECT min(seq) + $3::bigint FROM holdfast.log WHERE event = $1)
  AND seq < (SELECT max(seq) FROM holdfast.log WHERE event = $1);

-- name: cursors
SELECT follower, event, seq, fence, moved_ms FROM holdfast.cursors
WHERE $1::text IS NULL OR follower = $1 ORDER BY follower, event;

-- name: move_cursors
-- The guard is the place where the mover believes each to be, and the fence: whoever was replaced
-- has a lower one and changes no row. Both are looked at again after a wait. Those that begin may
-- have to be made; the others have to be there. In order of events, so that movers do not meet.
-- The follower stands beside each event so that each row is found by its whole key: asked for all
-- cursors of the follower, the server would compare each of them with each move.
WITH moment AS (
    SELECT coalesce($6::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
), asked AS MATERIALIZED (
    SELECT $1::text AS follower, n.*
    FROM unnest($2::text::text[], $3::text::bigint[], $4::text::bigint[],
                $5::text::bigint[]) AS n (event, was, seq, fence)
), moved AS (
    UPDATE holdfast.cursors c
    SET seq = n.seq, fence = n.fence,
        moved_ms = CASE WHEN c.seq = n.seq THEN c.moved_ms ELSE moment.now END
    FROM asked n, moment
    WHERE n.was <> 0 AND c.follower = n.follower AND c.event = n.event AND c.seq = n.was
      AND c.fence <= n.fence
    RETURNING c.event
), begun AS (
    INSERT INTO holdfast.cursors AS c (follower, event, seq, fence, moved_ms)
    SELECT n.follower, n.event, n.seq, n.fence, moment.now FROM asked n, moment WHERE n.was = 0
    ON CONFLICT (follower, event) DO UPDATE
    SET seq = excluded.seq, fence = excluded.fence,
        moved_ms = CASE WHEN c.seq = excluded.seq THEN c.moved_ms ELSE excluded.moved_ms END
    WHERE c.seq = 0 AND c.fence <= excluded.fence
    RETURNING c.event
)
SELECT event FROM moved UNION ALL SELECT event FROM begun;

-- name: forget_cursors
DELETE FROM holdfast.cursors WHERE follower = $1;
