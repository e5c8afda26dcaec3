-- The file of a plain WireGuard device has a share of the ranges for names for each gateway. An older program leaves it out, and
-- makes files without shares.
ALTER TABLE client ADD COLUMN name_shares INTEGER NOT NULL DEFAULT 0;
