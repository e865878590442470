-- The process tree of an attempt is known to be dead.
-- Fence: exactly this attempt and token, and the job no longer runs under it.
UPDATE attempt
   SET stopped = 1
 WHERE job_id = :job_id AND attempt = :attempt AND token = :token AND stopped = 0
   AND NOT EXISTS (SELECT 1 FROM job WHERE job_id = :job_id AND state = 'running' AND token = :token)
RETURNING attempt;
