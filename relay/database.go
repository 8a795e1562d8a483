package relay

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfryhq/belfry/internal/sqldb"
)

// DefaultTable is the usual name of an outbox.
const DefaultTable = "belfry_outbox"

//go:embed postgres.sql mysql.sql
var ddl embed.FS

// tableName matches a name, or a schema and a name, that needs no quotes. PostgreSQL cuts names after 63 bytes.
var tableName = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,62}\.)?([a-z_][a-z0-9_]{0,52})$`)

// checkTable returns the name of a table without its schema.
func checkTable(table string) (name string, err error) {
	parts := tableName.FindStringSubmatch(table)
	if parts == nil {
		return "", fmt.Errorf("table %q: a name of lower-case letters, digits and _ (limit 53 bytes), also behind a schema "+
			"and a dot", table)
	}
	return parts[2], nil
}

// DDL returns the statements that make an outbox.
func DDL(dialect sqldb.Dialect, table string) (string, error) {
	if dialect != sqldb.Postgres && dialect != sqldb.MySQL {
		return "", fmt.Errorf("dialect %q: %s or %s", dialect, sqldb.Postgres, sqldb.MySQL)
	}
	name, err := checkTable(table)
	if err != nil {
		return "", err
	}
	text, err := template.ParseFS(ddl, string(dialect)+".sql")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = text.Execute(&b, struct{ Table, Name string }{table, name})
	return b.String(), err
}

// Database is a database with an outbox.
type Database struct {
	table string
	name  string // of the table, without its schema
	*sqldb.DB
}

// idleConnection is how long an unused connection stays open, less than maxSilence.
const idleConnection = 30 * time.Second

// maxSilence is how long the database waits for the next statement of a transaction before it ends the transaction.
const maxSilence = time.Minute

// Open returns a database by its URL, and does not connect yet. Its errors quote no password.
func Open(rawURL, table string) (*Database, error) {
	name, err := checkTable(cmp.Or(table, DefaultTable))
	if err != nil {
		return nil, err
	}
	db, err := sqldb.Open(rawURL, map[string]string{"wait_timeout": strconv.Itoa(int(maxSilence.Seconds()))})
	if err != nil {
		return nil, err
	}
	d := &Database{table: cmp.Or(table, DefaultTable), name: name, DB: db}
	d.SetConnMaxIdleTime(idleConnection)
	return d, nil
}

// row is a row of the outbox.
type row struct {
	id        int64
	op        string
	taskID    string
	task      []byte // of a schedule
	createdAt time.Time
}

// now is the database's clock. It goes on during a transaction.
func (d *Database) now() string {
	if d.Dialect == sqldb.Postgres {
		return "clock_timestamp()"
	}
	return "UTC_TIMESTAMP(6)"
}

// text completes a statement: {T} is the table, {now} the clock, and the question marks are parameters.
func (d *Database) text(statement string) string {
	return d.Text(strings.NewReplacer("{T}", d.table, "{now}", d.now()).Replace(statement))
}

// seconds returns a duration as an interval of SQL.
func seconds(d time.Duration) string { return fmt.Sprintf("INTERVAL '%d' SECOND", int64(d.Seconds())) }

// in returns the placeholders of a list, and the arguments with its values.
func in[T any](values []T, before ...any) (placeholders string, args []any) {
	for _, v := range values {
		before = append(before, v)
	}
	return "(?" + strings.Repeat(",?", len(values)-1) + ")", before
}

// begin begins a transaction whose statements each see what others have committed before.
func (d *Database) begin(ctx context.Context) (*sql.Tx, error) {
	tx, err := d.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil || d.Dialect != sqldb.Postgres {
		return tx, err
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf("SET LOCAL idle_in_transaction_session_timeout = %d",
		maxSilence.Milliseconds()))
	if err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return tx, nil
}

// claim locks rows that wait, n at most, and returns them. No other row of their tasks is older and waits.
func (d *Database) claim(ctx context.Context, tx *sql.Tx, n int) (rows []row, err error) {
	found, err := tx.QueryContext(ctx, d.text(`SELECT id, op, task_id, task, created_at FROM {T} o
		WHERE state = 'waiting' AND state_at <= {now} AND NOT EXISTS (
			SELECT 1 FROM {T} p WHERE p.task_id = o.task_id AND p.state = 'waiting' AND p.id < o.id)
		ORDER BY state_at LIMIT ? FOR UPDATE SKIP LOCKED`), n)
	if err != nil {
		return nil, err
	}
	err = each(found, func() error {
		var r row
		defer func() { rows = append(rows, r) }()
		return found.Scan(&r.id, &r.op, &r.taskID, &r.task, &r.createdAt)
	})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return d.oldest(ctx, tx, rows)
}

// oldest returns those of the locked rows that are the oldest waiting ones of their tasks.
func (d *Database) oldest(ctx context.Context, tx *sql.Tx, locked []row) ([]row, error) {
	ids := make([]string, len(locked))
	for i := range locked {
		ids[i] = locked[i].taskID
	}
	list, args := in(ids)
	found, err := tx.QueryContext(ctx, d.text(`SELECT task_id, MIN(id) FROM {T}
		WHERE task_id IN `+list+` AND state = 'waiting' GROUP BY task_id`), args...)
	if err != nil {
		return nil, err
	}
	first := map[string]int64{}
	err = each(found, func() error {
		var taskID string
		var id int64
		defer func() { first[taskID] = id }()
		return found.Scan(&taskID, &id)
	})
	rows := locked[:0]
	for _, r := range locked {
		if first[r.taskID] == r.id {
			rows = append(rows, r)
		}
	}
	return rows, err
}

// each calls scan for each row of an answer, and closes the answer.
func each(found *sql.Rows, scan func() error) error {
	var err error
	for err == nil && found.Next() {
		err = scan()
	}
	return errors.Join(err, found.Err(), found.Close())
}

// record writes the verdict on locked rows. Without keep, relayed rows are deleted.
func (d *Database) record(ctx context.Context, tx *sql.Tx, v verdict, ids []int64, keep bool) error {
	statement, args := `DELETE FROM {T} WHERE id IN `, []any(nil)
	switch {
	case v.state == stateWaiting:
		later := `{now} + ` + seconds(retryAfter)
		statement, args = `UPDATE {T} SET state_at = `+later+`, answer = ? WHERE id IN `, []any{v.answer}
	case v.state == stateRefused || keep:
		statement, args = `UPDATE {T} SET state = ?, state_at = {now}, answer = ? WHERE id IN `, []any{v.state, v.answer}
	}
	list, args := in(ids, args...)
	_, err := tx.ExecContext(ctx, d.text(statement+list), args...)
	return err
}

const purgeMost = 1000 // rows that one transaction deletes

// purge deletes rows that were relayed before that time, and returns their number, purgeMost at most.
func (d *Database) purge(ctx context.Context, before time.Duration) (n int, err error) {
	tx, err := d.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	found, err := tx.QueryContext(ctx, d.text(`SELECT id FROM {T} WHERE state = 'relayed' AND state_at < {now} - `+
		seconds(before)+` ORDER BY state_at LIMIT ? FOR UPDATE SKIP LOCKED`), purgeMost)
	if err != nil {
		return 0, err
	}
	var ids []int64
	err = each(found, func() error {
		var id int64
		defer func() { ids = append(ids, id) }()
		return found.Scan(&id)
	})
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	list, args := in(ids)
	if _, err := tx.ExecContext(ctx, d.text(`DELETE FROM {T} WHERE id IN `+list), args...); err != nil {
		return 0, err
	}
	return len(ids), tx.Commit()
}

// backlog describes the rows that are not relayed.
type backlog struct {
	waiting, refused int
	lag              time.Duration // since the oldest waiting row was made; 0: none waits
}

// count returns the backlog.
func (d *Database) count(ctx context.Context) (b backlog, err error) {
	found, err := d.QueryContext(ctx, d.text(`SELECT state, COUNT(*), MIN(created_at), {now} FROM {T}
		WHERE state IN ('waiting', 'refused') GROUP BY state`))
	if err != nil {
		return b, err
	}
	return b, each(found, func() error {
		var state string
		var n int
		var oldest, now time.Time
		err := found.Scan(&state, &n, &oldest, &now)
		if state == stateRefused {
			b.refused = n
		} else {
			b.waiting, b.lag = n, max(now.Sub(oldest), 0)
		}
		return err
	})
}

// await fills wake when the database notifies of new rows, until ctx ends or the connection does.
func (d *Database) await(ctx context.Context, wake chan<- struct{}) error {
	conn, err := pgx.ConnectConfig(ctx, d.Postgres.Copy())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it only listened
	if _, err := conn.Exec(ctx, "LISTEN "+d.name); err != nil {
		return err
	}
	for {
		select {
		case wake <- struct{}{}: // at first: rows may have come before the connection
		default: // the relay wakes already
		}
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}
