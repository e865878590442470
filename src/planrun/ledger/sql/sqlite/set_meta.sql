-- A fact about the ledger itself.
-- Fence: none needed; one writer at a time.
INSERT INTO meta(k, v) VALUES (:k, :v) ON CONFLICT(k) DO UPDATE SET v = excluded.v;
