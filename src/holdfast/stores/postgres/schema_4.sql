-- Schema 4: followers of the log. A cursor tells the last fact that a follower is done with, and the
-- fence of whoever moved it: one who was replaced and does not know it yet moves it no more. It is
-- written all the while, so there is room on its pages.

CREATE TABLE holdfast.cursors (
    follower text COLLATE "C" NOT NULL CHECK (octet_length(follower) <= 256),
    event    text COLLATE "C" NOT NULL,
    seq      bigint NOT NULL,
    fence    bigint NOT NULL,
    moved_ms bigint NOT NULL,
    PRIMARY KEY (follower, event)
) WITH (fillfactor = 50);

-- Documents may be larger.
ALTER TABLE holdfast.documents
    DROP CONSTRAINT documents_body_check,
    ADD CONSTRAINT documents_body_check CHECK (octet_length(body) <= 1048576);
