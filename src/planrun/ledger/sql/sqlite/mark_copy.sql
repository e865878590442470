-- A copy says of itself that it is one, and since when.
-- Fence: none needed; nobody else has the copy yet.
INSERT INTO meta(k, v) VALUES ('copied_at_ms', CAST(1000 * unixepoch('subsec') AS INTEGER)) ON CONFLICT(k) DO UPDATE SET v = excluded.v;
