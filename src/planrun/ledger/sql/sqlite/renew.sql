-- Extend one lease.
-- Fence: running, at exactly this attempt and token. Never shortens.
UPDATE job
   SET lease_until_ms = max(lease_until_ms, :now_ms + :lease_ms)
 WHERE job_id = :job_id AND state = 'running' AND attempt = :attempt AND token = :token
RETURNING job_id;
