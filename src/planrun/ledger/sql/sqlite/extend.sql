-- A holder was told that it holds: from then on it trusts itself for a whole lease, and so must everybody else.
-- Fence: running, at exactly this attempt and token.
UPDATE job
   SET lease_until_ms = max(lease_until_ms, :now_ms + lease_ms)
 WHERE job_id = :job_id AND state = 'running' AND attempt = :attempt AND token = :token
RETURNING job_id;
