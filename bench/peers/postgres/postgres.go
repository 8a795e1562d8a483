package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfryhq/belfry/bench/peers/installed"
	"github.com/belfryhq/belfry/bench/subject"
)

// connections is the size of the callers' pool. More connections would wait for the same disk and processors.
const connections = 64

const schema = `
CREATE TABLE tasks (id text PRIMARY KEY, due timestamptz NOT NULL, payload bytea NOT NULL);
CREATE INDEX tasks_due ON tasks (due)`

type postgresSubject struct{}

// Subject returns PostgreSQL with a table of tasks.
func Subject() subject.Subject { return postgresSubject{} }

func (postgresSubject) Name() string { return "PostgreSQL, SKIP LOCKED" }

func (postgresSubject) Promise() subject.Promise {
	return subject.Promise{Nodes: 1, Fsync: subject.FsyncEachWrite}
}

func (postgresSubject) Missing() string {
	if _, err := installed.PostgreSQL(); err != nil {
		return err.Error()
	}
	if _, err := runAs(); err != nil {
		return err.Error()
	}
	return ""
}

func (postgresSubject) Start(ctx context.Context, dir string) (subject.Service, error) {
	server, err := startServer(ctx, dir)
	if err != nil {
		return nil, err
	}
	v := &service{server: server}
	if err := v.connect(ctx); err != nil {
		return nil, errors.Join(err, v.Stop())
	}
	if _, err := v.pool.Exec(ctx, schema); err != nil {
		return nil, errors.Join(err, v.Stop())
	}
	return v, nil
}

// service is a server and the pool of connections to it.
type service struct {
	*server
	pool *pgxpool.Pool // nil: not connected
}

func (v *service) connect(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(v.url())
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
func (v *service) Restart(context.Context) error {
	v.disconnect()
	return v.process.Launch()
}

func (v *service) Stop() error {
	v.disconnect()
	return v.stop()
}
