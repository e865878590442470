-- A job that is handed in touches three pages: its row, its name, its place in line. What people ask for is counted later, or at the end.
--
-- Jobs are counted 128 at a time. `meta.counted_to` is the last one that was: of all up to it the tally says how many are open and
-- how many ended how, and `span` when the newest of each 128 was made. The few behind it are looked at one by one, and so are those
-- that run. The index of each set holds ended jobs alone; what waits is found in its line.
--
-- Breaking: an older planrun counts by the tally alone, and lists what waits by the index of each set.

DROP TRIGGER job_counted;
DROP TRIGGER job_moved;
DROP TRIGGER job_dropped;
DROP INDEX job_created;
DROP INDEX job_set;
CREATE INDEX job_set ON job(namespace,kind,version,state) WHERE ended_at_ms IS NOT NULL;
CREATE INDEX job_later ON job(kind,version,namespace) WHERE state='queued' AND not_before_ms>0;

CREATE TABLE span(first_id INTEGER PRIMARY KEY, newest_at_ms INTEGER NOT NULL) STRICT; -- up to the next one
INSERT INTO span(first_id,newest_at_ms) SELECT min(id),max(created_at_ms) FROM job GROUP BY (id-1)/128;

DELETE FROM tally;
INSERT INTO tally(namespace,kind,version,state,jobs)
  SELECT namespace,kind,version,iif(ended_at_ms IS NULL,'open',state),count(*) FROM job GROUP BY 1,2,3,4;
INSERT INTO meta(k,v) SELECT 'counted_to',coalesce(max(id),0) FROM job;

CREATE VIEW counted AS
  SELECT namespace,kind,version,state,sum(jobs) AS jobs
    FROM (SELECT namespace,kind,version,iif(state='open','queued',state) AS state,jobs FROM tally
          UNION ALL
          SELECT namespace,kind,version,iif(ended_at_ms IS NULL,'queued',state),1 FROM job
           WHERE id>(SELECT v FROM meta WHERE k='counted_to')
          UNION ALL
          SELECT namespace,kind,version,state,1 FROM job INDEXED BY job_holder WHERE state='running'
          UNION ALL
          SELECT namespace,kind,version,'queued',-1 FROM job INDEXED BY job_holder WHERE state='running')
   GROUP BY namespace,kind,version,state HAVING sum(jobs)<>0;

CREATE TRIGGER job_counted AFTER INSERT ON job WHEN NEW.id>=(SELECT v FROM meta WHERE k='counted_to')+128 BEGIN
  INSERT INTO tally(namespace,kind,version,state,jobs)
    SELECT namespace,kind,version,iif(ended_at_ms IS NULL,'open',state),count(*) FROM job
     WHERE id>(SELECT v FROM meta WHERE k='counted_to') GROUP BY 1,2,3,4
    ON CONFLICT DO UPDATE SET jobs=jobs+excluded.jobs;
  INSERT INTO span(first_id,newest_at_ms)
    SELECT min(id),max(created_at_ms) FROM job WHERE id>(SELECT v FROM meta WHERE k='counted_to');
  DELETE FROM span WHERE first_id<(SELECT max(first_id) FROM span WHERE first_id<=(SELECT min(id) FROM job));
  UPDATE meta SET v=NEW.id WHERE k='counted_to';
END;
CREATE TRIGGER job_ended AFTER UPDATE OF state ON job
  WHEN NEW.ended_at_ms IS NOT NULL AND OLD.ended_at_ms IS NULL AND NEW.id<=(SELECT v FROM meta WHERE k='counted_to') BEGIN
  UPDATE tally SET jobs=jobs-1 WHERE namespace=OLD.namespace AND kind=OLD.kind AND version=OLD.version AND state='open';
  INSERT INTO tally(namespace,kind,version,state,jobs) VALUES(NEW.namespace,NEW.kind,NEW.version,NEW.state,1)
    ON CONFLICT DO UPDATE SET jobs=jobs+1;
END;
CREATE TRIGGER job_dropped AFTER DELETE ON job BEGIN
  UPDATE tally SET jobs=jobs-1 WHERE namespace=OLD.namespace AND kind=OLD.kind AND version=OLD.version
     AND state=iif(OLD.ended_at_ms IS NULL,'open',OLD.state) AND OLD.id<=(SELECT v FROM meta WHERE k='counted_to');
  DELETE FROM tally WHERE namespace=OLD.namespace AND kind=OLD.kind AND version=OLD.version AND jobs=0;
  UPDATE meta SET v=(SELECT coalesce(max(id),0) FROM job) -- the next job gets an id that was one before
   WHERE k='counted_to' AND v>(SELECT coalesce(max(id),0) FROM job);
  DELETE FROM span WHERE first_id>(SELECT v FROM meta WHERE k='counted_to');
END;
