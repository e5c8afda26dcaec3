-- The gateways of a plain WireGuard device, and whether people add their own. An older program leaves both out.
ALTER TABLE client ADD COLUMN gateways TEXT COLLATE "C" NOT NULL DEFAULT '[]';
ALTER TABLE account ADD COLUMN own_devices BIGINT NOT NULL DEFAULT 0;
CREATE INDEX client_plain ON client (account, actor_id) WHERE gateways <> '[]';
