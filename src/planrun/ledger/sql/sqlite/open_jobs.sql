SELECT namespace, kind, version, sum(queued) AS queued, sum(running) AS running
  FROM (SELECT namespace, kind, version, count(*) AS queued, 0 AS running
          FROM job INDEXED BY job_ready WHERE state = 'queued' AND not_before_ms = 0 GROUP BY kind, version, namespace
        UNION ALL
        SELECT namespace, kind, version, 1, 0 FROM job INDEXED BY job_delayed WHERE state = 'queued' AND not_before_ms > 0
        UNION ALL
        SELECT namespace, kind, version, 0, 1 FROM job INDEXED BY job_holder WHERE state = 'running')
 GROUP BY namespace, kind, version;
