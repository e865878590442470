-- One worker takes work again.
-- Fence: it was drained by somebody, and has not begun to go.
UPDATE worker SET state = 'ready'
 WHERE incarnation = :incarnation AND state = 'draining'
   AND EXISTS (SELECT 1 FROM drain WHERE drain.incarnation = worker.incarnation AND ended_at_ms IS NULL)
RETURNING name;
