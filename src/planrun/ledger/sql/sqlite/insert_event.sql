-- One line of a job's permanent history.
-- Fence: written in the transaction of the change that it tells of.
INSERT INTO event(job_id, at_ms, what, attempt, who, detail) VALUES (:job_id, :wall_ms, :what, :attempt, :who, :detail);
