-- Nobody gets these results any more, and their keys are free.
-- Fence: ended, its answer was said, and no message of it is still owed.
UPDATE job
   SET result_gone_at_ms = :wall_ms, key_open = 0
 WHERE job_id IN (SELECT value FROM json_each(:job_ids))
   AND ended_at_ms IS NOT NULL
   AND result_gone_at_ms IS NULL
   AND closing = 0
   AND NOT EXISTS (SELECT 1 FROM outbox AS o
                    WHERE o.msg_id >= 'result:' || job.job_id || ':' AND o.msg_id < 'result:' || job.job_id || char(59)
                      AND o.confirmed = 0)
RETURNING job_id;
