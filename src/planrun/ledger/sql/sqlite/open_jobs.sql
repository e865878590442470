SELECT namespace, kind, version, sum(jobs * (state = 'queued')) AS queued, sum(jobs * (state = 'running')) AS running
  FROM counted
 WHERE state IN ('queued', 'running')
 GROUP BY namespace, kind, version;
