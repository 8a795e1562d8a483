package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/internal/sqldb"
	"github.com/belfryhq/belfry/relay"
)

// relayDatabase is the environment variable with the URL of the database. Other users of the machine see a command
// line.
const relayDatabase = "BELFRY_RELAY_DATABASE"

// relayFlags are the settings of a relay.
type relayFlags struct {
	database, table, metrics string
	logLevel, logFormat      string
	batch                    int
	poll, keep               time.Duration
}

func newRelay() *cobra.Command {
	var f relayFlags
	cmd := cli.PlainVerb(&cobra.Command{
		Use:   "relay",
		Short: "Make tasks of the rows that transactions leave in an outbox table",
		Long: `Make tasks of the rows of an outbox table in PostgreSQL, MySQL or MariaDB. A
transaction that inserts a row schedules or cancels a task exactly if it
commits. "belfry relay ddl" prints the statements that make the table.

Rows of one task take effect in the order of their ids, each once, even if the
relay is killed and several relays run. Rows that the cluster refuses for good
stay in the table with the state "refused" and the problem as the answer.

The relay waits out failures of the database and of the cluster. It ends after
the batch in progress when it is interrupted. --metrics serves /metrics,
/healthz and /readyz.

The URL of the database can stand in BELFRY_RELAY_DATABASE instead of the
command line, which other users of the machine can see.`,
		Example: `  belfry relay ddl --dialect postgres | psql shop
  belfry relay --database postgres://shop@db.example/shop --metrics :9600
  belfry relay --database mysql://shop@db.example/shop?tls=true --keep 0s`,
	}, f.run)
	cmd.Args = cli.KnownCommand
	cmd.AddCommand(newRelayDDL())
	flags := cmd.Flags()
	flags.StringVar(&f.database, "database", "", "`URL` of the database: postgres://... or mysql://...; also set by "+
		relayDatabase)
	flags.StringVar(&f.table, "table", relay.DefaultTable, "`name` of the outbox, also with a schema")
	flags.IntVar(&f.batch, "batch", 500, fmt.Sprintf("most `rows` of a transaction, %d at most", relay.MaxBatch))
	flags.Var(cli.NewSpan(&f.poll, time.Second), "poll", "longest time between two looks for rows")
	flags.Var(cli.NewSpan(&f.keep, 24*time.Hour), "keep", "how long relayed rows stay in the table; 0s: they are deleted "+
		"at once")
	flags.StringVar(&f.metrics, "metrics", "", "`address` to serve metrics and health at (default: none)")
	flags.StringVar(&f.logLevel, "log-level", "info", "`level` of the log: debug, info, warn or error")
	flags.StringVar(&f.logFormat, "log-format", "text", "`format` of the log: text or json")
	return cmd
}

func newRelayDDL() *cobra.Command {
	var dialect, table string
	cmd := &cobra.Command{
		Use:   "ddl",
		Short: "Print the statements that make an outbox table",
		Example: `  belfry relay ddl --dialect postgres | psql shop
  belfry relay ddl --dialect mysql --table belfry_outbox | mysql shop`,
		Annotations: map[string]string{cli.Offline: ""},
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := relay.DDL(sqldb.Dialect(dialect), table)
			if err != nil {
				return cli.WrongUsage(fmt.Errorf("--%w", err))
			}
			_, err = io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.Flags().StringVar(&dialect, "dialect", "", "`database`: postgres, or mysql also for MariaDB")
	cmd.Flags().StringVar(&table, "table", relay.DefaultTable, "`name` of the outbox, also with a schema")
	cli.CompleteWords(cmd, "dialect", string(sqldb.Postgres), string(sqldb.MySQL))
	return cmd
}

func (f *relayFlags) run(c *cli.Call) error {
	database, err := f.open()
	if err != nil {
		return cli.WrongUsage(err)
	}
	defer func() { _ = database.Close() }() // its transactions have ended
	logger, err := newLogger(c.Stderr(), f.logLevel, f.logFormat)
	if err != nil {
		return cli.WrongUsage(err)
	}
	conn, err := c.Connection.Open(func(cfg *client.Config) { cfg.SingleCalls, cfg.FixedAddrs = false, false })
	if err != nil {
		return err
	}
	defer conn.Close()
	r := relay.New(relay.Config{
		Database: database, Client: conn, Batch: f.batch, Poll: f.poll, Keep: f.keep, Logger: logger,
	})
	if f.metrics != "" {
		l, err := net.Listen("tcp", f.metrics)
		if err != nil {
			return cli.WrongUsage(fmt.Errorf("--metrics: %w", err))
		}
		server := &http.Server{Handler: r.Handler(), ReadHeaderTimeout: 5 * time.Second}
		defer func() { _ = server.Close() }() // answers in progress are of no use
		go func() {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				logger.Error("metrics are no longer served", "err", err)
			}
		}()
	}
	c.Note("relaying %s", f.table)
	r.Run(c.Context())
	return nil
}

// open checks the flags, and opens the database.
func (f *relayFlags) open() (*relay.Database, error) {
	url := cmp.Or(f.database, os.Getenv(relayDatabase))
	switch {
	case url == "":
		return nil, errors.New("--database is missing: the URL of the database with the outbox")
	case f.batch < 1 || f.batch > relay.MaxBatch:
		return nil, fmt.Errorf("--batch is %d: 1 to %d", f.batch, relay.MaxBatch)
	case f.poll <= 0:
		return nil, errors.New("--poll is 0 or less: more than 0")
	case f.keep < 0:
		return nil, errors.New("--keep is negative: 0 or more")
	}
	return relay.Open(url, f.table)
}
