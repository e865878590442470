-- A worker, or its new state.
-- Fence: its own incarnation.
INSERT INTO worker(incarnation, name, host, namespaces, slots, capabilities, handlers, lock_file, lock_device, lock_inode,
                   pid, state, seen_at_ms)
VALUES (:incarnation, :name, :host, :namespaces, :slots, :capabilities, :handlers, :lock_file, :lock_device, :lock_inode,
        :pid, :state, :wall_ms)
ON CONFLICT(incarnation) DO UPDATE SET state = excluded.state, slots = excluded.slots, capabilities = excluded.capabilities,
                                       handlers = excluded.handlers, seen_at_ms = excluded.seen_at_ms;
