-- Proof of death from another machine: a digest of the secret that a worker keeps beside its lock.

CREATE TABLE worker_proof(incarnation TEXT PRIMARY KEY, digest TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TRIGGER worker_dropped AFTER DELETE ON worker
  BEGIN DELETE FROM worker_proof WHERE incarnation = OLD.incarnation; END;
