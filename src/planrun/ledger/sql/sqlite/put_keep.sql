-- How long results of a kind are kept, as declared last; or for longer, by whom not all of them are.
-- Fence: none needed; nothing goes at once, and a result that is gone stays gone.
INSERT INTO keep(kind, version, result_ttl_ms) VALUES (:kind, :version, :result_ttl_ms)
ON CONFLICT(kind, version) DO UPDATE SET result_ttl_ms = iif(:may_shorten, excluded.result_ttl_ms, max(result_ttl_ms, excluded.result_ttl_ms));
