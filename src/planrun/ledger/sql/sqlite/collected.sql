-- The objects of an attempt are gone, but for those that count.
-- Fence: an attempt that has ended, and that a live job cannot resume from: what it kept must go later.
UPDATE attempt SET collected = 1
 WHERE job_id = :job_id AND attempt = :attempt AND token = :token AND outcome IS NOT NULL
   AND EXISTS (SELECT 1 FROM job
                WHERE job_id = :job_id
                  AND (ended_at_ms IS NOT NULL
                       OR :attempt NOT IN (SELECT value ->> '$.attempt' FROM json_each(job.checkpoint))))
RETURNING attempt;
