-- The same for the job: how it ended in that other history. A key is open for a finished job, unless another has it by now.
-- Fence: closing, at exactly the attempt that was read. The attempt stays: it never goes back.
UPDATE job
   SET state = :state, reason = :reason, ended_at_ms = :ended_at_ms, closing = 0,
       key_open = (:state = 'finished' AND NOT EXISTS (
         SELECT 1 FROM job AS o
          WHERE o.namespace = job.namespace AND o.kind = job.kind AND o.version = job.version AND o.key = job.key
            AND o.key_open = 1 AND o.id <> job.id))
 WHERE job_id = :job_id AND attempt = :attempt AND closing = 1
RETURNING job_id;
