-- Archived jobs that nobody will know by their id any more.
-- Fence: no job has that id.
DELETE FROM archived
 WHERE job_id IN (SELECT value FROM json_each(:job_ids)) AND NOT EXISTS (SELECT 1 FROM job WHERE job.job_id = archived.job_id)
RETURNING job_id;
