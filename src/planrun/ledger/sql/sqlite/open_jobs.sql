SELECT namespace, kind, version, sum(jobs * (state = 'queued')) AS queued, sum(jobs * (state = 'running')) AS running
  FROM tally
 WHERE state IN ('queued', 'running') AND jobs > 0
 GROUP BY namespace, kind, version;
