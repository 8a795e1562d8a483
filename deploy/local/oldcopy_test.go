package local_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/child"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// TestOldCopyLosesNothing replaces the data of node 2 by an older copy. Between copy and replacement, nodes 2 and 3
// alone had acknowledged 60 tasks, with node 1 down. Without node 3 the cluster decides nothing. When node 3 is back,
// the cluster refuses the copy, and nodes 1 and 3 answer all 60 tasks.
func TestOldCopyLosesNothing(t *testing.T) {
	gated.Need(t, gated.Real)
	t.Parallel()
	r := withOldCopy(t, localtest.Build(t))
	r.awaitReason(1, "waits for node-2")
	for i := range 2 {
		if f, absent := r.found(i, oldTasks); f+absent > 0 {
			t.Errorf("node %d found %d tasks, and says of %d that they are not there", i, f, absent)
		}
	}
	r.awaitReason(1, "waits for node-2")
	r.start(2)
	r.awaitReason(1, "older copy", "has seen this node acknowledge")
	until(t, "the others find all", func() error {
		for _, i := range []int{0, 2} {
			if f, absent := r.found(i, oldTasks); f != oldTasks || absent > 0 {
				return fmt.Errorf("node %d found %d tasks, and says of %d that they are not there", i, f, absent)
			}
		}
		return nil
	})
	if log := child.LogTail(r.log(1)); strings.Count(log, "must not take part") != 1 || !strings.Contains(log, "level=ERROR") {
		t.Errorf("the log does not report the refusal exactly once, as an error:\n%s", log)
	}
}

// TestUncheckedCopyLosesTasks disables the check, and expects that the tasks are lost. It shows that the test above can
// fail.
func TestUncheckedCopyLosesTasks(t *testing.T) {
	gated.Need(t, gated.Real)
	t.Setenv("BELFRY_FLAW", "unchecked-copy")
	r := withOldCopy(t, localtest.Build(t, "chaos"))
	until(t, "acknowledged tasks are lost", func() error {
		if _, absent := r.found(0, oldTasks); absent != oldTasks {
			return fmt.Errorf("%d of %d", absent, oldTasks)
		}
		return nil
	})
}

const oldTasks = 60

// withOldCopy plays the story until the first node and the old copy of the second have started.
func withOldCopy(t *testing.T, binary string) *restarted {
	t.Helper()
	r := formed(t, binary)
	kept := t.TempDir()
	r.killNode(1)
	r.copyTo(r.dirs[1], kept)
	r.killNode(0)
	r.start(1)
	until(t, "the two others are ready", func() error {
		if !r.isReady(1) || !r.isReady(2) {
			return errors.New("not yet")
		}
		return nil
	})
	node := dial(t, "http://"+r.http[1], "http://"+r.http[2])
	for i := range oldTasks {
		_, err := node.Schedule(t.Context(), client.Task{ID: fmt.Sprint("old-", i), Delay: time.Hour})
		assert.NoError(t, err)
	}
	r.killNode(1)
	r.killNode(2)
	r.copyTo(kept, r.dirs[1])
	r.start(0)
	r.start(1)
	return r
}

func (r *restarted) killNode(i int) {
	r.t.Helper()
	assert.NoError(r.t, r.nodes[i].SignalGroup(syscall.SIGKILL))
	<-r.nodes[i].Done()
	r.nodes[i] = nil
}

// copyTo replaces the folder to with a copy of the folder from.
func (r *restarted) copyTo(from, to string) {
	r.t.Helper()
	assert.NoError(r.t, errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from))))
}

// awaitReason waits until a node answers 503 with these words, at /readyz and to a call.
func (r *restarted) awaitReason(i int, words ...string) {
	r.t.Helper()
	for _, path := range []string{"/readyz", "/v1/tasks/old-1"} {
		until(r.t, "the node says why it takes no part", func() error {
			resp, err := http.Get("http://" + r.http[i] + path)
			if err != nil {
				return err
			}
			defer func() { _ = resp.Body.Close() }() // the body was read
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				return err
			}
			for _, w := range words {
				if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), w) {
					return fmt.Errorf("%s: %d %s", path, resp.StatusCode, body)
				}
			}
			return nil
		})
	}
}

// found asks a node for the tasks. It counts the tasks that the node finds, and those that it reports missing (absent).
func (r *restarted) found(i, tasks int) (found, absent int) {
	r.t.Helper()
	for id := range tasks {
		req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet,
			fmt.Sprintf("http://%s/v1/tasks/old-%d", r.http[i], id), nil)
		assert.NoError(r.t, err)
		req.Header.Set("Belfry-Timeout", "500ms")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			continue
		}
		_ = resp.Body.Close() // the body is not needed
		switch resp.StatusCode {
		case http.StatusOK:
			found++
		case http.StatusNotFound:
			absent++
		default:
			if found+absent == 0 && id >= 5 {
				return 0, 0 // no shard has a leader
			}
		}
	}
	return found, absent
}
