-- Since when an administrator vouches for the gateway's key, and the token that was presented with that key. Both are
-- unknown of gateways that are there already. The token may have been deleted since.
ALTER TABLE gateway ADD COLUMN verified_ms INTEGER;
ALTER TABLE gateway ADD COLUMN token_id BLOB;
