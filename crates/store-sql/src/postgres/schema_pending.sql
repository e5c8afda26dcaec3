-- Things that wait for a person's or a machine's next step, under a digest of what they show for it; microseconds of Unix time.
CREATE TABLE pending (
    account BYTEA NOT NULL REFERENCES account (account),
    key BYTEA NOT NULL CHECK (length(key) = 32),
    kind TEXT COLLATE "C" NOT NULL,
    -- The holder in whose share it counts; those of one network begin alike.
    subscriber BYTEA NOT NULL CHECK (length(subscriber) = 9),
    version BIGINT NOT NULL,
    -- No two of a kind have the same, so that it is their order too.
    since_us BIGINT NOT NULL,
    expires_us BIGINT NOT NULL,
    value BYTEA NOT NULL,
    PRIMARY KEY (account, key)
);
CREATE INDEX pending_holder ON pending (account, kind, subscriber, expires_us);
CREATE INDEX pending_since ON pending (account, kind, since_us, expires_us);
CREATE INDEX pending_expires ON pending (account, expires_us);

-- Tries of a secret, under a digest of what is tried: the time until which they take up their limit.
CREATE TABLE attempt (
    account BYTEA NOT NULL REFERENCES account (account),
    key BYTEA NOT NULL CHECK (length(key) = 32),
    until_us BIGINT NOT NULL,
    PRIMARY KEY (account, key)
);
CREATE INDEX attempt_until ON attempt (account, until_us);
