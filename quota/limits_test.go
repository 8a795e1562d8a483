package quota

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestCheck(t *testing.T) {
	for field, l := range map[string]Limits{
		"":                     {MaxPending: 1, SchedulesPerSecond: MinPerSecond, CallsPerSecond: MaxPerSecond, Weight: MaxWeight},
		"max_pending":          {MaxPending: MaxCount + 1},
		"max_bytes":            {MaxBytes: MaxCount + 1},
		"max_payload":          {MaxPayload: MaxCount + 1},
		"max_consumers":        {MaxConsumers: MaxCount + 1},
		"max_queues":           {MaxQueues: MaxCount + 1},
		"schedules_per_second": {SchedulesPerSecond: -1},
		"calls_per_second":     {CallsPerSecond: MaxPerSecond * 2},
		"weight":               {Weight: MaxWeight + 1},
	} {
		err := l.Check()
		var wrong *LimitError
		if field == "" && err != nil || field != "" && (!errors.As(err, &wrong) || wrong.Field != field || wrong.Limit == "") {
			t.Errorf("%q: %v", field, err)
		}
	}
}

func TestPayload(t *testing.T) {
	l := Limits{MaxPayload: 1000}
	if l.CheckPayload(Subject{}, 1000) != nil || (Limits{}).CheckPayload(Subject{}, 1<<40) != nil {
		t.Error("an allowed payload was refused")
	}
	var full *Exceeded
	if err := l.CheckPayload(Subject{Key: "k"}, 1001); !errors.As(err, &full) || full.RetryAfter != 0 || full.Used != 1001 {
		t.Errorf("%v", err)
	}
	if got := full.Error(); got != "max_payload: the key uses 1001 of 1000" {
		t.Error(got)
	}
}

// TestQueues checks that a namespace has no more queues than its limit: those that exist, and those admitted lately.
func TestQueues(t *testing.T) {
	synctest.Test(t, testQueues)
}

// listed are the shards with the queues of one namespace.
type listed struct {
	names []string
	lists int
}

func (l *listed) Queues(context.Context, string) ([]string, error) {
	l.lists++
	return l.names, nil
}

// counted counts the requests to a Registrar.
type counted struct {
	*Registrar
	asked int
}

func (c *counted) Admit(ctx context.Context, namespace, queue string, limit uint64) error {
	c.asked++
	return c.Registrar.Admit(ctx, namespace, queue, limit)
}

func testQueues(t *testing.T) {
	shards := &listed{names: []string{"a", "b"}}
	registrar := &counted{Registrar: NewRegistrar(shards)}
	roster := NewRoster(registrar)
	expect := func(queue string, admitted bool) {
		t.Helper()
		err := roster.Admit(t.Context(), "n", queue, 3)
		var full *Exceeded
		if admitted && err != nil || !admitted && (!errors.As(err, &full) || full.Used != 3 || full.Quota != MaxQueues) {
			t.Errorf("%s: %v", queue, err)
		}
	}
	expect("a", true)
	expect("c", true)
	expect("d", false)
	expect("b", true)
	expect("c", true)
	sleep(2 * time.Second)
	expect("d", false) // c is not listed yet, but admitted
	shards.names = []string{"a"}
	sleep(2 * time.Second)
	expect("d", true) // b is gone
	if registrar.asked != 6 || shards.lists != 3 {
		t.Errorf("%d requests, %d lists", registrar.asked, shards.lists)
	}
	sleep(2 * appears)
	expect("e", true)
	expect("f", true) // neither c nor d has appeared
	expect("g", false)
}

func ExampleLimits_CheckPayload() {
	l := Limits{MaxPayload: 64 << 10}
	fmt.Println(l.CheckPayload(Subject{Namespace: "orders"}, 100<<10))
	// Output: max_payload: the namespace uses 102400 of 65536
}
