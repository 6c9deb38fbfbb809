-- Schema 4: followers of the log. A cursor tells the last fact that a follower is done with, and the
-- fence of whoever moved it: one who was replaced and does not know it yet moves it no more.

CREATE TABLE IF NOT EXISTS holdfast_cursors (
    follower VARBINARY(256) NOT NULL,
    event    VARBINARY(64) NOT NULL,
    seq      BIGINT NOT NULL,
    fence    BIGINT NOT NULL,
    moved_ms BIGINT NOT NULL,
    PRIMARY KEY (follower, event)
) ENGINE = InnoDB;

-- Documents may be larger. One statement, which is done whole or not at all: where it is run again,
-- there is no limit of the old name to drop, and the new one stands.
ALTER TABLE holdfast_documents
    DROP CONSTRAINT holdfast_documents_small,
    ADD CONSTRAINT holdfast_documents_body CHECK (LENGTH(body) <= 1048576);
