-- The ledger. The CHECKs and triggers are a second line behind the fenced statements in sql/sqlite.
--
-- Lease times (…_until_ms, not_before_ms, offered_at_ms) are boottime milliseconds of the epoch in
-- meta.clock_epoch; every other …_at_ms is wall clock, for people.

CREATE TABLE meta(k TEXT PRIMARY KEY, v) WITHOUT ROWID;

CREATE TABLE job(
  id INTEGER PRIMARY KEY,
  job_id TEXT NOT NULL UNIQUE,
  namespace TEXT NOT NULL, kind TEXT NOT NULL, version TEXT NOT NULL,
  inputs TEXT NOT NULL DEFAULT '{}', params TEXT NOT NULL DEFAULT '{}', needs TEXT NOT NULL DEFAULT '[]',
  content_hash TEXT NOT NULL, key TEXT, key_open INTEGER NOT NULL DEFAULT 1 CHECK(key_open IN (0,1)), retry_of TEXT,
  priority INTEGER NOT NULL DEFAULT 0,
  state TEXT NOT NULL DEFAULT 'queued' CHECK(state IN ('queued','running','finished','failed','canceled')),
  reason TEXT CHECK(reason IN ('permanent','exhausted','unsupported','deadline')),
  attempt INTEGER NOT NULL DEFAULT 1 CHECK(attempt>=1),
  failures INTEGER NOT NULL DEFAULT 0, max_attempts INTEGER NOT NULL DEFAULT 4 CHECK(max_attempts>=1),
  losses INTEGER NOT NULL DEFAULT 0, max_losses INTEGER NOT NULL DEFAULT 8 CHECK(max_losses>=1),
  handbacks INTEGER NOT NULL DEFAULT 0, max_handbacks INTEGER NOT NULL DEFAULT 20 CHECK(max_handbacks>=0),
  token INTEGER, incarnation TEXT, clock_epoch TEXT, lease_until_ms INTEGER,
  not_before_ms INTEGER NOT NULL DEFAULT 0, -- 0: ready now; a delayed job that comes due is set to 0 and so keeps its age
  offered_at_ms INTEGER,
  checkpoint TEXT NOT NULL DEFAULT '[]',    -- the newest two, newest first
  created_at_ms INTEGER NOT NULL, ended_at_ms INTEGER, deadline_at_ms INTEGER,
  CHECK((state='running') = (token IS NOT NULL)),
  CHECK((state='running') = (incarnation IS NOT NULL)),
  CHECK((state='running') = (lease_until_ms IS NOT NULL)),
  CHECK((state='failed') = (reason IS NOT NULL)),
  CHECK((state IN ('finished','failed','canceled')) = (ended_at_ms IS NOT NULL)),
  CHECK(failures<=max_attempts), CHECK(losses<=max_losses), CHECK(handbacks<=max_handbacks+1)
) STRICT;
CREATE INDEX job_ready ON job(kind,version,namespace,priority DESC,id) WHERE state='queued' AND not_before_ms=0;
CREATE INDEX job_delayed ON job(not_before_ms) WHERE state='queued' AND not_before_ms>0;
CREATE INDEX job_lease ON job(lease_until_ms) WHERE state='running';
CREATE INDEX job_holder ON job(incarnation) WHERE state='running';
CREATE UNIQUE INDEX job_key ON job(namespace,kind,version,key) WHERE key_open=1 AND key IS NOT NULL;
CREATE INDEX job_deadline ON job(deadline_at_ms) WHERE deadline_at_ms IS NOT NULL AND ended_at_ms IS NULL;
CREATE INDEX job_ended ON job(ended_at_ms) WHERE ended_at_ms IS NOT NULL;

CREATE TABLE request(
  namespace TEXT NOT NULL, request_id TEXT NOT NULL, request_hash TEXT NOT NULL, job_id TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL, PRIMARY KEY(request_id,namespace)) STRICT, WITHOUT ROWID;
CREATE INDEX request_job ON request(job_id);

