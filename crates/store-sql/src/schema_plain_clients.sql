-- The gateway of a plain WireGuard device, and whether people add their own. An older program leaves both out.
ALTER TABLE client ADD COLUMN gateway_id BLOB;
ALTER TABLE account ADD COLUMN own_devices INTEGER NOT NULL DEFAULT 0;
CREATE INDEX client_gateway ON client (account, gateway_id) WHERE gateway_id IS NOT NULL;
