-- The services of clients' own hosts that a resource may use, and whether a flow was begun by its resource. An older program
-- leaves both out.
ALTER TABLE resource ADD COLUMN inbound TEXT COLLATE "C" NOT NULL DEFAULT '[]';
ALTER TABLE flow_log ADD COLUMN inbound BIGINT NOT NULL DEFAULT 0;