CREATE TABLE subscriber(job_id TEXT NOT NULL, route TEXT NOT NULL, PRIMARY KEY(job_id,route)) STRICT, WITHOUT ROWID;

CREATE TABLE attempt(
  job_id TEXT NOT NULL, attempt INTEGER NOT NULL, token INTEGER NOT NULL UNIQUE, nonce TEXT NOT NULL,
  incarnation TEXT NOT NULL, granted_at_ms INTEGER NOT NULL, ended_at_ms INTEGER,
  outcome TEXT CHECK(outcome IN
    ('success','permanent','transient','fatal','stalled','overtime','lost','released','canceled')),
  error TEXT, staged TEXT, fraction REAL, message TEXT,
  stopped INTEGER NOT NULL DEFAULT 0 CHECK(stopped IN (0,1)),     -- its process tree is known to be dead
  collected INTEGER NOT NULL DEFAULT 0 CHECK(collected IN (0,1)), -- its objects are gone, but for those that count
  CHECK((outcome IS NULL) = (ended_at_ms IS NULL)),
  PRIMARY KEY(job_id,attempt)) STRICT, WITHOUT ROWID;
CREATE INDEX attempt_garbage ON attempt(ended_at_ms) WHERE collected=0 AND outcome IS NOT NULL;
CREATE INDEX attempt_alive ON attempt(incarnation) WHERE stopped=0;

CREATE TABLE result(
  job_id TEXT PRIMARY KEY, attempt INTEGER NOT NULL, token INTEGER, status TEXT NOT NULL,
  outputs TEXT NOT NULL DEFAULT '[]', value TEXT, error TEXT) STRICT, WITHOUT ROWID;

CREATE TABLE outbox(
  msg_id TEXT PRIMARY KEY, route TEXT NOT NULL, body TEXT NOT NULL, not_before_ms INTEGER NOT NULL DEFAULT 0,
  tries INTEGER NOT NULL DEFAULT 0, confirmed INTEGER NOT NULL DEFAULT 0 CHECK(confirmed IN (0,1))) STRICT, WITHOUT ROWID;
CREATE INDEX outbox_due ON outbox(not_before_ms) WHERE confirmed=0;

CREATE TABLE worker(
  incarnation TEXT PRIMARY KEY, name TEXT NOT NULL, host TEXT NOT NULL, namespaces TEXT NOT NULL, slots INTEGER NOT NULL,
  capabilities TEXT NOT NULL, handlers TEXT NOT NULL,
  lock_file TEXT NOT NULL, lock_device INTEGER NOT NULL, lock_inode INTEGER NOT NULL, pid INTEGER NOT NULL,
  state TEXT NOT NULL CHECK(state IN ('ready','draining','broken','gone')), seen_at_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX worker_seen ON worker(seen_at_ms);

CREATE TABLE event(
  id INTEGER PRIMARY KEY, job_id TEXT NOT NULL, at_ms INTEGER NOT NULL, what TEXT NOT NULL,
  attempt INTEGER, who TEXT, detail TEXT) STRICT;
CREATE INDEX event_job ON event(job_id,id);

CREATE TRIGGER job_frozen BEFORE UPDATE OF state,token,attempt ON job WHEN OLD.state IN ('finished','failed','canceled')
  BEGIN SELECT RAISE(ABORT,'S1: an ended job changed'); END;
CREATE TRIGGER job_fence BEFORE UPDATE OF attempt ON job WHEN NEW.attempt<OLD.attempt
  BEGIN SELECT RAISE(ABORT,'S4: attempt went backwards'); END;
CREATE TRIGGER result_frozen BEFORE UPDATE OF attempt,token,status,outputs,value,error ON result
  BEGIN SELECT RAISE(ABORT,'S1: a result changed'); END;
CREATE TRIGGER result_ended BEFORE INSERT ON result
  WHEN (SELECT state FROM job WHERE job_id=NEW.job_id) NOT IN ('finished','failed','canceled')
  BEGIN SELECT RAISE(ABORT,'S1: a result of a live job'); END;
