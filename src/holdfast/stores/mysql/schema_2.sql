-- Schema 2: what parts of the program keep at the authority beside the events, each under a kind of
-- its own: keys, secrets, leases, how far a follower has read. Guarded by `version`, so that of two
-- processes who replace one, the second finds out. Small, as it is read whole.

CREATE TABLE IF NOT EXISTS holdfast_documents (
    kind    VARBINARY(64) NOT NULL,
    id      VARBINARY(256) NOT NULL,
    version BIGINT NOT NULL,
    body    MEDIUMTEXT CHARACTER SET utf8mb4 NOT NULL,
    PRIMARY KEY (kind, id),
    CONSTRAINT holdfast_documents_small CHECK (LENGTH(body) <= 65536)
) ENGINE = InnoDB;
