package install

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// Gate stands between a group's transport and its Raft, and judges the incoming requests.
type Gate struct {
	inner  raft.Transport
	log    raft.LogStore
	logger *slog.Logger
	fatal  func(error)
	out    chan raft.RPC
	done   chan struct{}
	once   sync.Once
	ended  sync.WaitGroup
	halted atomic.Bool // no snapshot is read any further
	told   atomic.Uint64

	arriving meter

	applied uint64 // last index that the previous process had applied, as far as known
}

// New returns the gate of a group with the given log. fatal must end the process and not wait for the group. The gate
// calls it after it cut a log that contradicted the leader's snapshot, because Raft has to start from the rest, and on
// ErrUndone.
func New(inner raft.Transport, log raft.LogStore, logger *slog.Logger, fatal func(error)) *Gate {
	return &Gate{
		inner: inner, log: log, logger: logger, fatal: fatal, out: make(chan raft.RPC), done: make(chan struct{}),
	}
}

// Remember records that a previous process had applied the log up to this index. It is called before Open.
func (g *Gate) Remember(applied uint64) { g.applied = applied }

// Open lets requests through to r, which uses the gate's transport. All requests wait until then.
func (g *Gate) Open(r *raft.Raft) { g.ended.Go(func() { g.run(r) }) }

// Told returns the commit index of the first request since the start that reached up to it, and 0 before. A replica
// with all entries up to this index has caught up with its leader.
func (g *Gate) Told() uint64 { return g.told.Load() }

// Interrupt ends the installation of a snapshot that is still arriving. Raft would read it to its end before it stops,
// and a slow copy may take an hour.
func (g *Gate) Interrupt() { g.halted.Store(true) }

// errHalted ends the installation of a snapshot because the replica stops.
var errHalted = errors.New("the replica stops before the snapshot is whole")

// interruptible is the content of a snapshot, until the replica stops.
type interruptible struct {
	io.Reader
	halted *atomic.Bool
}

func (i interruptible) Read(b []byte) (int, error) {
	if i.halted.Load() {
		return 0, errHalted
	}
	return i.Reader.Read(b)
}

func (g *Gate) shut() { g.once.Do(func() { close(g.done) }) }

func (g *Gate) run(r *raft.Raft) {
	for {
		select {
		case <-g.done:
			return
		case rpc := <-g.inner.Consumer():
			switch req := rpc.Command.(type) {
			case *raft.InstallSnapshotRequest:
				g.judgeSnapshot(r, rpc, req)
			case *raft.AppendEntriesRequest:
				g.judgeEntries(r, rpc, req)
			default:
				g.pass(rpc)
			}
		}
	}
}

func (g *Gate) pass(rpc raft.RPC) {
	select {
	case g.out <- rpc:
	case <-g.done: // the transport is closed, and no node waits for the answer
	}
}

// settle returns when Raft has processed all requests passed to it, or false if the gate was shut. Raft processes one
// request after the other, and rejects a request without a header before it looks at the content.
func (g *Gate) settle() bool {
	answer := make(chan raft.RPCResponse, 1)
	g.pass(raft.RPC{Command: "what came before is done", RespChan: answer})
	select {
	case <-answer:
		return true
	case <-g.done:
		return false
	}
}

// judgeSnapshot passes a snapshot on or answers it. It answers a leader of this term only. Raft itself refuses a leader
// of an older term, and the heartbeat of a newer term comes first.
func (g *Gate) judgeSnapshot(r *raft.Raft, rpc raft.RPC, req *raft.InstallSnapshotRequest) {
	if !g.settle() {
		return
	}
	term := r.CurrentTerm()
	var known bool
	var err error
	undone := g.undoes(r, req.Term, req.LastLogIndex, req.LastLogTerm)
	switch {
	case undone != nil:
		g.end(rpc, undone)
		return
	case req.Term > term:
		err = fmt.Errorf("term %d is not known here yet", req.Term)
	case req.Term == term:
		known, err = g.compare(r, req)
	}
	if !known && err == nil {
		rpc.Reader = interruptible{g.arriving.watch(rpc.Reader, req.Size), &g.halted}
		g.pass(rpc)
		return
	}
	g.logger.Info("a leader's snapshot is not installed", "last", req.LastLogIndex, "known", known, "err", err)
	resp := &raft.InstallSnapshotResponse{Term: term, Success: known}
	g.ended.Go(func() { // reading the snapshot keeps the connection usable; other requests need not wait for it
		_, broken := io.Copy(io.Discard, rpc.Reader)
		rpc.Respond(resp, errors.Join(err, broken))
	})
}

// compare reports whether the replica has all that a snapshot stands for, and Raft knows it.
func (g *Gate) compare(r *raft.Raft, req *raft.InstallSnapshotRequest) (known bool, err error) {
	if r.AppliedIndex() >= req.LastLogIndex {
		return r.LastIndex() >= req.LastLogIndex, nil
	}
	var last raft.Log
	switch err := g.log.GetLog(req.LastLogIndex, &last); {
	case errors.Is(err, raft.ErrLogNotFound):
		return false, nil
	case err != nil:
		return false, err
	case last.Term != req.LastLogTerm:
		return false, g.cut(req.LastLogIndex)
	}
	return true, nil
}

// errCut ends a process whose log held uncommitted entries that contradicted the leader's snapshot.
var errCut = errors.New("the log contradicted the leader's snapshot and was cut off: Raft starts again from the rest")

// cut removes the log's entries from an index on. It returns the reason why the process ends, or why the removal
// failed.
func (g *Gate) cut(from uint64) error {
	last, err := g.log.LastIndex()
	if err == nil {
		err = g.log.DeleteRange(from, last)
	}
	if err == nil {
		err = fmt.Errorf("%w: entries %d to %d are gone", errCut, from, last)
		g.shut()
		g.fatal(err)
	}
	return err
}
