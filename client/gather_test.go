package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

const home = "a:1"

// alone returns a world of one node, and a client that uses only that node.
func alone(t *testing.T) (*world, *worldNode, *Client) {
	w := newWorld(t, home)
	return w, w.nodes[home], w.client(Config{Addrs: []string{home}, FixedAddrs: true})
}

// scheduleTogether schedules t0, t1, …, each for a caller of its own: the first in one request, the others in the next.
func scheduleTogether(t *testing.T, c *Client, node *worldNode, n int) {
	t.Helper()
	release := make(chan struct{})
	node.hold = release
	var callers sync.WaitGroup
	for task := range numbered(n) {
		callers.Go(func() {
			_, err := c.Schedule(t.Context(), task)
			assert.Equal(t, err, nil)
		})
		synctest.Wait()
	}
	close(release)
	callers.Wait()
}

// TestCallsAreGathered checks that all calls made during a request form the next one.
func TestCallsAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, node, c := alone(t)
		release := make(chan struct{})
		node.hold = release
		var callers sync.WaitGroup
		call := func(id string) {
			callers.Go(func() {
				got, err := c.Schedule(t.Context(), Task{ID: id, Delay: time.Hour})
				if want := (Change{ID: id, Created: true, Revision: 7}); err != nil || got != want {
					t.Errorf("%s: %+v %v", id, got, err)
				}
			})
			synctest.Wait()
		}
		call("first")
		for i := range 50 {
			call(fmt.Sprint("t", i))
		}
		if sent := w.sent(); len(sent) != 1 || sent[0].ids() != "first" {
			t.Fatalf("%d requests while the first is out", len(sent))
		}
		close(release)
		callers.Wait()
		sent := w.sent()
		if len(sent) != 2 || len(sent[1].lines) != 50 || sent[1].lines[49].ID != "t49" {
			t.Errorf("%d requests, the second with %q", len(sent), sent[1].ids())
		}
	})
}

// TestEachCallHasItsAnswer checks that every call gets the answer to its own line.
func TestEachCallHasItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, node, c := alone(t)
		node.answer = func(b *sentBatch, i int) string {
			return map[string]string{
				"new":  `{"id":"new","status":201,"revision":7}`,
				"old":  `{"id":"old","status":200,"revision":8,"previous":"scheduled"}`,
				"gone": `{"id":"gone","status":404,"problem":{"type":"urn:belfry:problem:task-not-found","title":"There is no such task.","status":404}}`,
				"late": `{"id":"late","status":200,"revision":9,"outcome":"stopped"}`,
			}[b.lines[i].ID]
		}
		if got, err := c.Schedule(t.Context(), Task{ID: "new"}); err != nil || !got.Created || got.Revision != 7 {
			t.Errorf("%+v %v", got, err)
		}
		if got, err := c.Schedule(t.Context(), Task{ID: "old"}); err != nil || got.Created || got.Previous != StateScheduled {
			t.Errorf("%+v %v", got, err)
		}
		if got, err := c.Cancel(t.Context(), "late"); err != nil || got != OutcomeStopped {
			t.Errorf("%s %v", got, err)
		}
		_, err := c.FireNow(t.Context(), "gone")
		if !errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnknown) ||
			err.Error() != "fire gone: 404 There is no such task." {
			t.Errorf("%v", err)
		}
		if got, err := c.Touch(t.Context(), "old", Touch{Delay: time.Second}); err != nil || got.Revision != 8 {
			t.Errorf("%+v %v", got, err)
		}
	})
}

// TestRequestsAreBounded checks that a request is bounded, and that the other lines wait for the next.
func TestRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, node, c := alone(t)
		release := make(chan struct{})
		node.hold = release
		var callers sync.WaitGroup
		payload := json.RawMessage(`"` + strings.Repeat("x", 200<<10) + `"`)
		call := func(task Task) {
			callers.Go(func() {
				_, err := c.Schedule(t.Context(), task)
				assert.Equal(t, err, nil)
			})
		}
		call(Task{ID: "first"})
		synctest.Wait()
		for i := range maxLines + 1 {
			call(Task{ID: fmt.Sprint("t", i)})
		}
		synctest.Wait()
		for i := range 4 {
			call(Task{ID: fmt.Sprint("large", i), Payload: payload})
		}
		synctest.Wait()
		close(release)
		callers.Wait()
		var lines []int
		for _, b := range w.sent() {
			lines = append(lines, len(b.lines))
			if len(b.text) > maxLineBytes+len(payload)+200 {
				t.Errorf("a request of %d bytes", len(b.text))
			}
		}
		assert.EqualSlices(t, lines, []int{1, maxLines, 4, 1}, "lines of the requests")
	})
}

