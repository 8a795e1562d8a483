package top

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
)

var update = flag.Bool("update", false, "write the pages of testdata anew")

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// TestMain sets the machine's zone, whose time the pages show.
func TestMain(m *testing.M) {
	time.Local = time.FixedZone("CET", 3600)
	os.Exit(m.Run())
}

// fake is an API whose answers a test sets.
type fake struct {
	cluster  client.Cluster
	wheel    client.Wheel
	activity client.Activity
	queues   []client.Queue
	err      error // of all calls
	begun    func()
}

func (f *fake) Cluster(context.Context) (*client.Cluster, error) {
	if f.begun != nil {
		f.begun()
	}
	return &f.cluster, f.err
}

func (f *fake) Wheel(context.Context, int) (*client.Wheel, error) { return &f.wheel, f.err }

func (f *fake) Activity(context.Context, int, time.Duration) (*client.Activity, error) {
	return &f.activity, f.err
}

func (f *fake) Queues(context.Context) iter.Seq2[*client.Queue, error] {
	return func(yield func(*client.Queue, error) bool) {
		if f.err != nil {
			yield(nil, f.err)
			return
		}
		for i := range f.queues {
			if !yield(&f.queues[i], nil) {
				return
			}
		}
	}
}

// threeNodes is a cluster of three nodes with four shards, and queues in all kinds of trouble.
func threeNodes() *fake {
	f := &fake{cluster: client.Cluster{ID: "abc", Replication: client.ReplicaCounts{Wanted: 3, Fewest: 3}}}
	for i, name := range []string{"node-1", "node-2", "node-3"} {
		f.cluster.Nodes = append(f.cluster.Nodes, client.Node{ID: fmt.Sprint("id", i), Name: name, Alive: true, Order: "work",
			ClockOffsetMs: float64(i) / 2, DiskFree: 3 << 30, Replicas: 4})
	}
	for id := range uint32(4) {
		s := client.Shard{ID: id + 1, Leader: fmt.Sprint("id", id%3), Tasks: 10}
		for i := range 3 {
			s.Replicas = append(s.Replicas, client.Replica{Node: fmt.Sprint("id", i), State: "follower", Voter: true,
				Applied: uint64(1000 - 7*i)})
		}
		f.cluster.Shards = append(f.cluster.Shards, s)
	}
	f.wheel = client.Wheel{
		Now: client.Instant{Time: noon}, Waiting: 1234567,
		DueWithin: client.DueWithin{Second: 12, Minute: 340, Hour: 98765},
	}
	before := func(by time.Duration) client.Instant { return client.Instant{Time: noon.Add(-by)} }
	f.activity = client.Activity{StepMs: 5000, LateWithinMs: []int64{1, 2, 5}, Steps: []client.ActivityStep{
		{At: before(30 * time.Second), Fired: 1000, Late: []uint64{90, 6, 0, 1}},
		{At: before(10 * time.Second), Scheduled: 500, Fired: 40, Delivered: 39, Failed: 1, Late: []uint64{1, 1, 0, 1}},
		{At: before(5 * time.Second), Scheduled: 700, Fired: 5},
		{At: before(0), Fired: 9}, // it has not ended
	}}
	overdue := noon.Add(-95 * time.Second)
	f.queues = []client.Queue{
		{Name: "calm", Counts: &client.QueueCounts{Scheduled: 100000}},
		{Name: "dead", Counts: &client.QueueCounts{Scheduled: 1, Dead: 7}},
		{Name: "late", Paused: true, Counts: &client.QueueCounts{Ready: 3, OldestOverdue: &overdue}},
		{Name: "evil\x1b]0;owned\a\u202e", Counts: &client.QueueCounts{Leased: 2, Firing: 1, Retrying: 4}},
	}
	return f
}

// screen is a Screen of a size that has seen the given rounds of a fake, a second apart.
func screen(t *testing.T, width, height int, rounds ...*fake) *Screen {
	t.Helper()
	s := &Screen{ctx: t.Context(), addrs: "a:1,b:2", every: time.Second}
	s.Update(tea.WindowSizeMsg{Width: width, Height: height})
	for i, api := range rounds {
		round(s, api, noon.Add(time.Duration(i)*time.Second))
	}
	return s
}

// round plays a tick and its answers.
func round(s *Screen, api *fake, at time.Time) {
	s.api = api
	s.now = at
	for _, cmd := range s.round() {
		a := cmd().(answer)
		a.at = at
		s.Update(a)
	}
}

func press(s *Screen, keys ...string) (quit bool) {
	for _, key := range keys {
		msg := tea.KeyPressMsg{Text: key}
		switch key {
		case "down":
			msg = tea.KeyPressMsg{Code: tea.KeyDown}
		case "ctrl+c":
			msg = tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
		}
		if _, cmd := s.Update(msg); cmd != nil {
			_, quit = cmd().(tea.QuitMsg)
		}
	}
	return quit
}

