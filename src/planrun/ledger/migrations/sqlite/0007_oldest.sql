-- The line by age: every tenth start of a worker goes to the job that has waited longest, whatever its priority.
--
-- Jobs of priority 0, which most are, pay nothing for it: `job_ready` has them by their age already.

CREATE INDEX job_oldest ON job(kind,version,namespace,id) WHERE state='queued' AND not_before_ms=0 AND priority<>0;
