-- The counter inside fencing tokens.
-- Fence: only grows, in the transaction of the grant.
UPDATE meta SET v = v + 1 WHERE k = 'next_n' RETURNING v AS n, (SELECT v FROM meta WHERE k = 'generation') AS generation;
