package main

import (
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// Wrong settings of a relay are mistakes of the caller, which name the flag and never a password.
func TestRelayRefuses(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "--database is missing"},
		{[]string{"--database", "redis://u:secret@db.example"}, "begins with postgres:// or mysql://"},
		{[]string{"--database", "mysql://u:secret@db.example:port/shop"}, "invalid port"},
		{[]string{"--database", "postgres://db.example/shop", "--table", "Outbox;"}, `table "Outbox;"`},
		{[]string{"--database", "postgres://db.example/shop", "--batch", "10001"}, "--batch is 10001: 1 to 10000"},
		{[]string{"--database", "postgres://db.example/shop", "--poll", "0s"}, "--poll"},
		{[]string{"--database", "postgres://db.example/shop", "--keep=-1s"}, "--keep"},
		{[]string{"--database", "postgres://db.example/shop", "--log-level", "loud"}, "--log-level"},
		{[]string{"--database", "postgres://db.example/shop", "--metrics", "nowhere"}, "--metrics"},
		{[]string{"ddl"}, "--dialect"},
		{[]string{"ddl", "--dialect", "mysql", "--table", "a b"}, "table"},
		{[]string{"dll"}, "ddl"},
	} {
		out, code := belfry(t, append([]string{"relay"}, c.args...)...)
		assert.Equal(t, code, exitUsage, "%v", c.args)
		assert.Contains(t, out, c.want, "%v", c.args)
		if strings.Contains(out, "secret") {
			t.Errorf("%v: %s", c.args, out)
		}
	}
	out, code := belfry(t, "relay", "ddl", "--dialect", "postgres", "--table", "shop.outbox")
	assert.Equal(t, code, 0)
	assert.Contains(t, out, "CREATE TABLE shop.outbox (")
}
