-- The ledger is of this generation from here on.
-- Fence: never a lower one.
UPDATE meta SET v = :generation WHERE k = 'generation' AND v <= :generation RETURNING v;
