SELECT 'job ' || job_id || ' runs, but its attempt ' || attempt || ' is not open' AS text
  FROM job WHERE state = 'running'
   AND NOT EXISTS (SELECT 1 FROM attempt AS a WHERE a.job_id = job.job_id AND a.attempt = job.attempt AND a.token = job.token AND a.outcome IS NULL)
UNION ALL
SELECT 'job ' || job_id || ' runs for a worker that the ledger does not know' FROM job
 WHERE state = 'running' AND incarnation NOT IN (SELECT incarnation FROM worker)
UNION ALL
SELECT 'attempt ' || a.attempt || ' of job ' || a.job_id || ' is open, but the job does not run under it'
  FROM attempt AS a JOIN job AS j ON j.job_id = a.job_id
 WHERE a.outcome IS NULL AND j.token IS NOT a.token
UNION ALL
SELECT 'job ' || job_id || ' has ended without a result' FROM job
 WHERE ended_at_ms IS NOT NULL AND job_id NOT IN (SELECT job_id FROM result)
UNION ALL
SELECT 'job ' || r.job_id || ' finished by a token that did not win' FROM result AS r JOIN job AS j ON j.job_id = r.job_id
 WHERE r.status = 'finished' AND r.adopted = 0
   AND NOT EXISTS (SELECT 1 FROM attempt AS a WHERE a.job_id = r.job_id AND a.token = r.token AND a.outcome = 'success')
UNION ALL
SELECT 'job ' || s.job_id || ' has ended, but ' || s.route || ' is not owed its answer'
  FROM subscriber AS s JOIN job AS j ON j.job_id = s.job_id
 WHERE j.ended_at_ms IS NOT NULL AND s.told = 0 AND j.closing = 0
   AND NOT EXISTS (SELECT 1 FROM outbox AS o WHERE o.msg_id = 'result:' || s.job_id || ':' || s.route)
UNION ALL
SELECT 'job ' || substr(o.msg_id, 8, 36) || ' has no result any more, but ' || o.route || ' is owed it'
  FROM outbox AS o LEFT JOIN job AS j ON j.job_id = substr(o.msg_id, 8, 36)
 WHERE o.confirmed = 0 AND (j.job_id IS NULL OR j.result_gone_at_ms IS NOT NULL)
UNION ALL
SELECT v FROM meta WHERE k = 'rolled_back'
UNION ALL
SELECT 'job ' || job_id || ' waits longer than any rule allows' FROM job
 WHERE state = 'queued' AND not_before_ms > :now_ms + 366 * 86400000
UNION ALL
SELECT 'the tally has ' || coalesce(c.jobs, 0) || ' ' || j.state || ' jobs of ' || j.namespace || '/' || j.kind || ' ' || j.version
       || ', there are ' || j.jobs
  FROM (SELECT namespace, kind, version, state, count(*) AS jobs FROM job GROUP BY 1, 2, 3, 4) AS j
  LEFT JOIN counted AS c USING (namespace, kind, version, state)
 WHERE c.jobs IS NOT j.jobs
UNION ALL
SELECT 'the tally has ' || c.jobs || ' ' || c.state || ' jobs of ' || c.namespace || '/' || c.kind || ' ' || c.version || ', there are none'
  FROM counted AS c
 WHERE NOT EXISTS (SELECT 1 FROM job
                    WHERE namespace = c.namespace AND kind = c.kind AND version = c.version AND state = c.state)
LIMIT 100;
