//go:build unix

package peer

import (
	"bytes"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/cluster/internal/witness"
	"github.com/belfryhq/belfry/internal/assert"
)

// cpuTime returns the processor time of this process, for both sides of every exchange.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	assert.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ownConns opens a group's transport without the shared streams.
func ownConns(b *testing.B, e *Endpoint, number uint32) raft.Transport {
	g := &group{room: newRoom(nodeAddr(e.cfg.NodeID), e.cfg.MaxConns), endpoint: e, number: number, cluster: cluster}
	g.leave = func() { e.removeGroup(g) }
	e.mu.Lock()
	defer e.mu.Unlock()
	e.groups[number] = g
	tr := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: g, MaxPool: 3, Timeout: e.cfg.DialTimeout, Logger: hclog.NewNullLogger(),
	})
	b.Cleanup(func() { _ = tr.Close() })
	return tr
}

func shared(b *testing.B, e *Endpoint, number uint32) raft.Transport {
	tr, err := e.Raft(number, cluster, hclog.NewNullLogger())
	assert.NoError(b, err)
	b.Cleanup(func() { _ = tr.Close() })
	return tr
}

var transports = []struct {
	name string
	open func(*testing.B, *Endpoint, uint32) raft.Transport
}{{"own", ownConns}, {"shared", shared}}

// table opens the witness table of a node.
func table(b *testing.B, n int) *witness.Table {
	t, err := witness.Open(witness.Config{
		Dir: b.TempDir(), Node: nodeID(n), New: true, Fatal: func(err error) { b.Error(err) },
	})
	assert.NoError(b, err)
	b.Cleanup(func() { _ = t.Close() })
	return t
}

// pairs opens groups on two nodes; the second node answers.
func pairs(b *testing.B, groups int, open func(*testing.B, *Endpoint, uint32) raft.Transport) []raft.Transport {
	book := newBook()
	one := listen(b, book, 1, func(c *Config) { c.Records = table(b, 1) })
	two := listen(b, book, 2, func(c *Config) { c.Records = table(b, 2) })
	var from []raft.Transport
	for number := range uint32(groups) {
		from = append(from, open(b, one, number))
		to := open(b, two, number)
		go func() {
			for {
				select {
				case rpc := <-to.Consumer():
					rpc.Respond(&raft.AppendEntriesResponse{
						RPCHeader: header(2), Term: 1, LastLog: 1, Success: true,
					}, nil)
				case <-b.Context().Done():
					return
				}
			}
		}()
	}
	return from
}

func header(n int) raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: 3, ID: []byte(nodeID(n)), Addr: []byte(nodeID(n))}
}

// BenchmarkReplication sends one entry at a time for each group by a pipeline, as a shard that commits one by one does.
func BenchmarkReplication(b *testing.B) {
	for _, groups := range []int{1, 12} {
		for _, size := range []int{300, 64 << 10} {
			for _, tr := range transports {
				b.Run(fmt.Sprintf("groups=%d/bytes=%d/%s", groups, size, tr.name), func(b *testing.B) {
					replication(b, pairs(b, groups, tr.open), size)
				})
			}
		}
	}
}

func replication(b *testing.B, from []raft.Transport, size int) {
	id := nodeID(2)
	data := bytes.Repeat([]byte("x"), size)
	pipelines := make([]raft.AppendPipeline, len(from))
	for i, tr := range from {
		var err error
		pipelines[i], err = tr.AppendEntriesPipeline(raft.ServerID(id), raft.ServerAddress(id))
		assert.NoError(b, err)
		b.Cleanup(func() { _ = pipelines[i].Close() }) // no data can be lost
	}
	b.ReportAllocs()
	b.SetBytes(int64(size))
	before := cpuTime(b)
	b.ResetTimer()
	var wg sync.WaitGroup
	for i, p := range pipelines {
		n := b.N / len(pipelines)
		if i == 0 {
			n += b.N % len(pipelines)
		}
		wg.Go(func() { push(b, p, n, data) })
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

func push(b *testing.B, p raft.AppendPipeline, n int, data []byte) {
	for i := range uint64(n) {
		req := &raft.AppendEntriesRequest{
			RPCHeader: header(1), Term: 1, PrevLogEntry: i + 1, PrevLogTerm: 1,
			LeaderCommitIndex: i, Entries: []*raft.Log{{Index: i + 2, Term: 1, Data: data, AppendedAt: time.Now()}},
		}
		if _, err := p.AppendEntries(req, new(raft.AppendEntriesResponse)); err != nil {
			b.Error(err)
			return
		}
		if f := <-p.Consumer(); !f.Response().Success {
			b.Error("no success")
			return
		}
	}
}

// BenchmarkHeartbeats sends one heartbeat for each group at the same moment and then pauses, as an idle node does.
func BenchmarkHeartbeats(b *testing.B) {
	for _, groups := range []int{1, 4, 12} {
		for _, tr := range transports {
			b.Run(fmt.Sprintf("groups=%d/%s", groups, tr.name), func(b *testing.B) {
				heartbeats(b, pairs(b, groups, tr.open))
			})
		}
	}
}

func heartbeats(b *testing.B, from []raft.Transport) {
	moments := make([]chan struct{}, len(from))
	var answered sync.WaitGroup
	for i, tr := range from {
		moments[i] = make(chan struct{})
		go func() {
			req := raft.AppendEntriesRequest{RPCHeader: header(1), Term: 1}
			for range moments[i] {
				var resp raft.AppendEntriesResponse
				assert.Equal(b, tr.AppendEntries("", raft.ServerAddress(nodeID(2)), &req, &resp), nil)
				answered.Done()
			}
		}()
		defer close(moments[i])
	}
	beat := time.NewTicker(5 * time.Millisecond)
	defer beat.Stop()
	b.ReportAllocs()
	before := cpuTime(b)
	b.ResetTimer()
	for range b.N {
		answered.Add(len(from))
		for _, moment := range moments {
			moment <- struct{}{}
		}
		answered.Wait()
		<-beat.C
	}
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(b.N*len(from)), "cpu-ns/beat")
}
