-- Lease one attempt to one worker.
-- Fence: queued, at exactly this attempt, due, not paused, the worker may take work, and the ledger is not behind it.
UPDATE job
   SET state          = 'running',
       token          = :token,
       incarnation    = :incarnation,
       clock_epoch    = :epoch,
       lease_ms       = :lease_ms,
       lease_until_ms = :now_ms + :lease_ms,
       not_before_ms  = 0,
       offered_at_ms  = NULL
 WHERE job_id = :job_id
   AND state = 'queued'
   AND attempt = :attempt
   AND not_before_ms <= :now_ms
   AND NOT EXISTS (SELECT 1 FROM pause
                    WHERE resumed_at_ms IS NULL AND namespace IN ('', job.namespace) AND kind IN ('', job.kind))
   AND EXISTS (SELECT 1 FROM worker WHERE incarnation = :incarnation AND state = 'ready')
   AND NOT EXISTS (SELECT 1 FROM meta WHERE k = 'rolled_back')
RETURNING namespace, kind, version, inputs, params, checkpoint, failures, losses, handbacks,
          (SELECT name FROM worker WHERE incarnation = :incarnation) AS worker;
