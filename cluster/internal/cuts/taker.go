package cuts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/backup"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/pause"
	"github.com/belfryhq/belfry/cluster/leaders"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard"
)

// Config holds the neighbours of a Taker.
type Config struct {
	Self  string // node id
	State func() *clusterpb.ControlState
	// Local returns the replica of a shard here. The error is a *task.NotLeaderError if there is none.
	Local func(shard uint32) (*shard.Shard, error)
	// Remote returns the connection to another node.
	Remote func(node string) clusterpb.PeerClient
	// Search begins a search for the leader of a shard.
	Search func(shard uint32) leaders.Search
	Clock  func() time.Time
}

// Taker takes cuts of all shards.
type Taker struct {
	cfg   Config
	cutAt cutAt
}

// cutAt cuts a shard at a node. Tests replace it.
type cutAt func(ctx context.Context, node string, shard uint32) (*clusterpb.BackupShard, state, error)

// New returns a Taker.
func New(cfg Config) *Taker {
	t := &Taker{cfg: cfg}
	t.cutAt = t.cutOn
	return t
}

// Set is the cuts of all shards.
type Set struct {
	State  *clusterpb.ControlState  // of the control group, by which the shards were cut
	Shards []*clusterpb.BackupShard // by shard

	states []state // beside Shards
	cancel context.CancelFunc
}

const (
	mapTries    = 5  // begins of a backup while slots move
	searchTries = 60 // of a shard whose leader is not found: some seconds
	cutTries    = 3  // of a shard whose leader fails to cut it

	mapPause = time.Second // this node has learnt of a move by then
)

// errMoved is the error of a backup during which slots moved each time.
var errMoved = errors.New("slots moved while the shards were cut: try again when the moves are done")

// Take cuts all shards. ctx also bounds the reading of the Set, which the caller must close. The error wraps
// task.ErrNotProposed.
func (t *Taker) Take(ctx context.Context) (*Set, error) {
	moved := errMoved
	for range mapTries {
		before := t.cfg.State()
		if len(before.Shards) == 0 {
			return nil, fmt.Errorf("%w: this node does not know the shards yet", task.ErrNotProposed)
		}
		set, err := t.takeBy(ctx, before)
		if err != nil {
			return nil, err
		}
		set.State = t.cfg.State()
		if moved = set.check(before); moved == nil {
			return set, nil
		}
		set.Close()
		if err := pause.For(ctx, mapPause); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: %w", task.ErrNotProposed, moved)
}

// check returns an error if slots have moved since the state before the cuts, or before a cut without the knowledge of
// this node.
func (s *Set) check(before *clusterpb.ControlState) error {
	if !slices.EqualFunc(before.Slots, s.State.Slots, sameRange) {
		return errMoved
	}
	err := backup.CheckHeader(&clusterpb.BackupHeader{Control: s.State, Shards: s.Shards})
	if err != nil {
		return fmt.Errorf("%w: %w", errMoved, err)
	}
	return nil
}

func sameRange(a, b *clusterpb.SlotRange) bool { return proto.Equal(a, b) }

func (t *Taker) takeBy(ctx context.Context, control *clusterpb.ControlState) (*Set, error) {
	ctx, cancel := context.WithCancel(ctx)
	n := len(control.Shards)
	set := &Set{Shards: make([]*clusterpb.BackupShard, n), states: make([]state, n), cancel: cancel}
	errs := make([]error, n)
	var cutting sync.WaitGroup
	for i, s := range control.Shards {
		cutting.Go(func() {
			if set.Shards[i], set.states[i], errs[i] = t.cut(ctx, s.Id); errs[i] != nil {
				cancel() // the others are of no use
			}
		})
	}
	cutting.Wait()
	if err := firstCause(errs); err != nil {
		set.Close()
		return nil, err
	}
	return set, nil
}

// firstCause returns an error that is not the consequence of another one.
func firstCause(errs []error) error {
	var first error
	for _, err := range errs {
		if err != nil && (first == nil || errors.Is(first, context.Canceled)) {
			first = err
		}
	}
	return first
}

// cut cuts one shard, at the node that leads it.
func (t *Taker) cut(ctx context.Context, id uint32) (*clusterpb.BackupShard, state, error) {
	search := t.cfg.Search(id)
	searched, failed := 0, 0
	for {
		cut, content, err := t.cutAt(ctx, search.Next(), id)
		if err == nil {
			search.Found()
			return cut, content, nil
		}
		if leaders.Repeatable(err) {
			searched++
		} else {
			failed++
		}
		if searched < searchTries && failed < cutTries {
			err = search.Again(ctx, err)
		}
		if ctx.Err() != nil || searched >= searchTries || failed >= cutTries {
			return nil, nil, fmt.Errorf("%w: shard %d cannot be cut: %w", task.ErrNotProposed, id, err)
		}
	}
}

func (t *Taker) cutOn(ctx context.Context, node string, id uint32) (*clusterpb.BackupShard, state, error) {
	switch node {
	case "":
		return nil, nil, fmt.Errorf("%w: shard %d has no place yet", task.ErrNotProposed, id)
	case t.cfg.Self:
		return cutHere(ctx, t.cfg.Local, id)
	}
	return cutThere(ctx, t.cfg.Remote(node), node, id)
}

// Close ends the reading of all states.
func (s *Set) Close() {
	for _, one := range s.states {
		if one != nil {
			_ = one.Close() // it was only read
		}
	}
	s.cancel()
}
