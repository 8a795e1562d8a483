// The tests of this file run in one goroutine, and take minutes under the race detector.

//go:build !race

package capacity

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup/logstore"
)

const start = 1_700_000_000_000

// sample is some thousand tasks of one size.
type sample struct {
	ids     []string
	payload int
}

const (
	sampled      = 20_000
	sampledSlots = 256
)

// idsOf returns numbers of this length as ids. They all hash to a few slots, so that these are as full as with
// millions.
func idsOf(length int) []string {
	var ids []string
	for i := 0; len(ids) < sampled; i++ {
		if id := fmt.Sprintf("%0*d", length, i); task.Slot("", id) < sampledSlots {
			ids = append(ids, id)
		}
	}
	return ids
}

func (s sample) schedule(i int, id string) *fsmpb.Command {
	delay := int64(48 * 3600 * 1000)
	return &fsmpb.Command{
		Id: id, Key: &fsmpb.Key{Hash: uint64(i) * 7919, Call: uint64(i) * 104729},
		Answer: fsmpb.Answer_ANSWER_TASK,
		Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{
			FireAtMs: start + delay, DelayMs: &delay, ReceivedAtMs: start,
			Spec: &fsmpb.Spec{
				Queue: "orders", Target: &fsmpb.Target{Url: "https://shop.example/close"},
				Payload: bytes.Repeat([]byte("x"), s.payload),
			},
		}},
	}
}

// settled returns the end of a webhook's attempt as its leader writes it into the log.
func (s sample) settled(g task.Grant) *fsmpb.Command {
	return &fsmpb.Command{
		Namespace: g.Namespace, Id: g.ID,
		Op: &fsmpb.Command_Settle{Settle: &fsmpb.Settle{
			Fence: g.Fence, Occurrence: g.Occurrence, Verdict: fsmpb.Verdict_VERDICT_DELIVERED, Node: "htkoal4an3srz5am",
			StartedAtMs: g.StartMs,
		}},
	}
}

func advance() *fsmpb.Command {
	return &fsmpb.Command{Op: &fsmpb.Command_Advance{Advance: &fsmpb.Advance{
		ToMs: start + 48*3600*1000, Max: 2048, Policy: policy(),
	}}}
}

func policy() *fsmpb.Policy {
	return &fsmpb.Policy{
		Window: sampled, AttemptTimeoutMs: 15_000, LeaseMarginMs: 5051, MaxAttempts: 10,
		KeepDoneMs: 600_000, TombstoneBytes: 1 << 40, HorizonMs: 51,
	}
}

// apply applies commands in entries, and returns their bytes in the log and the grants.
func apply(t *testing.T, m *fsm.Machine, commands []*fsmpb.Command) (logged int, grants []task.Grant) {
	t.Helper()
	const batch = 100
	for at := 0; at < len(commands); at += batch {
		entry := &fsmpb.Entry{Commands: commands[at:min(at+batch, len(commands))]}
		logged += proto.Size(entry)
		entry.Version, entry.AtMs = fsm.CommandVersion, start
		data, err := proto.Marshal(entry)
		assert.NoError(t, err)
		applied, err := m.Apply(data, true)
		assert.NoError(t, err)
		grants = append(grants, applied.Grants...)
	}
	return logged, grants
}

// counted holds the measured bytes of a sample's task.
type counted struct{ memory, log, snapshot, settle, tombstone float64 }

// pending returns the bytes of memory that a task takes until it is due.
func (s sample) pending(t *testing.T) float64 {
	t.Helper()
	m := fsm.New(1)
	var schedules []*fsmpb.Command
	for i, id := range s.ids {
		schedules = append(schedules, s.schedule(i, id))
	}
	empty := m.Counts().Bytes
	apply(t, m, schedules)
	return float64(m.Counts().Bytes-empty) / sampled
}

// life takes tasks to their ends.
func (s sample) life(t *testing.T) counted {
	t.Helper()
	m := fsm.New(1)
	var schedules, advances, settles []*fsmpb.Command
	for i, id := range s.ids {
		schedules = append(schedules, s.schedule(i, id))
	}
	per := func(n int) float64 { return float64(n) / sampled }
	var sizes counted
	empty := m.Counts().Bytes
	logged, _ := apply(t, m, schedules)
	sizes.log, sizes.memory = per(logged), per(int(m.Counts().Bytes-empty))
	sizes.snapshot = per(snapshotBytes(t, m))
	for range sampled/2048 + 1 {
		advances = append(advances, advance())
	}
	_, grants := apply(t, m, append([]*fsmpb.Command{{Op: &fsmpb.Command_Takeover{
		Takeover: &fsmpb.Takeover{Origin: 1, Policy: policy()},
	}}}, advances...))
	for _, g := range grants {
		settles = append(settles, s.settled(g))
	}
	logged, _ = apply(t, m, settles)
	if n := m.Counts().ByState[fsmpb.State_STATE_DELIVERED]; n != sampled {
		t.Fatalf("%d of %d were delivered", n, sampled)
	}
	sizes.settle, sizes.tombstone = per(logged), per(int(m.Counts().Bytes-empty))
	return sizes
}

