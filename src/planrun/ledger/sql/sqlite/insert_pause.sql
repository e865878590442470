-- Nobody may start these jobs for now.
-- Fence: one open pause per set is a unique index; a second call changes nothing.
INSERT INTO pause(namespace, kind, paused_at_ms, who, why) VALUES (:namespace, :kind, :wall_ms, :who, :why)
ON CONFLICT DO NOTHING
RETURNING id;
