SELECT j.*, w.name AS worker, a.fraction, a.message,
       (j.state = 'canceled' AND coalesce(a.stopped, 1) = 0) AS stopping
  FROM job AS j
  LEFT JOIN attempt AS a ON a.job_id = j.job_id AND a.attempt = j.attempt
  LEFT JOIN worker AS w ON w.incarnation = a.incarnation
 WHERE j.id IN (SELECT value FROM json_each(:ids))
 ORDER BY j.id DESC;