func snapshotBytes(t *testing.T, m *fsm.Machine) int {
	t.Helper()
	s := m.Snapshot()
	defer s.Release()
	n, err := s.WriteTo(io.Discard)
	assert.NoError(t, err)
	return int(n)
}

// near compares a cost with the value that was measured just now.
func near(t *testing.T, c Costs, id costID, got, tolerance float64) {
	t.Helper()
	want := c.value(id)
	t.Logf("%-18s %8.1f   (counted %.1f)", c[id].Name, want, got)
	if math.Abs(got-want) > tolerance*want {
		t.Errorf("%s is %g %s in costs.go, and %.1f was counted just now: write that down there",
			c[id].Name, want, c[id].Unit, got)
	}
}

const tolerated = 0.1

func TestBytesOfTasks(t *testing.T) {
	t.Parallel()
	c := Measured()
	ids := idsOf(24)
	empty := sample{ids: ids}.life(t)
	near(t, c, scheduleLog, empty.log-24, tolerated)
	near(t, c, fireLog, empty.settle-24, tolerated)
	near(t, c, taskSnapshot, empty.snapshot-24, tolerated)
	near(t, c, tombstoneMemory, empty.tombstone, tolerated)
	long := sample{ids: idsOf(60)}.pending(t)
	near(t, c, longIDMemory, long-empty.memory-60*c.value(blobRounding), 0.8) // a slot's size is a step
	sizes, rounding := []int{40, 100, 200, 300, 450, 700, 1000, 1500, 2200}, 0.0
	for _, payload := range sizes {
		bytes := sample{ids: ids, payload: payload}.pending(t)
		rounding += (bytes - empty.memory) / float64(payload) / float64(len(sizes))
		if want := c.taskBytes(Workload{Payload: payload, ID: 24}); math.Abs(bytes-want) > tolerated*want {
			t.Errorf("with a payload of %d a task takes %.1f bytes, and %.1f by costs.go", payload, bytes, want)
		}
	}
	near(t, c, blobRounding, rounding, 0.05)
}

// labelled returns the bytes of memory, log and snapshot that a label of 17 bytes adds to a task. group tasks share
// each label. The tasks have many labels, so that the index is as full as with millions of tasks.
func (s sample) labelled(t *testing.T, group int) counted {
	t.Helper()
	labels := func(i int) (labels []*fsmpb.Label) {
		for n := range task.MaxLabels {
			labels = append(labels, &fsmpb.Label{Name: fmt.Sprintf("lab%02d", n), Value: fmt.Sprintf("%012d", i/group)})
		}
		return labels
	}
	with, without := s.scheduled(t, labels), s.scheduled(t, func(int) []*fsmpb.Label { return nil })
	return counted{
		memory:   (with.memory - without.memory) / task.MaxLabels,
		log:      (with.log - without.log) / task.MaxLabels,
		snapshot: (with.snapshot - without.snapshot) / task.MaxLabels,
	}
}

// scheduled returns the bytes of a pending task with labels. The table of shared parts is full before.
func (s sample) scheduled(t *testing.T, labels func(i int) []*fsmpb.Label) (bytes counted) {
	t.Helper()
	m := fsm.New(1)
	var earlier, schedules []*fsmpb.Command
	for i := range 1 << 14 {
		c := s.schedule(i, fmt.Sprintf("earlier-%d", i))
		c.GetSchedule().Spec.Labels = []*fsmpb.Label{{Name: "earlier", Value: fmt.Sprint(i)}}
		earlier = append(earlier, c)
	}
	apply(t, m, earlier)
	for i, id := range s.ids {
		schedules = append(schedules, s.schedule(i, id))
		schedules[i].GetSchedule().Spec.Labels = labels(i)
	}
	held, written := m.Counts().Bytes, snapshotBytes(t, m)
	logged, _ := apply(t, m, schedules)
	bytes.log, bytes.memory = float64(logged)/sampled, float64(m.Counts().Bytes-held)/sampled
	bytes.snapshot = float64(snapshotBytes(t, m)-written) / sampled
	return bytes
}

