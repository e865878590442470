-- The request ids that led to archived jobs.
-- Fence: never before their job.
DELETE FROM request
 WHERE job_id IN (SELECT value FROM json_each(:job_ids)) AND NOT EXISTS (SELECT 1 FROM job WHERE job.job_id = request.job_id);
