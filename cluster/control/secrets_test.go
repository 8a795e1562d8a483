package control

import (
	"bytes"
	"encoding/base64"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/seal"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
)

// clusterKeys returns cluster keys of a file with a line for each byte.
func clusterKeys(t *testing.T, fills ...byte) *seal.Keys {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	var text string
	for _, fill := range fills {
		text += base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, seal.KeyBytes)) + "\n"
	}
	assert.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	keys, err := seal.OpenKeys(path, slog.New(slog.DiscardHandler))
	assert.NoError(t, err)
	return keys
}

// secretPolicy returns the policy of a queue with secrets.
func secretPolicy(queue string) *fsmpb.QueuePolicy {
	p := policy(queue, 1)
	p.Secrets = [][]byte{[]byte("canary-of-at-least-24-bytes")}
	p.Target = &fsmpb.Target{Url: "https://shop.example", Headers: []*fsmpb.Header{
		{Name: "authorization", Value: "Bearer canary"},
	}}
	return p
}

// sealAll takes the leader's sealing steps until none is left.
func sealAll(t *testing.T, s *clusterpb.ControlState, keys *seal.Keys) *clusterpb.ControlState {
	t.Helper()
	for range 10 {
		next, err := look{state: s, keys: keys}.seals()
		assert.NoError(t, err)
		if next.what == "" {
			return s
		}
		if strings.Contains(next.what, "canary") {
			t.Error(next.what)
		}
		s = mustApply(t, s, next.entry)
	}
	t.Fatal("no end")
	return nil
}

func opens(t *testing.T, s *clusterpb.ControlState, keys *seal.Keys, queue string) {
	t.Helper()
	stored := Queue(s, "", queue)
	opened, err := keys.Open(stored)
	assert.NoError(t, err)
	want := secretPolicy(queue)
	want.Version = stored.Version
	if !proto.Equal(opened, want) {
		t.Errorf("%v, want %v", opened, want)
	}
}

// The leader seals policies that were stored in the clear, and seals them again after a rotation. Without keys
// or without the old key it changes nothing.
func TestLeaderSealsAgain(t *testing.T) {
	s := &clusterpb.ControlState{ClusterId: "c"}
	s = mustApply(t, s, setQueue(secretPolicy("a")))
	s = mustApply(t, s, setQueue(policy("b", 1)))
	s = mustApply(t, s, setQueue(secretPolicy("c")))
	first, second := clusterKeys(t, 1), clusterKeys(t, 2, 1)
	if after := sealAll(t, s, nil); !proto.Equal(after, s) {
		t.Error("changed without keys")
	}
	s = sealAll(t, s, first)
	data, err := proto.Marshal(s)
	assert.NoError(t, err)
	if bytes.Contains(data, []byte("canary")) || s.ClusterKey != first.Key() || Queue(s, "", "b").Sealed != nil {
		t.Errorf("%v", s)
	}
	opens(t, s, first, "a")
	after := sealAll(t, s, clusterKeys(t, 3))
	assert.Equal(t, Queue(after, "", "a").Sealed.Key, first.Key(), "sealed without the old key: %v", after)
	s = sealAll(t, s, second)
	if s.ClusterKey != second.Key() || Queue(s, "", "a").Sealed.Key != second.Key() {
		t.Errorf("not sealed again: %v", s)
	}
	opens(t, s, clusterKeys(t, 2), "c")
}

// Once a key seals, no signing secret in the clear gets into the state, whichever node proposes it.
func TestPlainSecretsAreRefused(t *testing.T) {
	s := &clusterpb.ControlState{ClusterId: "c"}
	s = sealAll(t, s, clusterKeys(t, 1))
	if _, _, err := apply(s, marshal(t, setQueue(secretPolicy("a")))); !errors.Is(err, ErrRefused) ||
		strings.Contains(err.Error(), "canary") {
		t.Errorf("%v", err)
	}
	mustApply(t, s, setQueue(policy("b", 1)))
}

// TestSecretOfReceipts checks that a cluster draws its secret of receipts once.
func TestSecretOfReceipts(t *testing.T) {
	s := &clusterpb.ControlState{ClusterId: "c"}
	next, err := look{state: s}.receipts()
	if err != nil || next.entry == nil {
		t.Fatalf("%+v, %v", next, err)
	}
	s = mustApply(t, s, next.entry)
	assert.Equal(t, len(s.ReceiptKey), receiptKeyBytes, "bytes")
	if next, err := (look{state: s}).receipts(); next.entry != nil || err != nil {
		t.Errorf("another secret: %v", err)
	}
	for _, key := range [][]byte{bytes.Repeat([]byte{7}, receiptKeyBytes), []byte("short")} {
		after, err := Apply(s, &clusterpb.ControlEntry{
			Op: &clusterpb.ControlEntry_SetReceiptKey{SetReceiptKey: &clusterpb.SetReceiptKey{Key: key}},
		})
		if (err != nil) != (len(key) != receiptKeyBytes) || !bytes.Equal(after.ReceiptKey, s.ReceiptKey) {
			t.Errorf("%d bytes: %v", len(key), err)
		}
	}
}
