package witness

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/raftgroup/durable"
)

const (
	writeEvery = 200 * time.Millisecond
	maxNodes   = 1024 // that the table holds; a cluster has far fewer
)

// FileName is the name of the table's file in the data folder.
const FileName = "witness"

// Config names the table to open, and its failure handler.
type Config struct {
	Dir  string // data folder
	Node string // id of the table's node
	New  bool   // no replica has lived in the folder: the table may be missing

	Logger *slog.Logger // nil: none

	// Fatal receives the error when the table cannot be written. It must end the process, and must not wait for the
	// table. Required.
	Fatal func(error)
}

// Table holds a node's observations of all nodes. Its methods are safe for concurrent use.
type Table struct {
	cfg  Config
	path string

	rows    atomic.Pointer[map[key]*row] // replaced whole, under mu
	changed atomic.Bool                  // a row has risen since the file was written

	mu   sync.Mutex
	runs map[string]Run                         // newest run that each node claimed
	born map[key]uint64                         // revisions at which replicas joined, by Place; nil: not known yet
	own  map[uint32]func() (term, index uint64) // positions of replicas that run here
	kept map[uint32]Position                    // positions of replicas here, as far as the file may say

	writing sync.Mutex // held while the file is written; guards the fields below
	failed  error      // after an error the file is not written any more
	file    *os.File   // nil: to be made anew
	number  uint64     // of the last write
	slot    int        // bytes of a slot of the file

	stop  chan struct{}
	ended chan struct{}
}

type key struct {
	node  string
	group uint32
}

// row is the newest position of one node in one group. Answers of one node in one group come one after the other, so
// its mutex is hardly ever contended.
type row struct {
	joined uint64 // revision at which the node got the replica, as far as known when the row was made

	mu sync.Mutex
	at Position
}

// Open reads the table of a data folder, makes it if the folder is new, and keeps it on disk until Close.
func Open(cfg Config) (*Table, error) {
	t := &Table{
		cfg: cfg, path: filepath.Join(cfg.Dir, FileName),
		runs: make(map[string]Run), own: make(map[uint32]func() (term, index uint64)), kept: make(map[uint32]Position),
		stop: make(chan struct{}), ended: make(chan struct{}),
	}
	nodes, err := read(t.path, cfg.Node)
	damaged := errors.Is(err, errDamaged)
	if damaged {
		err = t.setAside(err)
	}
	if err == nil && nodes == nil && !damaged && !cfg.New {
		err = errMissing(t.path)
	}
	if err == nil {
		t.fill(nodes)
		err = t.write()
	}
	if err != nil {
		return nil, err
	}
	go t.keep()
	return t, nil
}

// setAside renames a damaged file: the table begins anew, with the table of the sound slot if there is one. The log of
// each replica has checksums of its own, the other nodes have seen what this one had, and they tell it at its start.
// Without this, one flipped byte would keep a sound node down.
func (t *Table) setAside(fault error) error {
	aside := t.path + ".damaged"
	if err := os.Rename(t.path, aside); err != nil {
		return errors.Join(fault, err)
	}
	if t.cfg.Logger != nil {
		t.cfg.Logger.Warn("the record of other nodes' positions is set aside, and begins anew", "to", aside, "err", fault)
	}
	return nil
}

func (t *Table) fill(nodes *clusterpb.SeenNodes) {
	rows := make(map[key]*row)
	for _, n := range nodes.GetNodes() {
		if n.Run != nil {
			t.runs[n.Node] = runOf(n.Run)
		}
		for _, p := range n.Positions {
			at := Position{p.Term, p.Index, p.EntryTerm}
			if n.Node == t.cfg.Node {
				t.kept[p.Group] = at
			} else {
				rows[key{n.Node, p.Group}] = &row{at: at, joined: p.Joined}
			}
		}
	}
	t.rows.Store(&rows)
}

// Saw records that a node holds a position of a group durably. It does not wait for the disk.
func (t *Table) Saw(node string, group uint32, term, index, entryTerm uint64) {
	r := (*t.rows.Load())[key{node, group}]
	if r == nil {
		if r = t.addRow(key{node, group}); r == nil {
			return
		}
	}
	at := Position{term, index, entryTerm}
	r.mu.Lock()
	rises := r.at.Before(at)
	if rises {
		r.at = at
	}
	r.mu.Unlock()
	if rises && !t.changed.Load() {
		t.changed.Store(true)
	}
}

// addRow returns the row of a node and group, and adds it if it is missing. It returns nil for the table's own node,
// and if the table is full.
func (t *Table) addRow(k key) *row {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows := *t.rows.Load()
	switch {
	case rows[k] != nil:
		return rows[k]
	case k.node == t.cfg.Node || len(rows) >= maxNodes*maxGroups:
		return nil
	}
	more := maps.Clone(rows)
	more[k] = &row{joined: t.born[k]}
	t.rows.Store(&more)
	return more[k]
}