// TestCallersLeave checks that the call of a caller who leaves before its line is sent certainly did not happen, and
// that the outcome is unknown after the sending.
func TestCallersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, node, c := alone(t)
		release := make(chan struct{})
		node.hold = release
		ctx, cancel := context.WithCancel(t.Context())
		outcome := func(id string) chan error {
			came := make(chan error, 1)
			go func() {
				_, err := c.Cancel(ctx, id)
				came <- err
			}()
			synctest.Wait()
			return came
		}
		sent, waiting := outcome("sent"), outcome("waiting")
		cancel()
		if err := <-sent; !errors.Is(err, ErrUnknown) || !errors.Is(err, context.Canceled) {
			t.Errorf("the sent call: %v", err)
		}
		if err := <-waiting; errors.Is(err, ErrUnknown) || !errors.Is(err, context.Canceled) {
			t.Errorf("the unsent call: %v", err)
		}
		if _, err := c.Cancel(ctx, "too late"); errors.Is(err, ErrUnknown) || !errors.Is(err, context.Canceled) {
			t.Errorf("the call with an ended context: %v", err)
		}
		close(release)
		synctest.Wait()
		got := w.sent()
		assert.Equal(t, len(got), 1, "requests")
	})
}

// TestGatheredCallEndsWithItsTime checks that a call ends at its timeout, and that its error names the earlier failure.
func TestGatheredCallEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, home)
		c := w.client(Config{Addrs: []string{home}, FixedAddrs: true, Timeout: 3 * time.Second})
		w.nodes[home].answer = func(b *sentBatch, i int) string {
			return `{"id":"a","status":503,"problem":{"status":503,"committed":"no"}}`
		}
		began := time.Now()
		_, err := c.FireNow(t.Context(), "a")
		var refusal *Error
		if !errors.As(err, &refusal) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnknown) {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took > 3*time.Second || took < 2*time.Second {
			t.Errorf("it took %v", took)
		}
		keys := map[string]bool{}
		for _, b := range w.sent() {
			keys[b.lines[0].Key] = true
		}
		assert.Equal(t, len(keys), 1, "keys for one call")

		w.change(func() { w.nodes[home].hold = make(chan struct{}) }) // for ever
		began = time.Now()
		_, err = c.FireNow(t.Context(), "a")
		if took := time.Since(began); took != 3*time.Second || !errors.Is(err, ErrUnknown) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// TestOnlyLinesInTroubleAreRepeated checks that only a request's lines with a transient failure are sent again.
func TestOnlyLinesInTroubleAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, node, c := alone(t)
		refused := map[string]bool{}
		node.answer = func(b *sentBatch, i int) string {
			l := b.lines[i]
			if l.ID == "t3" || l.ID == "t5" {
				if !refused[l.Key] {
					refused[l.Key] = true
					return fmt.Sprintf(`{"id":%q,"status":503,"problem":{"status":503,"committed":"no"}}`, l.ID)
				}
			}
			return created(i, l.ID)
		}
		scheduleTogether(t, c, node, 8)
		var again []string
		for _, b := range w.sent()[2:] {
			for _, l := range b.lines {
				again = append(again, l.ID)
				if !refused[l.Key] {
					t.Errorf("%s was sent under another key", l.ID)
				}
			}
		}
		slices.Sort(again)
		assert.EqualSlices(t, again, []string{"t3", "t5"}, "sent again")
	})
}

// TestLostRequestIsRepeatedElsewhere checks that a lost request is repeated at another address, without an error.
func TestLostRequestIsRepeatedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a:1", "b:1")
		c := w.client(Config{Addrs: []string{"a:1", "b:1"}, FixedAddrs: true})
		w.nodes["a:1"].down = errors.New("connection reset")
		_, err := c.Schedule(t.Context(), Task{ID: "x"})
		assert.NoError(t, err)
		_, err = c.Schedule(t.Context(), Task{ID: "y"})
		assert.NoError(t, err)
		sent := w.sent()
		if len(sent) != 3 || sent[0].text != sent[1].text || sent[1].host != "b:1" || sent[2].host != "b:1" {
			t.Errorf("%d requests: %+v", len(sent), sent)
		}
		w.change(func() { w.nodes["b:1"].down = errors.New("connection reset") })
		c2 := w.client(Config{Addrs: []string{"a:1", "b:1"}, FixedAddrs: true, MaxAttempts: 2})
		_, err = c2.Schedule(t.Context(), Task{ID: "z"})
		assert.ErrorIs(t, err, ErrUnknown, "lost twice")
	})
}

