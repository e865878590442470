SELECT min(id) AS id FROM job INDEXED BY job_created WHERE created_at_ms >= :since_ms;
