SELECT incarnation, worker, drained_at_ms, who, why, ended_at_ms, undone, undone_who, undone_why
  FROM drain ORDER BY id DESC LIMIT :limit;
