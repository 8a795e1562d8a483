package recovery_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/cluster/recovery"
	"github.com/belfryhq/belfry/cluster/tenants"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/quota"
)

// TestKeysAreRestored restores keys and namespaces with their quotas into fewer shards, and goes on with a deletion
// that was under way at the backup.
func TestKeysAreRestored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 1, func(_ int, cfg *cluster.Config) { cfg.Shards = 4 }) // the calm is 10 s
		n := c.Node(0)
		limits := quota.Limits{
			MaxPending: 5, MaxBytes: 1 << 20, MaxPayload: 1000, SchedulesPerSecond: 200.5, CallsPerSecond: 300, MaxConsumers: 7,
			MaxQueues: 3, Weight: 2,
		}
		for _, name := range []string{"shop", "old"} {
			_, _, err := n.Tenants().PutNamespace(t.Context(), name, limits)
			assert.NoError(t, err)
			task := schedule("a", "work", time.Hour)
			task.Namespace = name
			do(t, n, task)
		}
		spec := tenants.KeySpec{
			Name: "ci", Grants: []access.Grant{{Role: access.Schedule, Namespace: "shop"}},
			Limits: quota.Limits{CallsPerSecond: 40, MaxConsumers: 2},
		}
		text, made, err := n.Tenants().NewKey(t.Context(), spec)
		assert.NoError(t, err)
		op, err := n.Tenants().DeleteNamespace(t.Context(), "old")
		assert.NoError(t, err)
		data := backupOf(t, n)
		got, _ := n.Operations().Operation(op.Id)
		assert.MustEqual(t, got.EndedMs, 0, "the deletion ended before the backup was made")
		if bytes.Contains(data, []byte(text)) {
			t.Error("the backup has the text of a key")
		}

		restored, report := started(t, data, recovery.RestoreConfig{Shards: 2})
		assert.Equal(t, report.Keys, 1, "the report tells of N keys")
		n = restored.Node(0)
		authority, err := access.New(access.Config{Source: n.Tenants()})
		assert.NoError(t, err)
		caller, err := authority.Caller(t.Context(), access.Credentials{Authorization: "Bearer " + text})
		if err != nil || caller.ID != made.ID || caller.Namespace() != "shop" {
			t.Errorf("the key's caller: %+v, %v", caller, err)
		}
		if caller, err := authority.Caller(t.Context(), access.Credentials{}); err == nil {
			t.Errorf("without a key: %+v", caller)
		}
		if got, exists := n.Tenants().Namespace("shop"); !exists || got.State != "active" || quota.Limits(got.Quotas) != limits {
			t.Errorf("the namespace: %+v", got)
		}
		assert.Equal(t, n.Tenants().KeyLimits(made.ID), spec.Limits, "the quotas of the key")
		mustFill(t, n, 4)
		restored.Until("the deletion ends", func() error {
			if _, exists := n.Tenants().Namespace("old"); exists {
				return errors.New("it is there")
			}
			return nil
		})
		for name, want := range map[string]bool{"shop": true, "old": false} {
			found, err := n.Get(t.Context(), name, "a", false)
			if err != nil || (found.GetState() == fsmpb.State_STATE_SCHEDULED) != want {
				t.Errorf("the task in %s: %v, %v", name, found, err)
			}
		}
	})
}

// mustFill checks that the namespace shop takes new tasks up to the number room, and no more.
func mustFill(t *testing.T, n *cluster.Node, room int) {
	t.Helper()
	made := 0
	for i := range 3 * room {
		cmd := schedule(fmt.Sprint("more-", i), "work", time.Hour)
		cmd.Namespace = "shop"
		var full *quota.Exceeded
		switch err := n.Do(t.Context(), []*fsmpb.Command{cmd})[0].Err; {
		case err == nil:
			made++
		case !errors.As(err, &full) || full.Quota != quota.MaxPending:
			t.Fatal(err)
		}
	}
	assert.Equal(t, made, room, "tasks more")
}
