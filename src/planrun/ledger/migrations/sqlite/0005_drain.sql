-- Workers that were asked to take no more work, with the history of who asked and why; and where a job's progress began.

CREATE TABLE drain(
  id INTEGER PRIMARY KEY,
  incarnation TEXT NOT NULL, worker TEXT NOT NULL,
  drained_at_ms INTEGER NOT NULL, who TEXT NOT NULL, why TEXT NOT NULL,
  ended_at_ms INTEGER, undone INTEGER NOT NULL DEFAULT 0 CHECK(undone IN (0,1)), -- ended: undone, or the worker went
  undone_who TEXT NOT NULL DEFAULT '', undone_why TEXT NOT NULL DEFAULT '') STRICT;
CREATE UNIQUE INDEX drain_open ON drain(incarnation) WHERE ended_at_ms IS NULL;

ALTER TABLE attempt ADD COLUMN began_fraction REAL;
ALTER TABLE attempt ADD COLUMN began_at_ms INTEGER;
