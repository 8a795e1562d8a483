// Package sqldb opens databases of PostgreSQL and MySQL by their URLs.
//
//	postgres://user:password@host:5432/database?sslmode=require    as libpq and pgx read it
//	mysql://user:password@host:3306/database?tls=true              also of MariaDB; ?socket=PATH in place of the host
//
// The other parameters of a MySQL are those of its driver, whose DSN is no URL. Times are in UTC.
package sqldb

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Dialect is a kind of database.
type Dialect string

// The dialects. MySQL includes MariaDB.
const (
	Postgres Dialect = "postgres"
	MySQL    Dialect = "mysql"
)

// DB is a database.
type DB struct {
	*sql.DB
	Dialect  Dialect
	Postgres *pgx.ConnConfig // for connections beside the pool; nil: it is no PostgreSQL
}

// Open returns a database by its URL, and does not connect yet. variables are set in each session of a MySQL. Errors
// quote no password.
func Open(rawURL string, variables map[string]string) (*DB, error) {
	switch scheme, _, _ := strings.Cut(rawURL, "://"); scheme {
	case "postgres", "postgresql":
		cfg, err := pgx.ParseConfig(rawURL)
		if err != nil {
			return nil, err
		}
		return &DB{stdlib.OpenDB(*cfg), Postgres, cfg}, nil
	case "mysql", "mariadb":
		cfg, err := mysqlConfig(rawURL, variables)
		if err != nil {
			return nil, err
		}
		connector, err := mysql.NewConnector(cfg)
		if err != nil {
			return nil, err
		}
		return &DB{sql.OpenDB(connector), MySQL, nil}, nil
	}
	return nil, errors.New("the URL of a database begins with postgres:// or mysql://")
}

func mysqlConfig(rawURL string, variables map[string]string) (*mysql.Config, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("the URL of the database: %w", errors.Unwrap(err)) // the outer error quotes the URL
	}
	query := u.Query()
	socket := query.Get("socket")
	query.Del("socket")
	cfg, err := mysql.ParseDSN("/?" + query.Encode())
	if err != nil {
		return nil, err
	}
	cfg.Net, cfg.Addr = "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "3306"))
	if socket != "" {
		cfg.Net, cfg.Addr = "unix", socket
	}
	cfg.User, cfg.DBName = u.User.Username(), strings.TrimPrefix(u.Path, "/")
	cfg.Passwd, _ = u.User.Password()
	cfg.ParseTime, cfg.Loc, cfg.Logger = true, time.UTC, &mysql.NopLogger{} // errors are returned, too
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	maps.Copy(cfg.Params, variables)
	return cfg, nil
}

// Text returns a statement whose parameters are question marks, with the placeholders of the dialect.
func (d *DB) Text(statement string) string {
	if d.Dialect != Postgres {
		return statement
	}
	var b strings.Builder
	for i, part := range strings.Split(statement, "?") {
		if i > 0 {
			fmt.Fprintf(&b, "$%d", i)
		}
		b.WriteString(part)
	}
	return b.String()
}
