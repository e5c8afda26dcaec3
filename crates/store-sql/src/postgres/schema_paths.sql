-- The path between client and gateway, and its relay. An older program leaves both out.
ALTER TABLE flow_log ADD COLUMN path TEXT COLLATE "C";
ALTER TABLE flow_log ADD COLUMN relay_id BYTEA;
