package client

import (
	"strings"
	"testing"
)

// A user and password are not dropped in silence, and the password is not told to whoever reads the error.
func TestAddressWithAUserIsRefused(t *testing.T) {
	for _, addr := range []string{"http://ann:hush@a:1", "ann:hush@a:1", "https://ann@a:1/belfry", "ftp://ann:hush@a:1"} {
		_, err := New(Config{Addrs: []string{"b:1", addr}})
		if err == nil || !strings.Contains(err.Error(), "ann") || !strings.Contains(err.Error(), "@a:1") ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// What cannot be read is not told: it may hold a password.
func TestUnreadableAddressIsNotTold(t *testing.T) {
	_, err := New(Config{Addrs: []string{"http://ann:hu%sh@a:1"}})
	if err == nil || strings.Contains(err.Error(), "hu") {
		t.Error(err)
	}
}
