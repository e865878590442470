SELECT job_id
  FROM job
 WHERE state = 'running' AND lease_until_ms <= :stamp_ms AND incarnation = coalesce(:incarnation, incarnation)
 ORDER BY lease_until_ms
 LIMIT :limit;
