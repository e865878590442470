-- Answers that are written down in the store before anybody hears of them, and a ledger that knows its own generations.
--
-- A job that ends in a strict ledger is closing: it has a result, and nobody gets it. Its answer is the manifest that
-- stands in the store, usually our own; once that is known, the job is closed and its messages are owed.

ALTER TABLE job ADD COLUMN closing INTEGER NOT NULL DEFAULT 0 CHECK(closing IN (0,1));
ALTER TABLE result ADD COLUMN adopted INTEGER NOT NULL DEFAULT 0 CHECK(adopted IN (0,1)); -- another history's answer
CREATE INDEX job_closing ON job(closing) WHERE closing=1;

DROP TRIGGER job_frozen;
CREATE TRIGGER job_frozen BEFORE UPDATE OF state,token,attempt ON job
  WHEN OLD.state IN ('finished','failed','canceled')
   AND NOT (OLD.closing=1 AND NEW.closing=0 AND NEW.state IN ('finished','failed','canceled') AND NEW.attempt=OLD.attempt)
  BEGIN SELECT RAISE(ABORT,'S1: an ended job changed'); END;
DROP TRIGGER result_frozen;
CREATE TRIGGER result_frozen BEFORE UPDATE OF attempt,token,status,outputs,value,error ON result
  WHEN NOT EXISTS (SELECT 1 FROM job WHERE job_id=OLD.job_id AND closing=1)
  BEGIN SELECT RAISE(ABORT,'S1: a result changed'); END;
CREATE TRIGGER closing_ends BEFORE UPDATE OF closing ON job
  WHEN NEW.closing=1 AND (OLD.closing=0 AND OLD.ended_at_ms IS NOT NULL OR NEW.ended_at_ms IS NULL)
  BEGIN SELECT RAISE(ABORT,'S1: an answer that was said was taken back'); END;
-- The counter tells two copies of a ledger apart: one that lacks an end which was announced has counted less.
CREATE TRIGGER closing_counted AFTER UPDATE OF closing ON job WHEN NEW.closing=1 AND OLD.closing=0 BEGIN
  UPDATE meta SET v=v+1 WHERE k='next_n';
END;
-- What had ended one way here ended another way in the store: it is counted there.
CREATE TRIGGER job_replaced AFTER UPDATE OF state ON job
  WHEN OLD.closing=1 AND NEW.state<>OLD.state AND NEW.id<=(SELECT v FROM meta WHERE k='counted_to') BEGIN
  UPDATE tally SET jobs=jobs-1 WHERE namespace=OLD.namespace AND kind=OLD.kind AND version=OLD.version AND state=OLD.state;
  INSERT INTO tally(namespace,kind,version,state,jobs) VALUES(NEW.namespace,NEW.kind,NEW.version,NEW.state,1)
    ON CONFLICT DO UPDATE SET jobs=jobs+1;
END;
