-- What the stream of the write-ahead log needs of the server: looked at, made and dropped.

-- name: server
-- The rest makes sense on the primary only: a standby has the slots of its own.
SELECT current_setting('server_version_num')::integer AS version,
       current_setting('wal_level') AS wal_level,
       pg_is_in_recovery() AS standby,
       current_database() AS database,
       current_user AS login,
       (SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user) AS has_right,
       EXISTS (SELECT FROM pg_tables WHERE schemaname = 'holdfast' AND tablename = 'log') AS has_log;

-- name: publication
-- One that leaves out inserts, or the log, would be a stream in which nothing ever comes.
SELECT pubinsert AND EXISTS (
           SELECT FROM pg_publication_tables
           WHERE pg_publication_tables.pubname = pg_publication.pubname
             AND schemaname = 'holdfast' AND tablename = 'log'
       ) AS fits
FROM pg_publication WHERE pubname = $1;

-- name: slot
SELECT plugin, database, active_pid, wal_status,
       greatest(pg_wal_lsn_diff(
           CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END,
           restart_lsn
       ), 0)::bigint AS retained_bytes
FROM pg_replication_slots WHERE slot_name = $1;

-- name: create_slot
SELECT pg_create_logical_replication_slot($1, 'pgoutput');

-- name: newest_transaction
SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint;

-- name: oldest_transaction
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint;

-- name: drop_slot
SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1;
