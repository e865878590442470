-- A message has arrived.
-- Fence: once.
UPDATE outbox SET confirmed = 1 WHERE msg_id = :msg_id AND confirmed = 0 RETURNING msg_id;
