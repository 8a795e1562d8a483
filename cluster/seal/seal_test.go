package seal

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/reload"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// keyLine returns a line of a key file.
func keyLine(fill byte) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, KeyBytes)) + "\n"
}

func ringOf(t *testing.T, fills ...byte) *Ring {
	t.Helper()
	text := "# keys\n\n"
	for _, fill := range fills {
		text += keyLine(fill)
	}
	r, err := Parse([]byte(text))
	assert.NoError(t, err)
	return r
}

var (
	canaries = []string{"canary-signing-secret-of-32-bytes", "Bearer canary-token", "sid=canary"}
	target   = &fsmpb.Target{Url: "https://shop.example", Headers: []*fsmpb.Header{
		{Name: "authorization", Value: canaries[1]}, {Name: "cookie", Value: canaries[2]}, {Name: "x-a", Value: "shown"},
	}}
	policy = &fsmpb.QueuePolicy{Namespace: "default", Queue: "q", Secrets: [][]byte{[]byte(canaries[0])}, Target: target}
)

func mustSeal(t *testing.T, r *Ring, p, present *fsmpb.QueuePolicy) *fsmpb.QueuePolicy {
	t.Helper()
	sealed, err := r.Seal(p, present)
	assert.NoError(t, err)
	return sealed
}

// A sealed policy shows no secret, and opens to the same policy under any ring with its key.
func TestSealAndOpen(t *testing.T) {
	before := proto.CloneOf(policy)
	one, two := ringOf(t, 1), ringOf(t, 2, 1)
	sealed := mustSeal(t, one, policy, nil)
	data, err := proto.Marshal(sealed)
	assert.NoError(t, err)
	for _, canary := range canaries {
		if bytes.Contains(data, []byte(canary)) {
			t.Errorf("%q shows", canary)
		}
	}
	if !bytes.Contains(data, []byte("shown")) || HasPlain(sealed) || !one.IsCurrent(sealed) || two.IsCurrent(sealed) {
		t.Errorf("%v", sealed)
	}
	for _, r := range []*Ring{one, two} {
		if opened, err := r.Open(sealed); err != nil || !proto.Equal(opened, policy) {
			t.Errorf("%v, %v", opened, err)
		}
	}
	again := mustSeal(t, two, sealed, sealed)
	if again.Sealed.Key != two.First() || !two.IsCurrent(again) {
		t.Errorf("sealed again: %v", again)
	}
	if opened, err := two.Open(again); err != nil || !proto.Equal(opened, policy) {
		t.Errorf("%v, %v", opened, err)
	}
	if !proto.Equal(policy, before) {
		t.Errorf("the policy was changed: %v", policy)
	}
}

// The same secrets sealed again are the same value; others are not.
func TestSealedValueIsKept(t *testing.T) {
	r := ringOf(t, 1)
	sealed := mustSeal(t, r, policy, nil)
	if again := mustSeal(t, r, policy, sealed); !proto.Equal(again, sealed) {
		t.Errorf("%v, then %v", sealed, again)
	}
	other := proto.CloneOf(policy)
	other.Secrets[0][0]++
	if again := mustSeal(t, r, other, sealed); proto.Equal(again.Sealed, sealed.Sealed) {
		t.Error("another secret under the same sealed value")
	}
	if plain := mustSeal(t, r, &fsmpb.QueuePolicy{Queue: "q"}, sealed); plain.Sealed != nil {
		t.Error("a policy without secrets was sealed")
	}
}

// A sealed value opens for its own queue only, whole, and under its own key.
func TestSealedValueIsBound(t *testing.T) {
	r := ringOf(t, 1)
	sealed := mustSeal(t, r, policy, nil)
	if opened, err := r.Open(sealed); err != nil || !proto.Equal(opened, policy) {
		t.Fatalf("in its place: %v, %v", opened, err)
	}
	for name, change := range map[string]func(*fsmpb.QueuePolicy){
		"queue":     func(p *fsmpb.QueuePolicy) { p.Queue = "r" },
		"namespace": func(p *fsmpb.QueuePolicy) { p.Namespace = "other" },
		"boundary":  func(p *fsmpb.QueuePolicy) { p.Namespace, p.Queue = "defaultq", "" },
		"damaged":   func(p *fsmpb.QueuePolicy) { p.Sealed.Data[30]++ },
		"cut":       func(p *fsmpb.QueuePolicy) { p.Sealed.Data = p.Sealed.Data[:5] },
	} {
		moved := proto.CloneOf(sealed)
		change(moved)
		if opened, err := r.Open(moved); err == nil || !errors.Is(err, task.ErrNotProposed) {
			t.Errorf("%s: %v, %v", name, opened, err)
		}
	}
	var missing *MissingKeyError
	for _, other := range []*Ring{nil, ringOf(t, 2)} {
		if _, err := other.Open(sealed); !errors.As(err, &missing) || missing.Key != r.First() {
			t.Errorf("%v", err)
		}
	}
	if _, err := ringOf(t, 2).Seal(sealed, sealed); !errors.As(err, &missing) {
		t.Errorf("sealing what cannot be opened: %v", err)
	}
	if p, err := (*Ring)(nil).Seal(policy, nil); err != nil || p != policy {
		t.Errorf("without keys: %v, %v", p, err)
	}
}

