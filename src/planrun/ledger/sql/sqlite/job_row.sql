SELECT j.*, w.name AS worker, a.fraction, a.message, a.began_fraction, a.began_at_ms,
       (j.state = 'canceled' AND coalesce(a.stopped, 1) = 0) AS stopping,
       (SELECT count(*) FROM outbox
         WHERE msg_id >= 'result:' || :job_id || ':' AND msg_id < 'result:' || :job_id || char(59) AND confirmed = 0) AS undelivered
  FROM job AS j
  LEFT JOIN attempt AS a ON a.job_id = j.job_id AND a.attempt = j.attempt
  LEFT JOIN worker AS w ON w.incarnation = a.incarnation
 WHERE j.job_id = :job_id AND (:namespace IS NULL OR j.namespace = :namespace);
