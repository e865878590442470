-- A worker that is proven dead counts as silent for too long from now on: nobody waits for it to fall silent.
-- Fence: that incarnation; a time stamp decides no lease.
UPDATE worker SET seen_at_ms = max(0, :before_ms - 1) WHERE incarnation = :incarnation AND seen_at_ms >= :before_ms;
