-- The answer of an ended job stands in the store: from here on it may be said.
-- Fence: closing. What stands there is what the ledger has.
UPDATE job SET closing = 0 WHERE job_id = :job_id AND attempt = :attempt AND closing = 1 RETURNING job_id;
