SELECT namespace, kind, paused_at_ms, who, why, resumed_at_ms, resumed_who, resumed_why FROM pause ORDER BY id DESC LIMIT :limit;