// TestRequestIsRefusedWhole checks that the refusal of a whole request refuses each of its lines.
func TestRequestIsRefusedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, node, c := alone(t)
		node.refuse = func(b *sentBatch) *http.Response {
			if len(w.batches) > 1 {
				return nil
			}
			resp := respond(429, `{"status":429}`)
			resp.Header.Set("Retry-After", "2")
			return resp
		}
		began := time.Now()
		if _, err := c.Cancel(t.Context(), "a"); err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		node.refuse = func(*sentBatch) *http.Response { return respond(415, `{"status":415,"detail":"no"}`) }
		if _, err := c.Cancel(t.Context(), "a"); err == nil || err.Error() != "cancel a: 415 no" {
			t.Errorf("%v", err)
		}
	})
}

// TestSomeCallsTravelAlone checks that a call that a line cannot carry, or that needs a larger answer, is a request of
// its own.
func TestSomeCallsTravelAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, c := alone(t)
		ctx := t.Context()
		broken := json.RawMessage("{\n}")
		var task Task
		for _, call := range []func() (Change, error){
			func() (Change, error) { return c.Schedule(ctx, Task{ID: "a", Payload: broken}) },
			func() (Change, error) { return c.Schedule(ctx, Task{ID: "a"}, ReturnTask(&task)) },
			func() (Change, error) { return c.Schedule(ctx, Task{}, WithKey("k")) },
			func() (Change, error) { return c.Touch(ctx, "a", Touch{OrSchedule: &Task{Payload: broken}}) },
			func() (Change, error) { return c.FireNow(ctx, "a", ReturnTask(&task)) },
		} {
			if got, err := call(); err != nil || got.Revision != 8 {
				t.Errorf("%+v %v", got, err)
			}
		}
		if task.ID != "alone" || len(w.sent()) != 0 || w.countRequests("") != 5 {
			t.Errorf("%+v, %d batches, %d other requests", task, len(w.sent()), w.countRequests(""))
		}
		if got, err := c.Schedule(ctx, Task{}); err != nil || len(got.ID) < 26 || len(w.sent()) != 1 {
			t.Errorf("without an id: %+v %v", got, err)
		}
	})
}

// TestUnsendableCalls checks that a call that cannot be encoded is not sent, and does not disturb the next call.
func TestUnsendableCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, c := alone(t)
		bad := Task{ID: "a", Payload: json.RawMessage(`{},"queue":"other"`)}
		_, err := c.Schedule(t.Context(), bad)
		if err == nil || errors.Is(err, ErrUnknown) {
			t.Errorf("%v", err)
		}
		if _, err := c.Touch(t.Context(), "a", Touch{OrSchedule: &bad}); err == nil {
			t.Error("a touch with a bad payload is sent")
		}
		if _, err := c.Schedule(t.Context(), Task{ID: "a", FireAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}); err == nil {
			t.Error("a year of five digits is sent")
		}
		if _, err := c.Schedule(t.Context(), Task{ID: "a"}); err != nil || len(w.sent()) != 1 {
			t.Errorf("%v, %d requests", err, len(w.sent()))
		}
	})
}

// TestTornAnswer checks that the lines answered before a break keep their results, and that the others are sent again.
func TestTornAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, node, c := alone(t)
		node.refuse = func(b *sentBatch) *http.Response {
			if len(w.batches) != 2 {
				return nil
			}
			return respond(200, created(0, b.lines[0].ID)+"\n"+`{"id":"`)
		}
		scheduleTogether(t, c, node, 4)
		again := map[string]int{}
		for _, b := range w.sent() {
			for _, l := range b.lines {
				again[l.ID]++
			}
		}
		assert.Equal(t, fmt.Sprint(again), "map[t0:1 t1:1 t2:2 t3:2]", "sent")
	})
}

// TestClose checks that no call waits and no goroutine runs after Close.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, node, c := alone(t)
		node.hold = make(chan struct{}) // for ever
		var callers sync.WaitGroup
		for i := range 3 {
			callers.Go(func() {
				_, err := c.Cancel(t.Context(), fmt.Sprint("t", i))
				if !errors.Is(err, errClosed) || errors.Is(err, ErrUnknown) != (i == 0) {
					t.Errorf("t%d: %v", i, err)
				}
			})
			synctest.Wait()
		}
		c.Close()
		callers.Wait()
		if _, err := c.Cancel(t.Context(), "later"); !errors.Is(err, errClosed) || errors.Is(err, ErrUnknown) {
			t.Errorf("%v", err)
		}
		c.Close()
	})
}
