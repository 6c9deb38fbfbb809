-- Schema 2: what parts of the program keep at the authority beside the events, each under a kind of
-- its own: keys, secrets, leases, how far a follower has read. Guarded by `version`, so that of two
-- processes who replace one, the second finds out. Small, as it is read whole.

CREATE TABLE documents (
    kind    TEXT NOT NULL CHECK (length(CAST(kind AS BLOB)) <= 64),
    id      TEXT NOT NULL CHECK (length(CAST(id AS BLOB)) <= 256),
    version INTEGER NOT NULL,
    body    TEXT NOT NULL CHECK (length(CAST(body AS BLOB)) <= 65536),
    PRIMARY KEY (kind, id)
) WITHOUT ROWID;
