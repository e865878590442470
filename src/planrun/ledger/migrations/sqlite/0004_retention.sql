-- What is kept how long, and what is known of that which is not kept any more.
--
-- Breaking: an older collector keeps the files of results that are gone, and an older settle gives nobody a public name.

ALTER TABLE job ADD COLUMN result_gone_at_ms INTEGER; -- nobody gets its result any more; the row of it goes to the archive
CREATE INDEX job_kept ON job(kind,version,ended_at_ms) WHERE ended_at_ms IS NOT NULL AND result_gone_at_ms IS NULL;
DROP INDEX job_ended; -- the two together cost what it did
CREATE INDEX job_archivable ON job(ended_at_ms) WHERE result_gone_at_ms IS NOT NULL;

CREATE TABLE keep( -- what the kinds declare; it stays when no worker runs them any more
  kind TEXT NOT NULL, version TEXT NOT NULL, result_ttl_ms INTEGER NOT NULL CHECK(result_ttl_ms>0),
  PRIMARY KEY(kind,version)) STRICT, WITHOUT ROWID;

CREATE TABLE archived( -- jobs whose record is in the archive; goes together with the request ids that led to them
  job_id TEXT PRIMARY KEY, namespace TEXT NOT NULL,
  state TEXT NOT NULL CHECK(state IN ('finished','failed','canceled')),
  ended_at_ms INTEGER NOT NULL, archived_at_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX archived_age ON archived(archived_at_ms);

ALTER TABLE subscriber ADD COLUMN told INTEGER NOT NULL DEFAULT 0 CHECK(told IN (0,1)); -- its message was confirmed, and is not kept
ALTER TABLE outbox ADD COLUMN confirmed_at_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE subscriber ADD COLUMN seq INTEGER; -- who asked for a public name: its place in the order of all who did
CREATE TABLE public_name( -- of the jobs that finished, the one that asked for the name last; for ever
  namespace TEXT NOT NULL, name TEXT NOT NULL, job_id TEXT NOT NULL, seq INTEGER NOT NULL,
  PRIMARY KEY(namespace,name)) STRICT, WITHOUT ROWID;
CREATE INDEX public_job ON public_name(job_id,name);
CREATE INDEX outbox_done ON outbox(confirmed_at_ms) WHERE confirmed=1;