func text(s *Screen) string { return strings.Join(s.lines(false), "\n") }

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		assert.NoError(t, os.WriteFile(file, []byte(got+"\n"), 0o644))
	}
	want, err := os.ReadFile(file)
	assert.NoError(t, err)
	assert.Equal(t, got+"\n", string(want), "%s: -update writes it anew\n%s\nwant:\n%s", name, got, want)
}

// The pages of a healthy cluster, of one with a node down and a move, and of one that answers no more.
func TestPages(t *testing.T) {
	healthy := threeNodes()
	grown := threeNodes()
	grown.queues[0].Counts = &client.QueueCounts{Scheduled: 100250}
	golden(t, "healthy.txt", text(screen(t, 80, 24, healthy, grown)))

	wounded := threeNodes()
	away := client.Instant{Time: noon.Add(-12 * time.Second)}
	wounded.cluster.Nodes[0].Alive, wounded.cluster.Nodes[0].AwaySince = false, &away
	wounded.cluster.Nodes[2].DiskLow, wounded.cluster.Nodes[2].Order = true, "drain"
	wounded.cluster.Shards[0].Leader = ""
	wounded.cluster.Shards[1].Step, wounded.cluster.Shards[1].Waits = "join", "node-1 is down"
	wounded.cluster.Operations = []client.Operation{
		{Kind: client.Drain, NodeName: "node-3", State: client.OperationRunning, Percent: 25, Waits: []string{"node-1 is down"}},
		{Kind: client.Drain, NodeName: "old", State: client.OperationDone},
	}
	wounded.wheel.Missing = []uint32{1}
	golden(t, "wounded.txt", text(screen(t, 120, 30, wounded)))

	refused := &net.OpError{Op: "dial", Err: errors.New("connect: connection refused"), Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 8400}}
	s := screen(t, 80, 24, healthy)
	round(s, &fake{err: fmt.Errorf("GET /v1/cluster: %w", refused)}, noon.Add(75*time.Second))
	golden(t, "stale.txt", text(s))
}

// A page never has a line beyond the terminal, nor more lines than it, whatever the size.
func TestPagesFit(t *testing.T) {
	api := threeNodes()
	for i := range 40 {
		api.queues = append(api.queues, client.Queue{Name: fmt.Sprintf("queue-%02d-時鐘", i)})
	}
	for i := range 20 {
		api.cluster.Nodes = append(api.cluster.Nodes, client.Node{ID: fmt.Sprint("x", i), Name: strings.Repeat("n", i)})
		api.cluster.SlotMoves = append(api.cluster.SlotMoves, client.SlotMove{Waits: strings.Repeat("why ", 50)})
	}
	s := screen(t, 80, 24, api)
	for _, size := range [][2]int{{80, 24}, {200, 60}, {40, 10}, {20, 24}, {1, 1}, {80, 2}} {
		s.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		for range 2 { // the page, and its help
			lines := s.lines(true)
			if len(lines) > size[1] {
				t.Errorf("%v: %d lines", size, len(lines))
			}
			for _, line := range lines {
				if n := ansi.StringWidth(line); n > size[0] {
					t.Errorf("%v: a line of %d columns: %q", size, n, line)
				}
			}
			press(s, "?")
		}
	}
}

// No text of the cluster reaches the terminal with a control character.
func TestTextIsSanitised(t *testing.T) {
	const evil = "a\x1b[2J\x9b1m\u202e\u200b\xff\r\nb"
	api := threeNodes()
	api.cluster.Nodes[0].Name, api.cluster.Nodes[1].Order, api.cluster.Waits = evil, evil, evil
	api.queues = []client.Queue{{Name: evil}}
	s := screen(t, 120, 30, api)
	round(s, &fake{err: errors.New(evil)}, noon)
	s.addrs = evil
	page := s.lines(false)
	for _, line := range page {
		assert.Equal(t, line, clean(line))
	}
	assert.Equal(t, clean(evil), "a·[2J·1m·····b")
}

