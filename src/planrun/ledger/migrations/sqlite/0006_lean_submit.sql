-- A job that is handed in is one row: who asked for it, by which request, and that it was so, stand in the row itself.
--
-- Breaking: an older planrun would not find the request that made a job, nor the first line of its history.

ALTER TABLE job ADD COLUMN request_id TEXT;  -- NULL in jobs from before: theirs is a row of request, and of event
ALTER TABLE job ADD COLUMN request_hash TEXT;
ALTER TABLE job ADD COLUMN asked_who TEXT NOT NULL DEFAULT '';
ALTER TABLE job ADD COLUMN asked_why TEXT NOT NULL DEFAULT '';
