package install

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/hashicorp/raft"
)

// Gate passes on to Raft what arrives for a group.
type Gate struct {
	inner  raft.Transport
	log    raft.LogStore
	logger *slog.Logger
	fatal  func(error)
	out    chan raft.RPC
	done   chan struct{}
	once   sync.Once
	ended  sync.WaitGroup

	applied uint64 // by the process before, as far as is known
}

// New returns the gate of a group with that log. fatal must end the process, and not wait for the group: it is called
// when the log contradicts the leader's snapshot and was cut, and Raft has to start from the rest of it.
func New(inner raft.Transport, log raft.LogStore, logger *slog.Logger, fatal func(error)) *Gate {
	return &Gate{
		inner: inner, log: log, logger: logger, fatal: fatal, out: make(chan raft.RPC), done: make(chan struct{}),
	}
}

// Remember says that a process before this one had applied the log up to an entry. It is called before Open.
func (g *Gate) Remember(applied uint64) { g.applied = applied }

// Open lets through to a Raft that was given the gate's transport. Until then all wait.
func (g *Gate) Open(r *raft.Raft) { g.ended.Go(func() { g.run(r) }) }

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

// settle returns when Raft has carried out all that was passed on to it; false: the gate was shut. Raft works one
// request off after the other, and refuses one without a header before it looks at it.
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

// judgeSnapshot passes a snapshot on, or answers it. The answer is for a leader of this term: one of an older term is
// refused by Raft, and of a newer term a heartbeat will tell first.
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
		g.pass(rpc)
		return
	}
	g.logger.Info("a leader's snapshot is not installed", "last", req.LastLogIndex, "known", known, "err", err)
	resp := &raft.InstallSnapshotResponse{Term: term, Success: known}
	g.ended.Go(func() { // the connection is of use only when the snapshot was read, and others need not wait for that
		_, broken := io.Copy(io.Discard, rpc.Reader)
		rpc.Respond(resp, errors.Join(err, broken))
	})
}

// compare tells whether the replica has all that a snapshot stands for, and Raft knows it.
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

// errCut ends a process whose log held entries that were never committed, where the leader's snapshot has others.
var errCut = errors.New("the log contradicted the leader's snapshot and was cut off: Raft starts again from the rest")

// cut removes the log's entries from one on, and returns why the process has to end, or could not remove them.
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
