SELECT j.*, w.name AS worker, a.fraction, a.message, a.began_fraction, a.began_at_ms,
       (j.state = 'canceled' AND coalesce(a.stopped, 1) = 0) AS stopping
  FROM job AS j
  LEFT JOIN attempt AS a ON a.job_id = j.job_id AND a.attempt = j.attempt
  LEFT JOIN worker AS w ON w.incarnation = a.incarnation
 WHERE (:before IS NULL OR j.id < :before)
   AND (:namespace IS NULL OR j.namespace = :namespace)
   AND (:kind IS NULL OR j.kind = :kind)
   AND (:version IS NULL OR j.version = :version)
   AND (:state IS NULL OR j.state = :state)
   AND (:key IS NULL OR j.key = :key)
   AND (:since_ms IS NULL OR j.created_at_ms >= :since_ms)
 ORDER BY j.id DESC
 LIMIT :limit;
