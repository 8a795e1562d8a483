-- The outbox of `belfry relay` in MySQL 8 or MariaDB 10.6. A transaction inserts op, task_id and task; the relay sets
-- the rest. Times are in UTC.
CREATE TABLE {{.Table}} (
    id         BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    op         VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'schedule'
               CHECK (op IN ('schedule', 'cancel')),
    task_id    VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- Of a schedule: the body of PUT /v1/tasks/{task_id}; a delay counts from created_at. The type JSON would change the
    -- order of members and large numbers.
    task       MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin CHECK (JSON_VALID(task)),
    created_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    state      VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'waiting'
               CHECK (state IN ('waiting', 'relayed', 'refused')),
    -- Waiting: earliest time of the next try; else: when the row was done.
    state_at   DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    answer     TEXT CHARACTER SET utf8mb4, -- of Belfry
    KEY {{.Name}}_state (state, state_at, created_at),
    KEY {{.Name}}_order (task_id, state, id)
) ENGINE = InnoDB;
