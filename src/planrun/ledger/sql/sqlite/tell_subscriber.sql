-- Nothing is owed for this public name: its job did not finish, or a later one has the name.
-- Fence: exactly that route of an ended job.
UPDATE subscriber SET told = 1
 WHERE job_id = :job_id AND route = :route
   AND EXISTS (SELECT 1 FROM job WHERE job_id = :job_id AND ended_at_ms IS NOT NULL);
