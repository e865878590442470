SELECT namespace, kind, version, sum(state = 'queued') AS queued, sum(state = 'running') AS running
  FROM (SELECT namespace, kind, version, state FROM job INDEXED BY job_ready WHERE state = 'queued' AND not_before_ms = 0
        UNION ALL
        SELECT namespace, kind, version, state FROM job INDEXED BY job_delayed WHERE state = 'queued' AND not_before_ms > 0
        UNION ALL
        SELECT namespace, kind, version, state FROM job INDEXED BY job_holder WHERE state = 'running')
 GROUP BY namespace, kind, version;
