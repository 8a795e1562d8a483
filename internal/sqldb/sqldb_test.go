package sqldb

import (
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

func TestMySQL(t *testing.T) {
	for url, want := range map[string]string{
		"mysql://shop:se%3Acret@db.example/shop?tls=skip-verify":     "shop:se:cret@tcp(db.example:3306)/shop",
		"mariadb://shop@[::1]:3307/shop":                             "shop@tcp([::1]:3307)/shop",
		"mysql://shop@localhost/shop?socket=/run/mysqld/mysqld.sock": "shop@unix(/run/mysqld/mysqld.sock)/shop",
	} {
		cfg, err := mysqlConfig(url, map[string]string{"wait_timeout": "60"})
		assert.NoError(t, err)
		assert.Contains(t, cfg.FormatDSN(), want+"?")
		assert.Contains(t, cfg.FormatDSN(), "wait_timeout=60")
	}
}

// TestErrors checks that no error quotes a password.
func TestErrors(t *testing.T) {
	for _, url := range []string{
		"", "db.example", "redis://db.example/0", "mysql://u:secret@db.example:port/shop", "postgres://u:secret@db:port/shop",
		"mysql://u:secret@db.example/shop?parseTime=maybe", "mysql://u:secret@db.example/\x01",
	} {
		_, err := Open(url, nil)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestText(t *testing.T) {
	for dialect, want := range map[Dialect]string{Postgres: "a = $1 AND b = $2", MySQL: "a = ? AND b = ?"} {
		assert.Equal(t, (&DB{Dialect: dialect}).Text("a = ? AND b = ?"), want)
	}
}
