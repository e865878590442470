SELECT j.job_id, CASE j.closing WHEN 1 THEN 'running' ELSE j.state END AS state
  FROM event AS e JOIN job AS j ON j.job_id = substr(e.detail, 8, 36) AND j.retry_of = e.job_id
 WHERE e.job_id = :job_id AND e.what = 'retried' AND (j.ended_at_ms IS NULL OR j.closing = 1)
 LIMIT 1;
