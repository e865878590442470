-- Listings and counts that a million jobs do not slow: how many jobs of each set and state there are, and an index of each set.
--
-- A job is in exactly one set. A listing asks the tally which sets it wants, and each set for its newest jobs.

CREATE TABLE tally(
  namespace TEXT NOT NULL, kind TEXT NOT NULL, version TEXT NOT NULL, state TEXT NOT NULL, jobs INTEGER NOT NULL,
  PRIMARY KEY(namespace,kind,version,state)) STRICT, WITHOUT ROWID;
CREATE INDEX job_set ON job(namespace,kind,version,state);
CREATE INDEX job_named ON job(key) WHERE key IS NOT NULL;
CREATE INDEX job_created ON job(created_at_ms);
INSERT INTO tally(namespace,kind,version,state,jobs)
  SELECT namespace,kind,version,state,count(*) FROM job INDEXED BY job_set GROUP BY namespace,kind,version,state;

CREATE TRIGGER job_counted AFTER INSERT ON job BEGIN
  INSERT INTO tally(namespace,kind,version,state,jobs) VALUES(NEW.namespace,NEW.kind,NEW.version,NEW.state,1)
    ON CONFLICT DO UPDATE SET jobs=jobs+1;
END;
CREATE TRIGGER job_moved AFTER UPDATE OF state ON job WHEN NEW.state<>OLD.state BEGIN
  UPDATE tally SET jobs=jobs-1 WHERE namespace=OLD.namespace AND kind=OLD.kind AND version=OLD.version AND state=OLD.state;
  INSERT INTO tally(namespace,kind,version,state,jobs) VALUES(NEW.namespace,NEW.kind,NEW.version,NEW.state,1)
    ON CONFLICT DO UPDATE SET jobs=jobs+1;
END;
CREATE TRIGGER job_dropped AFTER DELETE ON job BEGIN
  UPDATE tally SET jobs=jobs-1 WHERE namespace=OLD.namespace AND kind=OLD.kind AND version=OLD.version AND state=OLD.state;
  DELETE FROM tally WHERE namespace=OLD.namespace AND kind=OLD.kind AND version=OLD.version AND jobs=0;
END;
