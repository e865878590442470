-- How one attempt ended.
-- Fence: exactly this attempt and token, and still open: the first outcome stands.
UPDATE attempt
   SET outcome = :outcome, error = :error, ended_at_ms = :wall_ms, stopped = :stopped
 WHERE job_id = :job_id AND attempt = :attempt AND token = :token AND outcome IS NULL
RETURNING attempt;