// A pause, or another change that leaves the secrets alone, needs no key.
func TestChangeWithoutTheKey(t *testing.T) {
	sealed := mustSeal(t, ringOf(t, 1), policy, nil)
	paused := proto.CloneOf(sealed)
	paused.Paused = true
	kept, err := (*Ring)(nil).Seal(paused, sealed)
	if err != nil || !proto.Equal(kept.Sealed, sealed.Sealed) || !kept.Paused {
		t.Errorf("%v, %v", kept, err)
	}
}

func TestParse(t *testing.T) {
	secret := strings.TrimSpace(keyLine(7))
	for name, text := range map[string]string{
		"it has no key":  "# nothing\n",
		"line 1: is not": secret[:20],
		"line 2: is not": keyLine(1) + secret + "x",
		"line 3: the":    keyLine(7) + "\n" + keyLine(7),
		"line 17: more": func() (all string) {
			for i := range byte(MaxKeys + 1) {
				all += keyLine(i)
			}
			return all
		}(),
	} {
		_, err := Parse([]byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), name) || strings.Contains(err.Error(), secret[:10]) {
			t.Errorf("%v, want %s", err, name)
		}
	}
}

// A new file is taken while the node runs, and a faulty one is not.
func TestKeysFollowTheirFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		assert.NoError(t, os.WriteFile(path, []byte(text), mode))
		assert.NoError(t, os.Chmod(path, mode))
	}
	write(keyLine(1), 0o644)
	if _, err := OpenKeys(path, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "0644") {
		t.Errorf("a file that all may read: %v", err)
	}
	if k, err := OpenKeys("", nil); err != nil || k.Key() != "" || k.Ring().IDs() != nil {
		t.Errorf("%v, %v", k, err)
	}
	write(keyLine(1), 0o600)
	var logged bytes.Buffer
	k, err := OpenKeys(path, slog.New(slog.NewTextHandler(&logged, nil)))
	assert.NoError(t, err)
	looks := func(now bool, want []string) {
		t.Helper()
		k.look(now)
		assert.EqualSlices(t, k.Ring().IDs(), want)
	}
	one, both := ringOf(t, 1).IDs(), ringOf(t, 2, 1).IDs()
	write(keyLine(2)+keyLine(1), 0o600)
	looks(true, both)
	write("half a key", 0o600)
	looks(true, both)
	for range 3 {
		looks(false, both)
	}
	if text := logged.String(); strings.Count(text, "level=WARN") != 1 || strings.Contains(text, "half") {
		t.Error(text)
	}
	write(keyLine(1), 0o600)
	looks(false, both) // a copy may be under way
	looks(false, one)
}

// Run looks again and again, and at once when it is told to, until its context ends.
func TestRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	assert.NoError(t, os.WriteFile(path, []byte(keyLine(1)), 0o600))
	synctest.Test(t, func(t *testing.T) {
		k, err := OpenKeys(path, slog.New(slog.DiscardHandler))
		assert.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		again, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			k.Run(ctx, again)
		}()
		for i, wait := range []func(){
			func() { again <- struct{}{} },
			func() { time.Sleep(2*reload.Every + time.Second) },
		} {
			fill := byte(i + 2)
			assert.NoError(t, os.WriteFile(path, []byte(keyLine(fill)), 0o600))
			wait()
			synctest.Wait()
			assert.Equal(t, k.Key(), ringOf(t, fill).First(), "%d: the key", i)
		}
		cancel()
		<-ended
	})
}

// The metrics count queues by their key, and those that this node cannot open.
func TestCollector(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	assert.NoError(t, os.WriteFile(path, []byte(keyLine(1)), 0o600))
	keys, err := OpenKeys(path, slog.New(slog.DiscardHandler))
	assert.NoError(t, err)
	one, two := ringOf(t, 1), ringOf(t, 2)
	policies := []*fsmpb.QueuePolicy{
		mustSeal(t, one, policy, nil), mustSeal(t, two, policy, nil), mustSeal(t, two, policy, nil), policy, {Queue: "plain"},
	}
	want := `# HELP belfry_sealed_queues Queues with secrets in their policy, by the id of the cluster key that ` +
		`seals them; empty: in the clear.
# TYPE belfry_sealed_queues gauge
belfry_sealed_queues{key=""} 1
belfry_sealed_queues{key="` + one.First() + `"} 1
belfry_sealed_queues{key="` + two.First() + `"} 2
# HELP belfry_unopened_queues Queues whose secrets are sealed under a cluster key that this node does not have, ` +
		`by the id of the key.
# TYPE belfry_unopened_queues gauge
belfry_unopened_queues{key="` + two.First() + `"} 2
`
	c := Collector(keys, func() []*fsmpb.QueuePolicy { return policies })
	assert.Equal(t, testutil.CollectAndCompare(c, strings.NewReader(want)), nil)
}
