-- How long results of a kind are kept, as declared last.
-- Fence: none needed; nothing goes at once, and a result that is gone stays gone.
INSERT INTO keep(kind, version, result_ttl_ms) VALUES (:kind, :version, :result_ttl_ms)
ON CONFLICT(kind, version) DO UPDATE SET result_ttl_ms = excluded.result_ttl_ms;
