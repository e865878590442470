-- The one answer.
-- Fence: the primary key, and a trigger that wants the job ended.
INSERT INTO result(job_id, attempt, token, status, outputs, value, error)
VALUES (:job_id, :attempt, :token, :status, :outputs, :value, :error);
