-- What the archive has of its jobs, and the ledger no longer: their subscribers.
-- Fence: jobs that are archived.
DELETE FROM subscriber
 WHERE job_id IN (SELECT value FROM json_each(:job_ids)) AND job_id IN (SELECT job_id FROM archived);
