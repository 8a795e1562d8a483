package demo

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/deploy/receiver"
	"github.com/belfryhq/belfry/internal/assert"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// played returns a tally of four acknowledged tasks, due from noon on at intervals of a second.
func played() *tally {
	t := newTally("demo-x-", 4, func(receiver.Arrival) {})
	t.plan(noon, 4*time.Second)
	for i := range 4 {
		t.acknowledge(i)
	}
	return t
}

func arrive(t *tally, id, webhookID string, at time.Duration) {
	t.arrive(receiver.Arrival{TaskID: id, WebhookID: webhookID, At: noon.Add(at)})
}

// calm is a failover long before the tasks.
var calm = failover{victim: "node-1", killed: noon.Add(-time.Hour), over: noon.Add(-time.Hour + time.Second)}

func TestVerdicts(t *testing.T) {
	all := func(t *tally) {
		arrive(t, "demo-x-0", "a", time.Millisecond)
		arrive(t, "demo-x-1", "b", time.Second)
		arrive(t, "demo-x-2", "c", 2*time.Second+3*time.Millisecond)
		arrive(t, "demo-x-3", "d", 3*time.Second)
	}
	tests := []struct {
		name  string
		play  func(t *tally)
		ok    bool
		words string
	}{
		{"all", all, true, "nothing lost, nothing early"},
		{"repeat", func(t *tally) { all(t); arrive(t, "demo-x-1", "b", 5*time.Second) }, true, "nothing lost, nothing early"},
		{"strangers", func(t *tally) { all(t); arrive(t, "demo-y-1", "b", 0); arrive(t, "demo-x-4", "b", 0) }, true,
			"nothing lost, nothing early"},
		{"none", func(*tally) {}, false, "FAILED: nothing was delivered"},
		{"lost", func(t *tally) { arrive(t, "demo-x-0", "a", 0) }, false, "FAILED: 3 lost"},
		{"early repeat", func(t *tally) { all(t); arrive(t, "demo-x-3", "d", 3*time.Second-1) }, false, "FAILED: 1 early"},
		{"altered", func(t *tally) { all(t); arrive(t, "demo-x-3", "e", 4*time.Second) }, false, "FAILED: 1 altered"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tally := played()
			tt.play(tally)
			v := judge(tally.snapshot(), calm)
			if v.OK() != tt.ok || v.words() != tt.words {
				t.Errorf("%v: %s, from %+v", v.OK(), v.words(), v)
			}
		})
	}
}

func TestCompleteOnceAllArrived(t *testing.T) {
	tally := newTally("x-", 2, nil)
	tally.plan(noon, time.Second)
	assert.Equal(t, tally.arrive(receiver.Arrival{TaskID: "x-0", At: noon}), http.StatusOK, "answered")
	tally.acknowledge(0) // after its arrival
	tally.acknowledge(1)
	select {
	case <-tally.complete:
		t.Fatal("complete with one of two")
	default:
	}
	arrive(tally, "x-1", "", time.Second)
	<-tally.complete
	p := tally.progress(noon.Add(499 * time.Millisecond))
	if p.due != 1 || p.acked != 2 || p.delivered != 2 || p.worst != 500*time.Millisecond {
		t.Errorf("%+v", p)
	}
}

func TestWindow(t *testing.T) {
	tally := played()
	for i, id := range []string{"demo-x-0", "demo-x-1", "demo-x-2", "demo-x-3"} {
		arrive(tally, id, "w", time.Duration(i)*time.Second+time.Duration(i+1)*100*time.Millisecond)
	}
	v := judge(tally.snapshot(), failover{
		victim: "node-2", shards: 4,
		killed: noon.Add(time.Second + 40*time.Millisecond), over: noon.Add(1800 * time.Millisecond),
	})
	if v.Window.Tasks != 2 || v.Calm.Tasks != 2 || v.All.Tasks != 4 {
		t.Fatalf("%+v", v)
	}
	if v.Window.Max != 300*time.Millisecond || v.Calm.P50 != 100*time.Millisecond || v.Calm.P99 != 400*time.Millisecond {
		t.Errorf("%+v", v)
	}
	assert.Equal(t, v.Failover, 760*time.Millisecond, "failover")
}

func TestReport(t *testing.T) {
	tally := played()
	arrive(tally, "demo-x-0", "a", 600*time.Microsecond)
	arrive(tally, "demo-x-1", "b", time.Second+700*time.Microsecond)
	arrive(tally, "demo-x-2", "c", 2*time.Second+410*time.Millisecond)
	arrive(tally, "demo-x-3", "d", 3*time.Second+1100*time.Microsecond)
	v := judge(tally.snapshot(), failover{
		victim: "node-2", shards: 4, killed: noon.Add(1900 * time.Millisecond), over: noon.Add(2300 * time.Millisecond),
	})
	var out bytes.Buffer
	assert.NoError(t, v.write(&out))
	for _, want := range []string{
		"lost             0\n", "failover     400ms   from kill -9 of node-2 until its 4 shards",
		"outside the failover           3     0.7 ms     1.1 ms     1.1 ms\n",
		"     under 1ms       2  " + strings.Repeat("█", barWidth) + "\n",
		"   under 500ms       1  " + strings.Repeat("░", barWidth/2) + "\n",
		"verdict    nothing lost, nothing early\n",
	} {
		assert.Contains(t, out.String(), want)
	}
	if strings.Contains(out.String(), "under 1s") {
		t.Error("empty bars at the end")
	}
}

func TestScreen(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, live: true}
	s.update("one")
	s.say("stays")
	s.clear()
	got, want := out.String(), "\r\x1b[K  one\r\x1b[K  stays\n  one\r\x1b[K"
	assert.Equal(t, got, want)
	out.Reset()
	s.live = false
	s.update("one")
	s.clear()
	assert.Equal(t, out.String(), "  one\n")
}
