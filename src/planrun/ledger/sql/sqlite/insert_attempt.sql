-- The attempt that a grant begins.
-- Fence: one row per (job, attempt), and no token twice.
INSERT INTO attempt(job_id, attempt, token, nonce, incarnation, granted_at_ms)
VALUES (:job_id, :attempt, :token, :nonce, :incarnation, :wall_ms);
