-- The objects of an attempt are gone, but for those that count.
-- Fence: an attempt that has ended and, by the caller, can never win again.
UPDATE attempt SET collected = 1
 WHERE job_id = :job_id AND attempt = :attempt AND token = :token AND outcome IS NOT NULL
   AND EXISTS (SELECT 1 FROM job WHERE job_id = :job_id AND ended_at_ms IS NOT NULL)
RETURNING attempt;