// TestBytesOfLabels measures labels that no two tasks share.
func TestBytesOfLabels(t *testing.T) {
	t.Parallel()
	c, s := Measured(), sample{ids: idsOf(24), payload: 100}
	unique, shared := s.labelled(t, 1), s.labelled(t, 100)
	t.Logf("a label that a hundred tasks have takes %.1f bytes a task", shared.memory)
	near(t, c, labelMemory, unique.memory, tolerated)
	near(t, c, labelBytes, unique.log, tolerated)
	near(t, c, labelBytes, unique.snapshot, tolerated)
	if shared.memory > unique.memory {
		t.Errorf("a shared label takes %.1f bytes, and one of its own %.1f", shared.memory, unique.memory)
	}
}

// TestBytesOfKeys measures a task with and without a key.
func TestBytesOfKeys(t *testing.T) {
	t.Parallel()
	m, without := fsm.New(1), fsm.New(1)
	s := sample{ids: idsOf(24)}
	var withKey, plain []*fsmpb.Command
	for i, id := range s.ids {
		withKey, plain = append(withKey, s.schedule(i, id)), append(plain, s.schedule(i, id))
		plain[i].Key = nil
	}
	empty := m.Counts().Bytes
	apply(t, m, withKey)
	apply(t, without, plain)
	c := Measured()
	near(t, c, taskMemory, float64(without.Counts().Bytes-empty)/sampled, tolerated)
	near(t, c, keyMemory, float64(m.Counts().Bytes-without.Counts().Bytes)/sampled, tolerated)
}

// appended returns the bytes that were appended to a log, by its metric.
func appended(t *testing.T, reg *prometheus.Registry) float64 {
	t.Helper()
	families, err := reg.Gather()
	assert.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "belfry_log_append_bytes_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal("the log does not count the bytes appended")
	return 0
}

// TestBytesOfEntries writes an entry to a log, and sends one.
func TestBytesOfEntries(t *testing.T) {
	t.Parallel()
	c := Measured()
	data, err := proto.Marshal(&fsmpb.Entry{
		Version: fsm.CommandVersion, AtMs: start, Commands: []*fsmpb.Command{advance()},
	})
	assert.NoError(t, err)
	reg := prometheus.NewRegistry()
	stores, err := logstore.Open(logstore.Config{
		Dir: t.TempDir(), Registerer: reg, Fatal: func(err error) { t.Error(err) },
	})
	assert.NoError(t, err)
	defer func() {
		assert.Equal(t, stores.Close(), nil)
	}()
	before := appended(t, reg)
	log := &raft.Log{Index: 1, Term: 1, Type: raft.LogCommand, Data: data, AppendedAt: time.UnixMilli(start)}
	assert.NoError(t, stores.Log().StoreLog(log))
	near(t, c, entryLog, appended(t, reg)-before, tolerated)
	near(t, c, entryNetwork, exchanged(t, &raft.AppendEntriesRequest{
		RPCHeader: header(), Term: 12, PrevLogEntry: 123456, PrevLogTerm: 12, LeaderCommitIndex: 123456,
		Entries: []*raft.Log{log},
	}), tolerated)
	near(t, c, beatNetwork, exchanged(t, &raft.AppendEntriesRequest{RPCHeader: header(), Term: 12}), tolerated)
}

func header() raft.RPCHeader {
	const node = "htkoal4an3srz5am"
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(node), Addr: []byte(node)}
}

// packetHead is the bytes that IPv4 and TCP with time stamps add to each packet. An exchange is two packets, and the
// answer's acknowledgement.
const packetHead = 20 + 32

// exchanged returns the bytes of a request of Raft and its answer on a network, both ways.
func exchanged(t *testing.T, request *raft.AppendEntriesRequest) float64 {
	t.Helper()
	conn := &countingConn{}
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err)
	quiet := raft.NetworkTransportConfig{Stream: tcp{listen, conn}, MaxPool: 1, Timeout: 10 * time.Second}
	transport := raft.NewNetworkTransportWithConfig(&quiet)
	defer transport.Close()
	go func() {
		for rpc := range transport.Consumer() {
			rpc.Respond(&raft.AppendEntriesResponse{RPCHeader: header(), Term: 12, LastLog: 123456, Success: true}, nil)
		}
	}()
	var answer raft.AppendEntriesResponse
	for range 2 { // the first one dials
		conn.bytes = 0
		assert.NoError(t, transport.AppendEntries("", raft.ServerAddress(listen.Addr().String()), request, &answer))
	}
	return float64(conn.bytes + 3*packetHead)
}

// tcp is a raft.StreamLayer.
type tcp struct {
	net.Listener
	conn *countingConn
}

func (t tcp) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	var err error
	t.conn.Conn, err = net.DialTimeout("tcp", string(address), timeout)
	return t.conn, err
}

// countingConn counts the bytes in both directions. One goroutine reads and writes it.
type countingConn struct {
	net.Conn
	bytes int
}

func (c *countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes += n
	return n, err
}

func (c *countingConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.bytes += n
	return n, err
}
