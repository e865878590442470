-- How long a running job's lease is, so that all leases can be given their full length again.

ALTER TABLE job ADD COLUMN lease_ms INTEGER NOT NULL DEFAULT 60000;
