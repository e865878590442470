-- Another caller asks for an open job: it becomes as urgent, and may last as long, as the most demanding of them.
-- Fence: still open; also takes the row lock before subscribers are touched.
UPDATE job
   SET priority       = max(priority, :priority),
       deadline_at_ms = CASE WHEN deadline_at_ms IS NULL OR :deadline_at_ms IS NULL THEN NULL
                             ELSE max(deadline_at_ms, :deadline_at_ms) END
 WHERE job_id = :job_id AND state IN ('queued', 'running')
RETURNING state;
