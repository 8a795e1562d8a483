package tables

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/imports"
	"github.com/belfryhq/belfry/internal/sqldb"
)

// Options are the settings of a Source.
type Options struct {
	URL      string // postgres://user:password@host:port/database?sslmode=require, or mysql:// with ?tls=true
	Password string // in place of the URL's; empty: the URL's
	Table    string // the name of the table, or the prefix of Quartz's tables; empty: the scheduler's default
	Prefix   string // of all ids
	Queue    string // of all tasks; empty: that of the source, or "default"
}

// Source reads the rows of a scheduler, and implements imports.Mover. It is for one goroutine.
type Source struct {
	db     *sqldb.DB
	o      Options
	format format
}

// format has the statements for the tables of a scheduler. {table} stands for Options.Table, and ? for a parameter.
type format struct {
	table string // the default of Options.Table
	from  string // what follows FROM in the query of all rows

	columns, order string
	// read makes a record of the current row, without the id of its task, and sets the parameters of the statements
	// below as its Origin.
	read func(*sql.Rows) (imports.Record, error)

	claim    string   // has the parameters of key, and those of version
	finish   []string // have the parameters of key
	giveBack string   // has the parameters of key
}

// origin has the parameters that name a row, and those that tell whether it was changed.
type origin struct{ key, version []any }

var (
	errURL   = errors.New("the URL is not like postgres://user@host:5432/database, or mysql:// in its place")
	errTable = errors.New("the name of the table has other characters than letters, digits, dots and _")
	isTable  = regexp.MustCompile(`^[A-Za-z0-9_.]+$`)
)

// open connects to a server.
func open(ctx context.Context, o Options, f format) (*Source, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || strings.Trim(u.Path, "/") == "" {
		return nil, errURL // the error shows the password
	}
	if o.Table = cmp.Or(o.Table, f.table); !isTable.MatchString(o.Table) {
		return nil, errTable
	}
	if o.Password != "" {
		u.User = url.UserPassword(u.User.Username(), o.Password)
	}
	db, err := sqldb.Open(u.String(), map[string]string{"time_zone": "'+00:00'"})
	if err == nil {
		err = db.PingContext(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("the database at %s: %s", u.Host, err.Error()) // not a dial of the cluster, to those who ask
	}
	return &Source{db, o, f}, nil
}

// Close ends the connections.
func (s *Source) Close() error { return s.db.Close() }

// statement completes a statement of the format.
func (s *Source) statement(text string) string {
	return s.db.Text(strings.ReplaceAll(text, "{table}", s.o.Table))
}

// Count returns the number of rows.
func (s *Source) Count(ctx context.Context) (n int64, err error) {
	err = s.db.QueryRowContext(ctx, s.statement("SELECT count(*) FROM "+s.format.from)).Scan(&n)
	return n, err
}

// Records implements imports.Source.
func (s *Source) Records(ctx context.Context) iter.Seq2[imports.Record, error] {
	return func(yield func(imports.Record, error) bool) {
		f := s.format
		rows, err := s.db.QueryContext(ctx, s.statement("SELECT "+f.columns+" FROM "+f.from+" ORDER BY "+f.order))
		if err != nil {
			yield(imports.Record{}, fmt.Errorf("%s: %w", s.o.Table, err))
			return
		}
		defer func() { _ = rows.Close() }() // the rows were read, or no more are wanted
		for rows.Next() {
			record, err := f.read(rows)
			if err != nil {
				yield(imports.Record{}, fmt.Errorf("%s: %w", s.o.Table, err))
				return
			}
			s.name(&record)
			if !yield(record, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(imports.Record{}, fmt.Errorf("%s: %w", s.o.Table, err))
		}
	}
}

// name sets the id and the queue of the record's task or schedule.
func (s *Source) name(r *imports.Record) {
	id, task := &r.Task.ID, &r.Task
	if r.Schedule != nil {
		id, task = &r.Schedule.ID, &r.Schedule.Task
	}
	*id = imports.StableID(s.o.Prefix, r.Key)
	task.Queue = cmp.Or(s.o.Queue, task.Queue)
}

// each runs statements for each record in one transaction, and calls done with the rows that the last one changed.
func (s *Source) each(
	ctx context.Context, records []imports.Record, args func(origin) []any, done func(int64), texts ...string,
) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // it does nothing after the commit
	statements := make([]*sql.Stmt, len(texts))
	for i, text := range texts {
		if statements[i], err = tx.PrepareContext(ctx, s.statement(text)); err != nil {
			return err
		}
	}
	for i := range records {
		var changed int64
		for _, statement := range statements {
			result, err := statement.ExecContext(ctx, args(records[i].Origin.(origin))...)
			if err != nil {
				return fmt.Errorf("%s: %w", records[i].Key, err)
			}
			if changed, err = result.RowsAffected(); err != nil {
				return err
			}
		}
		done(changed)
	}
	return tx.Commit()
}

func keyOf(o origin) []any { return o.key }

func withVersion(o origin) []any { return append(append([]any{}, o.key...), o.version...) }

// Claim implements imports.Mover.
func (s *Source) Claim(ctx context.Context, records []imports.Record) (had []bool, err error) {
	err = s.each(ctx, records, withVersion, func(changed int64) { had = append(had, changed == 1) }, s.format.claim)
	return had, err
}

// Finish implements imports.Mover.
func (s *Source) Finish(ctx context.Context, records []imports.Record) error {
	return s.each(ctx, records, keyOf, func(int64) {}, s.format.finish...)
}

// GiveBack implements imports.Mover.
func (s *Source) GiveBack(ctx context.Context, records []imports.Record) error {
	return s.each(ctx, records, keyOf, func(int64) {}, s.format.giveBack)
}

// typeLabel is the label with the kind of a job, by which consumers choose their handler.
const typeLabel = "type"

// dueTask returns a task that is due at an instant, rounded up to whole milliseconds.
func dueTask(at time.Time, kind string) client.Task {
	return client.Task{
		FireAt: at.Add(time.Millisecond - time.Nanosecond).Truncate(time.Millisecond).UTC(),
		Labels: map[string]string{typeLabel: kind},
	}
}
