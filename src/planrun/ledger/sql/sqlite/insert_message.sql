-- Owe one message.
-- Fence: msg_id is derived from job and route; the first body stands for ever.
INSERT INTO outbox(msg_id, route, body, not_before_ms) VALUES (:msg_id, :route, :body, :not_before_ms) ON CONFLICT DO NOTHING;
