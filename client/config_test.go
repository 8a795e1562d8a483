package client

import (
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestAddressWithAUserIsRefused checks that an address with a user is refused, and that the error does not show the
// password.
func TestAddressWithAUserIsRefused(t *testing.T) {
	for _, addr := range []string{"http://ann:hush@a:1", "ann:hush@a:1", "https://ann@a:1/belfry", "ftp://ann:hush@a:1"} {
		_, err := New(Config{Addrs: []string{"b:1", addr}})
		if err == nil || !strings.Contains(err.Error(), "ann") || !strings.Contains(err.Error(), "@a:1") ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// TestUnreadableAddressIsNotTold checks that the error does not show an unreadable address, which may hold a password.
func TestUnreadableAddressIsNotTold(t *testing.T) {
	_, err := New(Config{Addrs: []string{"http://ann:hu%sh@a:1"}})
	if err == nil || strings.Contains(err.Error(), "hu") {
		t.Error(err)
	}
}

func TestFromEnv(t *testing.T) {
	for _, name := range []string{"BELFRY_ADDR", "BELFRY_KEY", "BELFRY_KEY_FILE", "BELFRY_NAMESPACE"} {
		t.Setenv(name, "")
	}
	cfg := FromEnv()
	assert.EqualSlices(t, cfg.Addrs, []string{"http://127.0.0.1:8400"})
	assert.Equal(t, cfg.Key.Text()+cfg.KeyFile+cfg.Namespace, "")
	assert.NoError(t, cfg.validate())
	t.Setenv("BELFRY_ADDR", "http://a:1,http://b:2")
	t.Setenv("BELFRY_KEY", "bk_1")
	t.Setenv("BELFRY_NAMESPACE", "shop")
	cfg = FromEnv()
	assert.EqualSlices(t, cfg.Addrs, []string{"http://a:1", "http://b:2"})
	assert.Equal(t, cfg.Key.Text(), "bk_1")
	assert.Equal(t, cfg.Namespace, "shop")
}
