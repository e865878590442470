-- After a reboot: as for jobs.
-- Fence: none needed; see rebase_jobs.
UPDATE outbox SET not_before_ms = max(0, not_before_ms + :shift_ms) WHERE confirmed = 0;
