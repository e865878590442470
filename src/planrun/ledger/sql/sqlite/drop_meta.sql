-- A fact about the ledger that holds no more.
-- Fence: none needed; one writer at a time.
DELETE FROM meta WHERE k = :k;
