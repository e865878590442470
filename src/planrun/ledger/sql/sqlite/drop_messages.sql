-- Messages that arrived long ago.
-- Fence: confirmed.
DELETE FROM outbox WHERE msg_id IN (SELECT value FROM json_each(:msg_ids)) AND confirmed = 1
RETURNING msg_id;
