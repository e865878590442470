-- Nobody is there to take a message: it is owed no more.
-- Fence: unconfirmed, and its job ended long enough ago.
UPDATE outbox
   SET confirmed = 1, confirmed_at_ms = :wall_ms
 WHERE msg_id = :msg_id AND confirmed = 0
   AND EXISTS (SELECT 1 FROM job WHERE job_id = :job_id AND ended_at_ms <= :before_ms)
RETURNING msg_id;
