package headroom

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/belfryhq/belfry/internal/assert"
)

// fake is a node with a limit of 2000 bytes.
type fake struct {
	Host
	tasks   Tasks
	heap    Heap
	machine Machine
	err     error
}

func (f *fake) Tasks() Tasks              { return f.tasks }
func (f *fake) Heap() Heap                { return f.heap }
func (f *fake) Machine() (Machine, error) { return f.machine, f.err }

func (f *fake) watch(out *strings.Builder) *Memory {
	return NewMemory(MemoryConfig{Limit: 2000, Node: f, Host: f, Logger: slog.New(slog.NewTextHandler(out, nil))})
}

var roomy = Machine{Total: 1 << 30, Available: 1 << 29}

// A node is full from three quarters of its limit on, until it uses a twentieth less.
func TestFull(t *testing.T) {
	var out strings.Builder
	f := &fake{machine: roomy, heap: Heap{Live: 500, Cycles: 1}, tasks: Tasks{Held: 100}}
	w := f.watch(&out) // 400 bytes are not tasks'
	for i, step := range []struct {
		tasks         Tasks
		full, changed bool
	}{
		{Tasks{Held: 1099}, false, false},
		{Tasks{Held: 1100}, true, true},
		{Tasks{Held: 1030}, true, false},
		{Tasks{Held: 1024}, false, true},
		{Tasks{Held: 1200, Free: 101}, false, false},
		{Tasks{Held: 1000, Coming: 100}, true, true},
		{Tasks{Held: 1000, Free: 200, Coming: 100}, false, true},
		{Tasks{Held: 1299, Free: 800}, false, false},
		{Tasks{Held: 1300, Free: 800}, true, true}, // the free room may not suit
		{Tasks{Held: 1214, Free: 800}, false, true},
	} {
		f.tasks = step.tasks
		if changed := w.look(); changed != step.changed || (w.Full() != "") != step.full {
			t.Errorf("step %d, %+v: changed %v, full %q", i, step.tasks, changed, w.Full())
		}
	}
	f.heap, f.tasks = Heap{Live: 1500, Cycles: 2}, Tasks{Held: 100}
	if w.look(); w.Full() != "2KiB" {
		t.Errorf("with 1400 bytes of others: full %q, which should name the limit", w.Full())
	}
	if n := strings.Count(out.String(), "level=ERROR"); n != 4 {
		t.Errorf("told %d times:\n%s", n, out.String())
	}
}

// Another process may use up the machine's memory.
func TestMachineIsShort(t *testing.T) {
	var out strings.Builder
	f := &fake{machine: Machine{Total: 1000, Available: 50}}
	w := f.watch(&out)
	for i, step := range []struct {
		available int64
		err       error
		full      bool
	}{
		{50, nil, false}, {49, nil, true}, {61, nil, true}, {100, errors.New("no answer"), true}, {62, nil, false},
		{10, errors.New("no answer"), false},
	} {
		f.machine.Available, f.err = step.available, step.err
		if w.look(); (w.Full() != "") != step.full {
			t.Errorf("step %d, %d left: full %q", i, step.available, w.Full())
		}
	}
}

func TestNoLimit(t *testing.T) {
	f := &fake{tasks: Tasks{Held: 1 << 40}, machine: Machine{Total: 1000}}
	w := NewMemory(MemoryConfig{Node: f, Host: f, Logger: slog.New(slog.DiscardHandler)})
	assert.Equal(t, w.Full(), "", "full")
}

// held is a node whose tasks hold the bytes in the channel.
type held chan int64

func (h held) Tasks() Tasks {
	now := <-h
	h <- now
	return Tasks{Held: now}
}

// Run calls changed once when the node becomes full, and once when it is so no longer.
func TestMemoryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		held, changes := make(held, 1), make(chan bool, 10)
		held <- 0
		registry := prometheus.NewRegistry()
		w := NewMemory(MemoryConfig{
			Limit: 2000, Node: held, Host: &fake{machine: roomy}, Logger: slog.New(slog.DiscardHandler),
			Registerer: registry,
		})
		go w.Run(ctx, func() { changes <- w.Full() != "" })
		for _, now := range []int64{1900, 100} {
			<-held
			held <- now
			assert.Equal(t, <-changes, now > 1000, "%d held: full", now)
			<-time.After(10 * memoryEvery)
		}
		cancel()
		synctest.Wait()
		if len(changes) > 0 {
			t.Errorf("told %d times more", len(changes))
		}
		want := `# HELP belfry_memory_held_bytes Memory in use, and the part of it that is free for further tasks.
# TYPE belfry_memory_held_bytes gauge
belfry_memory_held_bytes 100
`
		assert.Equal(t, testutil.GatherAndCompare(registry, strings.NewReader(want), "belfry_memory_held_bytes"), nil)
	})
}

func TestHeapOfProcess(t *testing.T) {
	if h := (System{}).Heap(); h.Live < 0 || h.Live > 1<<40 {
		t.Errorf("%+v", h)
	}
}

func TestLimits(t *testing.T) {
	for _, text := range []string{"much", "-1", "10MiB", "100%", "1"} {
		if l, err := ParseLimit(text); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %+v, %v", text, l, err)
		}
	}
	find := func(text string) Allowance {
		t.Helper()
		l, err := ParseLimit(text)
		assert.NoError(t, err)
		found, err := l.Find()
		if err != nil {
			t.Skip(err) // the system does not report its memory
		}
		return found
	}
	got := find("2GiB")
	assert.Equal(t, got.Bytes, 2<<30, "2GiB: %+v", got)
	got = find("0")
	assert.Equal(t, got.Bytes, 0, "0: %+v", got)
	before := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(before)
	half, all := find("50%"), find("")
	if ratio := float64(all.Bytes) / float64(half.Bytes); ratio < 1.49 || ratio > 1.51 {
		t.Errorf("half of the memory: %+v, by default: %+v", half, all)
	}
	if !strings.HasPrefix(all.From, "75% of the ") {
		t.Errorf("from %q", all.From)
	}
	debug.SetMemoryLimit(3 << 30)
	if got := find(""); got.Bytes != 3<<30 || got.From != "GOMEMLIMIT" {
		t.Errorf("with a limit of the runtime's: %+v", got)
	}
	assert.Equal(t, find("50%"), half, "a part, with a limit of the runtime's")
}
