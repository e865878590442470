-- The request ids that made these jobs stay known after them.
-- Fence: the job is archived; and the primary key: a request id leads to one job for ever.
INSERT INTO request(namespace, request_id, request_hash, job_id, created_at_ms)
SELECT namespace, request_id, request_hash, job_id, created_at_ms
  FROM job
 WHERE job_id IN (SELECT value FROM json_each(:job_ids)) AND job_id IN (SELECT job_id FROM archived)
   AND request_id IS NOT NULL;
