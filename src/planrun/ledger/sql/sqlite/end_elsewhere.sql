-- A job that is open here has ended in another history of this ledger, which has said so: it is closing here, too.
-- Fence: open, at exactly the attempt that was read. Later attempts of that history are never given out again.
UPDATE job
   SET state = 'canceled', attempt = max(attempt, :won_attempt), token = NULL, incarnation = NULL, clock_epoch = NULL,
       lease_until_ms = NULL, not_before_ms = 0, offered_at_ms = NULL, ended_at_ms = :ended_at_ms, closing = 1
 WHERE job_id = :job_id AND attempt = :attempt AND ended_at_ms IS NULL
RETURNING attempt;
