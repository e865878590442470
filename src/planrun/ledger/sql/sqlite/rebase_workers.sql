-- The wall clock was stepped: signs of life are as old as before.
-- Fence: none needed; a time stamp decides no lease.
UPDATE worker SET seen_at_ms = max(0, seen_at_ms + :shift_ms);
