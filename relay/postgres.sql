-- The outbox of `belfry relay` in PostgreSQL. A transaction inserts op, task_id and task; the relay sets the rest.
CREATE TABLE {{.Table}} (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    op         text        NOT NULL DEFAULT 'schedule' CHECK (op IN ('schedule', 'cancel')),
    task_id    text        NOT NULL,
    task       json,       -- of a schedule: the body of PUT /v1/tasks/{task_id}; a delay counts from created_at
    created_at timestamptz NOT NULL DEFAULT now(),
    state      text        NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'relayed', 'refused')),
    state_at   timestamptz NOT NULL DEFAULT now(), -- waiting: earliest time of the next try; else: when the row was done
    answer     text        -- of Belfry
) WITH (autovacuum_vacuum_scale_factor = 0.01); -- rows are short-lived

CREATE INDEX {{.Name}}_state ON {{.Table}} (state, state_at, created_at);
CREATE INDEX {{.Name}}_order ON {{.Table}} (task_id, id) WHERE state = 'waiting';

-- Wakes the relays when a transaction commits. Optional: without it they poll. Commits that notify wait for each other,
-- which a very busy server may feel.
CREATE FUNCTION {{.Table}}_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('{{.Name}}', '');
    RETURN NULL;
END $$;
CREATE TRIGGER {{.Name}}_notify AFTER INSERT ON {{.Table}}
    FOR EACH STATEMENT EXECUTE FUNCTION {{.Table}}_notify();
