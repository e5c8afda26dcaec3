-- Whose client had access; entries from before get the actor that the client has now.
ALTER TABLE access_log ADD COLUMN actor_id BLOB;
UPDATE access_log SET actor_id = (
    SELECT client.actor_id FROM client
    WHERE client.account = access_log.account AND client.id = access_log.client_id
);
CREATE INDEX access_log_actor ON access_log (account, actor_id, seq);
CREATE INDEX access_log_decision ON access_log (account, decision, seq);
CREATE INDEX change_log_at ON change_log (account, at_ms);

-- The last flow that was logged.
ALTER TABLE account ADD COLUMN last_flow INTEGER NOT NULL DEFAULT 0;

CREATE TABLE flow_log (
    account BLOB NOT NULL REFERENCES account (account),
    seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    started_ms INTEGER NOT NULL,
    gateway_id BLOB NOT NULL,
    client_id BLOB NOT NULL,
    actor_id BLOB,
    resource_id BLOB NOT NULL,
    grant_id BLOB NOT NULL,
    protocol INTEGER NOT NULL,
    address TEXT NOT NULL,
    port INTEGER NOT NULL,
    application TEXT,
    sent_bytes INTEGER NOT NULL,
    sent_packets INTEGER NOT NULL,
    received_bytes INTEGER NOT NULL,
    received_packets INTEGER NOT NULL,
    flow_end TEXT NOT NULL,
    PRIMARY KEY (account, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX flow_log_at ON flow_log (account, at_ms);
CREATE INDEX flow_log_client ON flow_log (account, client_id, seq);
CREATE INDEX flow_log_actor ON flow_log (account, actor_id, seq);
CREATE INDEX flow_log_resource ON flow_log (account, resource_id, seq);
CREATE INDEX flow_log_gateway ON flow_log (account, gateway_id, seq);
CREATE INDEX flow_log_end ON flow_log (account, flow_end, seq);

-- The last report of each gateway that is in the log, so that none is in it twice.
CREATE TABLE flow_source (
    account BLOB NOT NULL REFERENCES account (account),
    gateway_id BLOB NOT NULL,
    run INTEGER NOT NULL,
    batch INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    PRIMARY KEY (account, gateway_id)
) STRICT, WITHOUT ROWID;

-- What happened in each minute, for charts.
CREATE TABLE activity (
    account BLOB NOT NULL REFERENCES account (account),
    at_ms INTEGER NOT NULL,
    bytes INTEGER NOT NULL DEFAULT 0,
    granted INTEGER NOT NULL DEFAULT 0,
    denied INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (account, at_ms)
) STRICT, WITHOUT ROWID;

-- How far those who get the logs besides have come.
CREATE TABLE sink_position (
    account BLOB NOT NULL REFERENCES account (account),
    sink TEXT NOT NULL,
    log TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (account, sink, log)
) STRICT, WITHOUT ROWID;

CREATE TABLE sink_secret (
    account BLOB NOT NULL REFERENCES account (account),
    sink TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (account, sink)
) STRICT, WITHOUT ROWID;
