-- What the archive has of its jobs, and the ledger no longer: their events.
-- Fence: jobs that are archived.
DELETE FROM event
 WHERE job_id IN (SELECT value FROM json_each(:job_ids)) AND job_id IN (SELECT job_id FROM archived);
