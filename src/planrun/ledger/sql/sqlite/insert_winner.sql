-- The attempt that won in another history of this ledger.
-- Fence: neither this attempt nor its token is known here. Then its files go with the others, once they are not kept.
INSERT INTO attempt(job_id, attempt, token, nonce, incarnation, granted_at_ms, ended_at_ms, outcome, stopped)
VALUES (:job_id, :attempt, :token, '', '', :ended_at_ms, :ended_at_ms, :outcome, 1)
ON CONFLICT DO NOTHING;
