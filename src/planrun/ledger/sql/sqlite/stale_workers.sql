SELECT w.incarnation
  FROM worker AS w
 WHERE w.seen_at_ms <= :before_ms
   AND NOT EXISTS (SELECT 1 FROM attempt AS a WHERE a.incarnation = w.incarnation AND a.stopped = 0)
 ORDER BY w.seen_at_ms
 LIMIT :limit;
