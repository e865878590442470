SELECT kind, version, namespace, needs, min(id) AS id, count(*) AS jobs
  FROM job
 WHERE state = 'queued' AND not_before_ms = 0 AND created_at_ms BETWEEN :after_ms AND :before_ms
 GROUP BY kind, version, namespace, needs;
