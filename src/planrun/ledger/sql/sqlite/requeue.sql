-- Back in line as the next attempt: failed for a moment, lost, or handed back.
-- Fence: running, at exactly this attempt and token, with room in the budgets.
UPDATE job
   SET state          = 'queued',
       attempt        = attempt + 1,
       failures       = failures + :failures,
       losses         = losses + :losses,
       handbacks      = handbacks + :handbacks,
       checkpoint     = :checkpoint,
       token          = NULL,
       incarnation    = NULL,
       clock_epoch    = NULL,
       lease_until_ms = NULL,
       not_before_ms  = :not_before_ms
 WHERE job_id = :job_id AND state = 'running' AND attempt = :attempt AND token = :token
   AND failures + :failures < max_attempts
   AND losses + :losses < max_losses
   AND handbacks + :handbacks <= max_handbacks
RETURNING attempt;
