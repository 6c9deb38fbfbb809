-- Schema 2: what parts of the program keep at the authority beside the events, each under a kind of
-- its own: keys, secrets, leases, how far a follower has read. Guarded by `version`, so that of two
-- processes who replace one, the second finds out. Small, as it is read whole.

CREATE TABLE holdfast.documents (
    kind    text COLLATE "C" NOT NULL CHECK (octet_length(kind) <= 64),
    id      text COLLATE "C" NOT NULL CHECK (octet_length(id) <= 256),
    version bigint NOT NULL,
    body    text NOT NULL CHECK (octet_length(body) <= 65536),
    PRIMARY KEY (kind, id)
);
