SELECT namespace, kind, paused_at_ms, who, why FROM pause INDEXED BY pause_open WHERE resumed_at_ms IS NULL;