// Place hands the table the replicas that the cluster has, with the revisions at which they joined: for each group, by
// node. The table drops the rows of replicas that were removed since, and begins new rows for replicas that were
// removed and added again. It keeps all rows of groups that are not given.
func (t *Table) Place(joined map[uint32]map[string]uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.born = make(map[key]uint64)
	for group, nodes := range joined {
		for node, revision := range nodes {
			t.born[key{node, group}] = revision
		}
	}
	next := maps.Clone(*t.rows.Load())
	for k, r := range next {
		if joined[k.group] == nil {
			continue
		}
		switch revision, placed := joined[k.group][k.node]; {
		case !placed:
			delete(next, k)
		case revision > r.joined:
			next[k] = &row{joined: revision}
		}
	}
	t.rows.Store(&next)
	t.changed.Store(true)
}

const maxGroups = 64 // of one node, on average

var errFull = fmt.Errorf("the table of nodes is full: it holds %d", maxNodes)

// Claim records that a node takes part with a run, unless the node has claimed with a newer run before. It returns the
// newest run, which is durable then.
func (t *Table) Claim(node string, run Run) (newest Run, err error) {
	t.mu.Lock()
	known, found := t.runs[node]
	if !found && len(t.runs) >= maxNodes {
		t.mu.Unlock()
		return Run{}, errFull
	}
	if run.Boot > known.Boot {
		t.runs[node], known = run, run
	}
	t.mu.Unlock()
	return known, t.flush() // also if the run was known: the same claim may not be on disk yet
}

// Answer answers a node's question; own is the run of the table's node.
func (t *Table) Answer(req *clusterpb.WitnessRequest, own Run) (*clusterpb.WitnessReply, error) {
	reply := &clusterpb.WitnessReply{Node: t.cfg.Node, Run: own.proto()}
	if req.Node == t.cfg.Node { // a copy of this node asks
		return reply, nil
	}
	reply.Seen = t.Seen(req.Node)
	if !req.Claim {
		return reply, nil
	}
	newest, err := t.Claim(req.Node, runOf(req.Run))
	reply.Seen.Run = newest.proto()
	return reply, err
}

// Seen returns all that the table holds about a node.
func (t *Table) Seen(node string) *clusterpb.SeenNode {
	for _, n := range t.snapshot().Nodes {
		if n.Node == node {
			return n
		}
	}
	return &clusterpb.SeenNode{Node: node}
}

// Kept returns the last recorded position of a replica on this node: its term, and the last entry that it had applied.
func (t *Table) Kept(group uint32) Position {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept[group]
}

// Follow makes the table record a replica on this node: at returns its term and the last entry that it has applied.
func (t *Table) Follow(group uint32, at func() (term, index uint64)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.own[group] = at
}

// Drop forgets a replica that is leaving this node, durably.
func (t *Table) Drop(group uint32) error {
	t.mu.Lock()
	delete(t.own, group)
	delete(t.kept, group)
	t.mu.Unlock()
	return t.flush()
}

// keep writes the table while it changes.
func (t *Table) keep() {
	defer close(t.ended)
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-t.stop:
			return
		}
		if t.askOwn() || t.changed.Load() {
			if err := t.flush(); err != nil && !durable.LacksDescriptors(err) {
				return // the process ends
			}
		}
	}
}

// askOwn updates the positions of this node's replicas, and reports whether any has risen.
func (t *Table) askOwn() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	rises := false
	for group, at := range t.own {
		was := t.kept[group]
		term, index := at()
		next := Position{Term: max(was.Term, term), Index: max(was.Index, index)}
		rises = rises || next != was
		t.kept[group] = next
	}
	return rises
}

// flush writes the present table to disk. It calls Fatal after a failure, since no later write can be trusted. Without
// a free file descriptor nothing was written and nothing is in doubt: the next flush tries again.
func (t *Table) flush() error {
	t.writing.Lock()
	defer t.writing.Unlock()
	if t.failed != nil {
		return t.failed
	}
	t.changed.Store(false)
	err := t.write()
	if durable.LacksDescriptors(err) {
		t.changed.Store(true)
		return err
	}
	if t.failed = err; err != nil {
		t.failed = fmt.Errorf("what this node saw of others cannot be written: %w", t.failed)
		go t.cfg.Fatal(t.failed) // in a goroutine, since it may close the table
	}
	return t.failed
}

// Close writes the table a last time.
func (t *Table) Close() error {
	select {
	case <-t.stop:
		return nil
	default:
		close(t.stop)
	}
	<-t.ended
	t.askOwn()
	t.writing.Lock()
	defer t.writing.Unlock()
	if t.failed != nil {
		return t.failed
	}
	t.failed = errClosed
	err := t.write()
	if t.file != nil {
		err = errors.Join(err, t.file.Close())
	}
	return err
}

var errClosed = errors.New("the table of nodes is closed")
