package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/belfryhq/belfry/bench/peers/installed"
	"github.com/belfryhq/belfry/bench/subject"
)

// connections is the size of the callers' pool. More connections would wait for the same disk and processors.
const connections = 64

const schema = `
CREATE TABLE tasks (id text PRIMARY KEY, due timestamptz NOT NULL, payload bytea NOT NULL);
CREATE INDEX tasks_due ON tasks (due)`

// OneServer returns PostgreSQL with a table of tasks.
func OneServer() subject.Subject { return postgresSubject("PostgreSQL, SKIP LOCKED", 0) }

// WithStandbys returns a primary with two standbys. A commit waits until one of them has synced it, too.
func WithStandbys() subject.Subject { return postgresSubject("PostgreSQL, ANY 1 of 2 standbys", 2) }

func postgresSubject(name string, standbys int) subject.Subject {
	return subject.Subject{
		Name: name,
		Promise: subject.Promise{
			Nodes: 1 + standbys, Replicated: standbys > 0, Fsync: subject.FsyncEachWrite,
		},
		Need: func() error {
			_, err := installed.PostgreSQL()
			if err == nil {
				_, err = runAs()
			}
			return err
		},
		Start: func(ctx context.Context, dir string) (subject.Service, error) { return start(ctx, dir, standbys) },
	}
}

func start(ctx context.Context, dir string, standbys int) (subject.Service, error) {
	v := &service{}
	err := v.startServers(ctx, dir, standbys)
	if err == nil {
		err = v.connect(ctx)
	}
	if err == nil {
		_, err = v.pool.Exec(ctx, schema) // returns once a standby has it
	}
	if err != nil {
		return nil, errors.Join(err, v.Stop())
	}
	return v, nil
}

// service is the servers and the pool of connections to the primary.
type service struct {
	servers
	pool *pgxpool.Pool // nil: not connected
}

func (v *service) connect(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(v.url)
	if err != nil {
		return err
	}
	config.MaxConns, config.MinConns = connections, connections // a new connection starts a server process
	v.pool, err = pgxpool.NewWithConfig(ctx, config)
	return err
}

func (v *service) Caller(ctx context.Context) (subject.Caller, error) {
	if v.pool == nil {
		if err := v.connect(ctx); err != nil {
			return nil, err
		}
	}
	return &caller{v.pool}, v.pool.Ping(ctx)
}

func (v *service) disconnect() {
	if v.pool != nil {
		v.pool.Close()
	}
	v.pool = nil
}

// Restart closes the pool. Callers of before are closed and made anew.
func (v *service) Restart(ctx context.Context) error {
	v.disconnect()
	return v.Group.Restart(ctx)
}

func (v *service) Stop() error {
	v.disconnect()
	return errors.Join(v.Group.Stop(), v.killOthers())
}

const (
	insertOne  = `INSERT INTO tasks VALUES ($1, $2, $3)`
	insertMany = `INSERT INTO tasks SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::bytea[])`
	deleteOne  = `DELETE FROM tasks WHERE id = $1`
	deleteMany = `DELETE FROM tasks WHERE id = ANY ($1)`
	putOff     = `UPDATE tasks SET due = $2 WHERE id = $1`
	take       = `DELETE FROM tasks WHERE id = ANY (ARRAY (
		SELECT id FROM tasks WHERE due <= now() ORDER BY due LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING id, payload`

	consumers = 2 // that poll for due tasks
	takeMost  = 1000
	poll      = 10 * time.Millisecond
)

type caller struct{ pool *pgxpool.Pool }

func (c *caller) Schedule(ctx context.Context, task subject.Task) error {
	return affected(1)(c.pool.Exec(ctx, insertOne, task.ID, task.Due, task.Payload))
}

func (c *caller) ScheduleBatch(ctx context.Context, tasks []subject.Task) error {
	ids, dues, payloads := make([]string, len(tasks)), make([]time.Time, len(tasks)), make([][]byte, len(tasks))
	for i, t := range tasks {
		ids[i], dues[i], payloads[i] = t.ID, t.Due, t.Payload
	}
	return affected(len(tasks))(c.pool.Exec(ctx, insertMany, ids, dues, payloads))
}

func (c *caller) Cancel(ctx context.Context, id string) error {
	return affected(1)(c.pool.Exec(ctx, deleteOne, id))
}

func (c *caller) CancelBatch(ctx context.Context, ids []string) error {
	return affected(len(ids))(c.pool.Exec(ctx, deleteMany, ids))
}

func (c *caller) Touch(ctx context.Context, id string, due time.Time) error {
	return affected(1)(c.pool.Exec(ctx, putOff, id, due))
}

func affected(want int) func(pgconn.CommandTag, error) error {
	return func(tag pgconn.CommandTag, err error) error {
		if err == nil && tag.RowsAffected() != int64(want) {
			return fmt.Errorf("%d of %d tasks are not there", int64(want)-tag.RowsAffected(), want)
		}
		return err
	}
}

// Consume runs several consumers. A consumer polls again at once after a full take.
func (c *caller) Consume(ctx context.Context, got func(id string, at time.Time)) error {
	all, ctx := errgroup.WithContext(ctx)
	for range consumers {
		all.Go(func() error { return c.look(ctx, got) })
	}
	return all.Wait()
}

func (c *caller) look(ctx context.Context, got func(id string, at time.Time)) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for ctx.Err() == nil {
		n, err := c.take(ctx, got)
		if err != nil {
			return err
		}
		if n == takeMost {
			continue
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// take finishes its transaction even if the context ends, because the received tasks must be acknowledged.
func (c *caller) take(ctx context.Context, got func(id string, at time.Time)) (n int, err error) {
	ctx = context.WithoutCancel(ctx)
	tx, err := c.pool.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() {
		if undo := tx.Rollback(ctx); !errors.Is(undo, pgx.ErrTxClosed) {
			err = errors.Join(err, undo)
		}
	}()
	rows, err := tx.Query(ctx, take, takeMost)
	if err != nil {
		return 0, err
	}
	var id string
	var payload []byte
	tag, err := pgx.ForEachRow(rows, []any{&id, &payload}, func() error {
		got(id, time.Now())
		return nil
	})
	if err != nil {
		return 0, err
	}
	return int(tag.RowsAffected()), tx.Commit(ctx)
}

// Close leaves the shared pool open.
func (*caller) Close() error { return nil }
