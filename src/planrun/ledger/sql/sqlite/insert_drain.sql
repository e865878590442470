-- Who drained a worker, and why.
-- Fence: one open drain per worker is a unique index.
INSERT INTO drain(incarnation, worker, drained_at_ms, who, why) VALUES (:incarnation, :worker, :wall_ms, :who, :why);
