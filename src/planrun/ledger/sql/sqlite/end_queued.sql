-- End a job that waits: canceled, unsupported, or past its deadline.
-- Fence: queued, at exactly this attempt.
UPDATE job
   SET state = :state, reason = :reason, not_before_ms = 0, offered_at_ms = NULL, ended_at_ms = :wall_ms, key_open = 0,
       closing = coalesce((SELECT v FROM meta WHERE k = 'strict'), 0)
 WHERE job_id = :job_id AND state = 'queued' AND attempt = :attempt
RETURNING job_id;
