package broker

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// received is one message as a consumer reads it.
type received struct {
	headers map[string]string
	payload []byte
}

// streamed is a broker that is killed and restarted during a stream of tasks.
type streamed struct {
	url     string
	restart func()            // kills the broker and starts it again
	read    func() []received // returns all its messages
	once    bool              // the broker drops repeats
	patient bool              // its client retries within an attempt
	ce      string            // the prefix of CloudEvents attributes
}

const (
	streamTasks   = 2000
	streamWorkers = 48
)

// stream publishes tasks as a shard's leader would, attempt after attempt until each is delivered, while the broker is
// killed and restarted. At the end every confirmed message must be there with its bytes unchanged, and repeats must be
// recognisable.
func stream(t *testing.T, p *Publisher, b streamed) {
	t.Helper()
	tasks := streamOf(b.url)
	var delivered, failed atomic.Int64
	third, restarted := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(restarted)
		<-third
		b.restart()
	}()
	work := make(chan *fsmpb.Task)
	var workers sync.WaitGroup
	for range streamWorkers {
		workers.Go(func() {
			for task := range work {
				failed.Add(deliverAtLast(t, p, task))
				if delivered.Add(1) == streamTasks/3 {
					close(third)
				}
			}
		})
	}
	for i, task := range tasks {
		if i == streamTasks*2/3 {
			<-restarted // so that some tasks come after the restart, however fast it is
		}
		work <- task
	}
	close(work)
	workers.Wait()
	if failed.Load() == 0 && !b.patient {
		t.Error("no attempt failed: the broker was not killed in mid-stream")
	}
	got := b.read()
	t.Logf("%d tasks, %d failed attempts, %d messages", len(tasks), failed.Load(), len(got))
	judge(t, b, tasks, got)
}

// streamOf returns tasks of every size up to the limit, with random bytes.
func streamOf(url string) []*fsmpb.Task {
	random := rand.New(rand.NewPCG(1, 2))
	tasks := make([]*fsmpb.Task, streamTasks)
	for i := range tasks {
		size := random.IntN(2000)
		switch i {
		case 0:
			size = 0
		case 1:
			size = task.MaxPayloadBytes
		}
		payload := make([]byte, size)
		for j := range payload {
			payload[j] = byte(random.Uint32())
		}
		tasks[i] = &fsmpb.Task{
			Id: fmt.Sprintf("task-%d", i), WebhookId: fmt.Sprintf("w-%d", i), FireAtMs: 1_700_000_000_000 + int64(i),
			Fence: uint64(1000 * i), Spec: &fsmpb.Spec{
				Queue: "orders", Payload: payload, ContentType: "application/octet-stream",
				Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
				Target:      &fsmpb.Target{Url: url, Headers: []*fsmpb.Header{{Name: "x-number", Value: strconv.Itoa(i)}}},
			},
		}
	}
	return tasks
}

// deliverAtLast delivers a task, and returns the number of failed attempts before.
func deliverAtLast(t *testing.T, p *Publisher, first *fsmpb.Task) (failed int64) {
	for {
		attempt := &fsmpb.Task{
			Id: first.Id, WebhookId: first.WebhookId, FireAtMs: first.FireAtMs, Spec: first.Spec,
			Attempts: uint32(failed) + 1, Fence: first.Fence + uint64(failed) + 1,
		}
		out := p.Deliver(t.Context(), task.Attempt{Task: attempt, Timeout: 5 * time.Second})
		switch {
		case out.Delivered:
			return failed
		case out.Permanent || out.Error == "" || failed > 2000:
			t.Errorf("%s: outcome %+v after %d failures", first.Id, out, failed)
			return failed
		}
		failed++
		select {
		case <-time.After(50 * time.Millisecond): // the backoff
		case <-t.Context().Done():
			return failed
		}
	}
}

func judge(t *testing.T, b streamed, tasks []*fsmpb.Task, got []received) {
	t.Helper()
	copies := map[string]int{}
	for _, r := range got {
		id := r.headers["webhook-id"]
		copies[id]++
		n, err := strconv.Atoi(strings.TrimPrefix(id, "w-"))
		if err != nil || n < 0 || n >= len(tasks) {
			t.Errorf("a message that was never sent: %v", r.headers)
			continue
		}
		judgeOne(t, b.ce, tasks[n], r)
	}
	repeats := 0
	for _, task := range tasks {
		if copies[task.WebhookId] == 0 {
			t.Errorf("%s was delivered and is not there", task.Id)
		}
		repeats += max(copies[task.WebhookId]-1, 0)
	}
	if b.once && repeats > 0 {
		t.Errorf("%d repeats", repeats)
	}
	t.Logf("%d repeats", repeats)
}

func judgeOne(t *testing.T, ce string, task *fsmpb.Task, r received) {
	t.Helper()
	if !bytes.Equal(r.payload, task.Spec.Payload) {
		t.Errorf("%s: the payload was changed", task.Id)
	}
	due := time.UnixMilli(task.FireAtMs).UTC().Format("2006-01-02T15:04:05.000Z")
	want := map[string]string{
		"webhook-id": task.WebhookId, ce + "specversion": "1.0", ce + "id": task.WebhookId,
		ce + "type": "belfry.task.fired", ce + "source": "/v1/queues/orders", ce + "subject": task.Id, ce + "time": due,
		"belfry-due": due, "content-type": "application/octet-stream", "traceparent": task.Spec.Traceparent,
		"x-number": task.Spec.Target.Headers[0].Value,
	}
	if len(task.Spec.Payload) == 0 {
		delete(want, "content-type")
	}
	for name, value := range want {
		assert.Equal(t, r.headers[name], value, "%s: %s", task.Id, name)
	}
	attempt, err := strconv.Atoi(r.headers["belfry-attempt"])
	if fence := fmt.Sprint(task.Fence + uint64(attempt)); err != nil || r.headers["belfry-fence"] != fence {
		t.Errorf("%s: attempt %q has fence %q", task.Id, r.headers["belfry-attempt"], r.headers["belfry-fence"])
	}
	assert.Equal(t, len(r.headers), len(want)+2, "%s: headers %v", task.Id, r.headers)
}
