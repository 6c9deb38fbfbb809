-- Schema 4: followers of the log. A cursor tells the last fact that a follower is done with, and the
-- fence of whoever moved it: one who was replaced and does not know it yet moves it no more.

CREATE TABLE cursors (
    follower TEXT NOT NULL CHECK (length(CAST(follower AS BLOB)) <= 256),
    event    TEXT NOT NULL,
    seq      INTEGER NOT NULL,
    fence    INTEGER NOT NULL,
    moved_ms INTEGER NOT NULL,
    PRIMARY KEY (follower, event)
) WITHOUT ROWID;

-- Documents may be larger. SQLite cannot change a CHECK, so the table is made anew.
ALTER TABLE documents RENAME TO documents_before;
CREATE TABLE documents (
    kind    TEXT NOT NULL CHECK (length(CAST(kind AS BLOB)) <= 64),
    id      TEXT NOT NULL CHECK (length(CAST(id AS BLOB)) <= 256),
    version INTEGER NOT NULL,
    body    TEXT NOT NULL CHECK (length(CAST(body AS BLOB)) <= 1048576),
    PRIMARY KEY (kind, id)
) WITHOUT ROWID;
INSERT INTO documents (kind, id, version, body)
SELECT kind, id, version, body FROM documents_before;
DROP TABLE documents_before;
