package cluster_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/doctor"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/cluster/seal"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// attempts keeps the attempts that it gets, by task id.
type attempts struct {
	mu  sync.Mutex
	got map[string]task.Attempt
}

func (a *attempts) Deliver(_ context.Context, one task.Attempt) task.Outcome {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.got[one.Task.Id] = one
	return task.Outcome{Delivered: true}
}

func (a *attempts) DeliverBatch(ctx context.Context, all []task.Attempt) []task.Outcome {
	var outcomes []task.Outcome
	for _, one := range all {
		outcomes = append(outcomes, a.Deliver(ctx, one))
	}
	return outcomes
}

func (a *attempts) of(id string) (task.Attempt, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one, ok := a.got[id]
	return one, ok
}

// keyFile returns cluster keys of a file with a key for each byte.
func keyFile(t *testing.T, fills ...byte) *seal.Keys {
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

const (
	canarySecret = "canary-signing-key-of-32-bytes!!"
	canaryHeader = "Bearer canary-token"
)

// TestSealedSecrets takes one node through the life of a key: secrets in the clear, a key, no key, and another key.
func TestSealedSecrets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var keys *seal.Keys
		got := &attempts{got: map[string]task.Attempt{}}
		c := clustertest.New(t, 1, func(_ int, cfg *cluster.Config) {
			cfg.Deliver, cfg.Secrets, cfg.Build = got, keys, "v1.0.0"
			cfg.API = auditOf{fault: errors.New("no space left on device")}
		})
		restart := func(with *seal.Keys) {
			t.Helper()
			c.Stop(0)
			keys = with
			c.Start(0)
			c.WaitReady()
		}
		first, second := keyFile(t, 1), keyFile(t, 2, 1)
		policy := &fsmpb.QueuePolicy{
			Queue: "q", Secrets: [][]byte{[]byte(canarySecret)}, Target: &fsmpb.Target{
				Url: "http://127.0.0.1:1/", Headers: []*fsmpb.Header{{Name: "authorization", Value: canaryHeader}},
			},
		}
		mustPut(t, c.Node(0), policy)
		awaitFinding(t, c, doctor.SecretsPlain)
		awaitFinding(t, c, doctor.AuditFailing)

		restart(first)
		awaitSealed(t, c, first.Key())
		everywhere(t, c, 1, "q", policy)
		sendSigned(t, c, got, "with-the-key")
		other := proto.CloneOf(policy)
		other.Queue = "never-in-the-clear"
		mustPut(t, c.Node(0), other)
		showsNoCanary(t, c.DataDir(0), "never-in-the-clear")

		restart(nil)
		mustDo(t, c.Node(0), toQueue("without-the-key"))
		c.Until("the task waits", func() error {
			stored, err := c.Node(0).Get(t.Context(), "", "without-the-key", false)
			if err != nil || stored.State != fsmpb.State_STATE_RETRYING || !strings.Contains(stored.LastError, first.Key()) {
				return fmt.Errorf("%v, %w", stored, err)
			}
			return nil
		})
		if one, ok := got.of("without-the-key"); ok {
			t.Errorf("sent without its signature: %v", one)
		}
		awaitFinding(t, c, doctor.ClusterKeyMissing)
		_, err := c.Node(0).Policies().PutQueue(t.Context(), policy)
		assert.ErrorIs(t, err, task.ErrNotProposed, "stored in the clear")
		if _, err := c.Node(0).Policies().UpdateQueue(t.Context(), "", "q", func(p *fsmpb.QueuePolicy) (*fsmpb.QueuePolicy, error) {
			p = proto.CloneOf(p)
			p.MaxInFlight = 7
			return p, nil
		}); err != nil {
			t.Errorf("a change of a limit needs the key: %v", err)
		}
		policy.MaxInFlight = 7

		restart(second)
		awaitSealed(t, c, second.Key())
		everywhere(t, c, 1, "q", policy)
		sendSigned(t, c, got, "with-another-key")
		awaitFinding(t, c, doctor.ClusterKeyIdle)
	})
}

func toQueue(id string) *fsmpb.Command {
	cmd := schedule(id, 0)
	cmd.GetSchedule().Spec.Queue, cmd.GetSchedule().Spec.Target = "q", nil
	return cmd
}

// sendSigned checks that a task is sent with the queue's secrets.
func sendSigned(t *testing.T, c *clustertest.Cluster, got *attempts, id string) {
	t.Helper()
	mustDo(t, c.Node(0), toQueue(id))
	c.Until("the task is sent", func() error {
		if _, ok := got.of(id); !ok {
			return errors.New("not yet")
		}
		return nil
	})
	one, _ := got.of(id)
	headers := one.Task.Spec.Target.Headers
	if len(one.Secrets) != 1 || string(one.Secrets[0]) != canarySecret || headers[0].Value != canaryHeader {
		t.Errorf("%s: %v", id, one)
	}
}

// awaitSealed waits until the policies are sealed under a key.
func awaitSealed(t *testing.T, c *clustertest.Cluster, key string) {
	t.Helper()
	c.Until("the secrets are sealed under key "+key, func() error {
		s := c.Node(0).Secrets()
		if s.Plain > 0 || s.Key != key || len(s.Sealed) != 1 || s.Sealed[key] == 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

func awaitFinding(t *testing.T, c *clustertest.Cluster, code doctor.Code) {
	t.Helper()
	c.Until("the doctor finds "+code, func() error {
		found := c.Node(0).Doctor(t.Context())
		if !slices.ContainsFunc(found, func(f doctor.Finding) bool { return f.Code == code }) {
			return fmt.Errorf("%+v", found)
		}
		return nil
	})
}

// showsNoCanary checks that no file of a folder has a secret near the name of a queue whose secrets were never stored
// in the clear.
func showsNoCanary(t *testing.T, dir, queue string) {
	t.Helper()
	seen := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the node has replaced or removed it meanwhile
		}
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		for {
			_, rest, found := bytes.Cut(data, []byte(queue))
			if !found {
				return err
			}
			seen++
			if near := rest[:min(len(rest), 512)]; bytes.Contains(near, []byte("canary")) {
				t.Errorf("%s: %q", path, near)
			}
			data = rest
		}
	})
	if err != nil || seen == 0 {
		t.Errorf("%d places seen, %v", seen, err)
	}
}
