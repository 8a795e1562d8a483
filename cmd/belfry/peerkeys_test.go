package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPeerKeysGoTogether(t *testing.T) {
	gossip := filepath.Join(t.TempDir(), "gossip.key")
	write := func(text string) {
		if err := os.WriteFile(gossip, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	none := peerKeyFlags{}
	if keys, err := none.load(); keys != nil || err != nil {
		t.Errorf("no files: %v, %v", keys, err)
	}
	some := peerKeyFlags{cert: "a", key: "b", ca: "c"}
	if _, err := some.load(); err == nil || !strings.Contains(err.Error(), "--gossip-key-file") {
		t.Errorf("three of four: %v", err)
	}
	all := peerKeyFlags{"a", "b", "c", gossip}
	write("too short")
	if _, err := all.load(); err == nil {
		t.Error("a short key was taken")
	}
	write(base64.StdEncoding.EncodeToString(make([]byte, 32)) + "\n")
	if keys, err := all.load(); err != nil || keys.CertFile != "a" || len(keys.Gossip) != 32 {
		t.Errorf("got %+v, %v", keys, err)
	}
}
