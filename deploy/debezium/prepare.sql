-- What Debezium needs of PostgreSQL, run once by the owner of Holdfast's tables (a superuser may be
-- needed for REPLICATION). The server must run with wal_level = logical.

-- Set its password in a session of your own: \password holdfast_debezium
CREATE ROLE holdfast_debezium LOGIN REPLICATION;
GRANT USAGE ON SCHEMA holdfast TO holdfast_debezium;
-- To read what was on the log before the connector came.
GRANT SELECT ON holdfast.log TO holdfast_debezium;

-- Inserts only: facts never change, and what retention deletes was published long ago.
CREATE PUBLICATION holdfast_debezium FOR TABLE holdfast.log WITH (publish = 'insert');
