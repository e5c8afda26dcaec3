-- The portals of the last day. Times are those of the server's clock.
CREATE TABLE portal (
    id BYTEA PRIMARY KEY CHECK (length(id) = 16),
    address TEXT COLLATE "C" NOT NULL,
    pin TEXT COLLATE "C" NOT NULL,
    key_digest BYTEA NOT NULL CHECK (length(key_digest) = 32),
    software TEXT COLLATE "C" NOT NULL,
    started_ms BIGINT NOT NULL,
    seen_ms BIGINT NOT NULL,
    clock_ahead_ms BIGINT NOT NULL
);

-- One row. Its key is the epoch, so that a write of grants that locks the key waits for a change of the leader, and for
-- nothing else.
CREATE TABLE portal_lead (
    epoch BIGINT PRIMARY KEY,
    portal BYTEA NOT NULL,
    until_ms BIGINT NOT NULL
);
INSERT INTO portal_lead (epoch, portal, until_ms) VALUES (0, '', 0);
