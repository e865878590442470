-- Give every running lease its full length again, on the clock of this boot.
-- Fence: the epoch of the heartbeats is still the newest, so an orchestrator that was replaced re-arms nothing.
UPDATE job
   SET lease_until_ms = :now_ms + lease_ms, clock_epoch = :clock_epoch
 WHERE state = 'running' AND (SELECT v FROM meta WHERE k = 'beat_epoch') = :beat_epoch
RETURNING job_id;
