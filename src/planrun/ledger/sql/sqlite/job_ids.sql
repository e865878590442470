SELECT job_id
  FROM job
 WHERE job_id >= :prefix AND job_id < :prefix || 'g'
   AND (:namespace IS NULL OR namespace = :namespace)
 ORDER BY job_id
 LIMIT :limit;
