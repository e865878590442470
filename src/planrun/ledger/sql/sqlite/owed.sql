SELECT count(*) OVER () AS answers, o.msg_id, o.route, o.tries, j.job_id, j.ended_at_ms
  FROM outbox AS o JOIN job AS j ON j.job_id = substr(o.msg_id, 8, 36)
 WHERE o.confirmed = 0 AND o.tries >= :tries_min
 ORDER BY j.ended_at_ms, o.msg_id
 LIMIT 1;
