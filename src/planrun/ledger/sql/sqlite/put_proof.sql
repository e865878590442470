-- What proves that a worker is dead, said by itself when it first registers.
-- Fence: nobody is known by that name yet, so that nobody puts his own in the place of another's.
INSERT INTO worker_proof(incarnation, digest)
SELECT :incarnation, :digest
 WHERE NOT EXISTS (SELECT 1 FROM worker WHERE incarnation = :incarnation)
    ON CONFLICT(incarnation) DO NOTHING;
