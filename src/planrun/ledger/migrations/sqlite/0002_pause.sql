-- Sets of jobs that nobody may start for now; once resumed, the history of who did both, and why.

CREATE TABLE pause(
  id INTEGER PRIMARY KEY,
  namespace TEXT NOT NULL, kind TEXT NOT NULL, -- empty: any
  paused_at_ms INTEGER NOT NULL, who TEXT NOT NULL, why TEXT NOT NULL,
  resumed_at_ms INTEGER, resumed_who TEXT NOT NULL DEFAULT '', resumed_why TEXT NOT NULL DEFAULT '') STRICT;
CREATE UNIQUE INDEX pause_open ON pause(namespace,kind) WHERE resumed_at_ms IS NULL;
