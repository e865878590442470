-- End a running job.
-- Fence: running, at exactly this attempt and token. A late attempt matches no row and stays silent.
UPDATE job
   SET state          = :state,
       reason         = :reason,
       failures       = failures + :failures,
       losses         = losses + :losses,
       handbacks      = handbacks + :handbacks,
       token          = NULL,
       incarnation    = NULL,
       clock_epoch    = NULL,
       lease_until_ms = NULL,
       ended_at_ms    = :wall_ms,
       closing        = coalesce((SELECT v FROM meta WHERE k = 'strict'), 0),
       key_open       = CASE WHEN :state = 'finished' THEN key_open ELSE 0 END
 WHERE job_id = :job_id AND state = 'running' AND attempt = :attempt AND token = :token
RETURNING job_id;