// Keys quit, pause, sort, scroll and help. The mark stays at its queue when the order changes under it.
func TestKeys(t *testing.T) {
	api := threeNodes()
	s := screen(t, 80, 24, api)
	if press(s, "q") != true || press(s, "ctrl+c") != true {
		t.Error("q and ctrl-c do not quit")
	}
	if press(s, "?"); !strings.Contains(text(s), "OVERDUE        age of") {
		t.Errorf("no help:\n%s", text(s))
	}
	if press(s, "x"); strings.Contains(text(s), "Any key") {
		t.Error("a key does not close the help")
	}
	press(s, "j")
	if sum := s.summary(); sum.Queues[s.cursor(sum)].Name != "dead" {
		t.Errorf("marked %q", s.marked)
	}
	calmer := threeNodes()
	calmer.queues[1].Counts.Dead = 0
	round(s, calmer, noon.Add(time.Second))
	if sum := s.summary(); sum.Queues[s.cursor(sum)].Name != "dead" || s.cursor(sum) == 1 {
		t.Errorf("the mark is at %d of %+v", s.cursor(sum), sum.Queues)
	}
	press(s, "down", "down", "down", "down", "down", "k", "G", "g")
	sum := s.summary()
	assert.Equal(t, s.cursor(sum), 0, "g leads to")
	for _, first := range []string{"calm", "late", "dead", "calm", "calm"} { // waiting, ready, dead, change, name
		press(s, "s")
		round(s, api, noon.Add(2*time.Second))
		if got := s.summary().Queues[0].Name; got != first {
			t.Errorf("by %s: %q is first, want %q", orders[s.order].name, got, first)
		}
	}
	if press(s, "p"); len(s.round()) != 0 || !strings.Contains(text(s), "PAUSED") {
		t.Error("a paused screen reads")
	}
}

// A part that hangs is not read twice at once, and does not keep the others from being read.
func TestPartThatHangs(t *testing.T) {
	s := screen(t, 80, 24)
	s.api = threeNodes()
	cmds := s.round()
	if len(cmds) != numParts || len(s.round()) != 0 {
		t.Fatalf("%d reads begun", len(cmds))
	}
	for _, cmd := range cmds[1:] {
		s.Update(cmd())
	}
	assert.Equal(t, len(s.round()), numParts-1, "parts are read while one hangs")
}

// A plain page and JSON need at least one answer. JSON goes on when the cluster fails later.
func TestPlainPageAndJSON(t *testing.T) {
	var out strings.Builder
	c := Config{API: threeNodes(), Addrs: []string{"a:1"}, Every: time.Millisecond, Out: &out}
	if err := c.Once(t.Context()); err != nil || strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), "waiting 1,234,567") {
		t.Errorf("%v\n%q", err, out.String())
	}
	refused := errors.New("refused")
	c.API = &fake{err: refused}
	assert.ErrorIs(t, c.Once(t.Context()), refused)
	assert.ErrorIs(t, c.Values(t.Context(), false, json.NewEncoder(c.Out).Encode), refused)
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	api := threeNodes()
	api.cluster.Nodes[0].Alive = false
	c.API, c.Out = api, w
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(c.Values(ctx, false, json.NewEncoder(c.Out).Encode), w.Close()) }()
	lines := json.NewDecoder(r)
	for range 3 {
		var sum Summary
		assert.NoError(t, lines.Decode(&sum))
		if *sum.InCluster != 1234567 || *sum.Waiting != 100005 || *sum.Lateness.P50Ms != 1 || sum.Lateness.P99Ms != nil || sum.Lateness.MaxMs != nil ||
			len(sum.Queues) != 4 || sum.Queues[0].Name != "late" || sum.Nodes[0].Name != "node-1" {
			t.Errorf("%+v %+v", sum, sum.Lateness)
		}
	}
	cancel()
	go func() { _, _ = io.Copy(io.Discard, io.MultiReader(lines.Buffered(), r)) }()
	assert.Equal(t, <-ended, nil)
}

// watched is an output that tells when the alternate screen has opened.
type watched struct {
	mu     sync.Mutex
	text   strings.Builder
	opened chan struct{}
	once   sync.Once
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if strings.Contains(w.text.String(), ansi.SetModeAltScreenSaveCursor) {
		w.once.Do(func() { close(w.opened) })
	}
	return len(p), nil
}

// The terminal is put back when the context ends, as by a signal, and when the program panics.
func TestTerminalIsPutBack(t *testing.T) {
	for _, panics := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out := &watched{opened: make(chan struct{})}
		api := threeNodes()
		api.begun = func() {
			<-out.opened
			if panics {
				panic("a mistake of the test")
			}
			cancel()
		}
		r, w := io.Pipe()
		c := Config{API: api, Every: time.Millisecond, In: r, Out: out}
		err := c.Live(ctx, tea.WithWindowSize(80, 24), tea.WithEnvironment([]string{"TERM=xterm-256color"}))
		if errors.Is(err, tea.ErrProgramPanic) != panics || !panics && err != nil {
			t.Errorf("panics: %v: %v", panics, err)
		}
		_ = w.Close()
		screen := out.text.String()
		if open, closed := strings.LastIndex(screen, ansi.SetModeAltScreenSaveCursor),
			strings.LastIndex(screen, ansi.ResetModeAltScreenSaveCursor); closed < open {
			t.Errorf("panics: %v: the alternate screen stays open: %q", panics, screen)
		}
	}
}
