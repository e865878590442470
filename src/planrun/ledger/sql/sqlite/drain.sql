-- One worker takes no more work.
-- Fence: it may take work now.
UPDATE worker SET state = 'draining' WHERE incarnation = :incarnation AND state = 'ready'
RETURNING name;
