-- After a reboot: waits that were left keep their length, on the new boot's clock.
-- Fence: none needed; a wait decides no lease, and the whole change is one transaction.
UPDATE job
   SET not_before_ms = max(1, not_before_ms + :shift_ms)
 WHERE state = 'queued' AND not_before_ms > 0;
