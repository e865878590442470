-- A message has arrived.
-- Fence: once.
UPDATE outbox SET confirmed = 1, confirmed_at_ms = :wall_ms WHERE msg_id = :msg_id AND confirmed = 0 RETURNING msg_id;
