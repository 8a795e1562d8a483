package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/wait"
	"github.com/belfryhq/belfry/shard"
)

// TakerConfig holds the neighbours of a Taker.
type TakerConfig struct {
	Self     string // node id
	Control  Control
	Replicas Replicas
	Peers    Peers
	Router   Router
	Clock    func() time.Time
}

// Control is the control group.
type Control interface {
	State() *clusterpb.ControlState
}

// Replicas returns the replica of a shard here. The error is a *task.NotLeaderError if there is none.
type Replicas interface {
	Find(shard uint32) (*shard.Shard, error)
}

// Peers returns the connection to another node.
type Peers interface {
	Peer(node string) clusterpb.PeerClient
}

// Router begins a search for the leader of a shard.
type Router interface {
	Search(shard uint32) calls.Search
}

// Taker takes cuts of all shards.
type Taker struct {
	cfg   TakerConfig
	cutAt cutAt
}

// cutAt cuts a shard at a node. Tests replace it.
type cutAt func(ctx context.Context, node string, shard uint32) (*clusterpb.BackupShard, state, error)

// NewTaker returns a Taker.
func NewTaker(cfg TakerConfig) *Taker {
	t := &Taker{cfg: cfg}
	t.cutAt = t.cutOn
	return t
}

// cutSet is the cuts of all shards.
type cutSet struct {
	state  *clusterpb.ControlState  // of the control group, by which the shards were cut
	shards []*clusterpb.BackupShard // by shard
	states []state                  // beside shards
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

// take cuts all shards. ctx also bounds the reading of the cuts, which the caller must close. The error wraps
// task.ErrNotProposed.
func (t *Taker) take(ctx context.Context) (*cutSet, error) {
	moved := errMoved
	for range mapTries {
		before := t.cfg.Control.State()
		if len(before.Shards) == 0 {
			return nil, fmt.Errorf("%w: this node does not know the shards yet", task.ErrNotProposed)
		}
		set, err := t.takeBy(ctx, before)
		if err != nil {
			return nil, err
		}
		set.state = t.cfg.Control.State()
		if moved = set.check(before); moved == nil {
			return set, nil
		}
		set.close()
		if !wait.For(ctx, mapPause) {
			return nil, context.Cause(ctx)
		}
	}
	return nil, fmt.Errorf("%w: %w", task.ErrNotProposed, moved)
}

// check returns an error if slots have moved since the state before the cuts, or before a cut without the knowledge of
// this node.
func (s *cutSet) check(before *clusterpb.ControlState) error {
	if !slices.EqualFunc(before.Slots, s.state.Slots, sameRange) {
		return errMoved
	}
	err := CheckHeader(&clusterpb.BackupHeader{Control: s.state, Shards: s.shards})
	if err != nil {
		return fmt.Errorf("%w: %w", errMoved, err)
	}
	return nil
}

func sameRange(a, b *clusterpb.SlotRange) bool { return proto.Equal(a, b) }

func (t *Taker) takeBy(ctx context.Context, control *clusterpb.ControlState) (*cutSet, error) {
	ctx, cancel := context.WithCancel(ctx)
	n := len(control.Shards)
	set := &cutSet{shards: make([]*clusterpb.BackupShard, n), states: make([]state, n), cancel: cancel}
	errs := make([]error, n)
	var cutting sync.WaitGroup
	for i, s := range control.Shards {
		cutting.Go(func() {
			if set.shards[i], set.states[i], errs[i] = t.cut(ctx, s.Id); errs[i] != nil {
				cancel() // the others are of no use
			}
		})
	}
	cutting.Wait()
	if err := firstCause(errs); err != nil {
		set.close()
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
	search := t.cfg.Router.Search(id)
	searched, failed := 0, 0
	for {
		cut, content, err := t.cutAt(ctx, search.Next(), id)
		if err == nil {
			search.Found()
			return cut, content, nil
		}
		if calls.Repeatable(err) {
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
		return cutHere(ctx, t.cfg.Replicas, id)
	}
	return cutThere(ctx, t.cfg.Peers.Peer(node), node, id)
}

// close ends the reading of all states.
func (s *cutSet) close() {
	for _, one := range s.states {
		if one != nil {
			_ = one.Close() // it was only read
		}
	}
	s.cancel()
}

// Summary describes a backup that was written whole.
type Summary struct {
	SHA256 string // of all bytes before the last piece, in hexadecimal
	Bytes  uint64
	Shards []*clusterpb.BackupShard
}

// pauseEvery is the time after which a pause is written while the shards are being cut. It is shorter than the patience
// of usual proxies.
const pauseEvery = 10 * time.Second

// Backup writes a backup of the cluster to w, at rate bytes a second at most; 0: no limit. See package backup. Backup
// writes nothing before all shards are cut, except a pause every ten seconds. Errors before the first byte wrap
// task.ErrNotProposed.
func (t *Taker) Backup(ctx context.Context, w io.Writer, rate int64) (Summary, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := NewWriter(atRate(ctx, w, rate))
	set, err := t.takeWith(ctx, cancel, out)
	if err != nil {
		return Summary{}, err
	}
	defer set.close()
	if err := t.write(out, set); err != nil {
		return Summary{}, err
	}
	return Summary{SHA256: out.Sum(), Bytes: out.Bytes(), Shards: set.shards}, nil
}

// takeWith cuts all shards, and writes a pause now and then meanwhile. abandon ends the cuts.
func (t *Taker) takeWith(ctx context.Context, abandon func(), out *Writer) (set *cutSet, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		set, err = t.take(ctx)
	}()
	pause := time.NewTicker(pauseEvery)
	defer pause.Stop()
	for {
		select {
		case <-done:
			return set, err
		case <-pause.C:
			if failed := out.Pause(); failed != nil {
				abandon()
				<-done
				if set != nil {
					set.close()
				}
				return nil, failed
			}
		}
	}
}

func (t *Taker) write(out *Writer, set *cutSet) error {
	control := proto.CloneOf(set.state)
	control.JwtKeys = nil // a restored cluster makes its own
	err := out.Header(&clusterpb.BackupHeader{
		ClusterId: control.ClusterId, MadeAtMs: t.cfg.Clock().UnixMilli(), MadeBy: t.cfg.Self, Control: control,
		Shards: set.shards,
	})
	for i, shard := range set.shards {
		if err == nil {
			err = out.Section(shard.Shard, set.states[i])
		}
	}
	if err != nil {
		return err
	}
	return out.Close()
}

// pieceBytes is the longest piece of one write at a rate.
const pieceBytes = 64 << 10

// paced writes no faster than a rate, in pieces of a second at most, until ctx ends.
type paced struct {
	ctx     context.Context
	w       io.Writer
	rate    int64 // bytes a second
	began   time.Time
	written int64
}

// atRate returns a writer that writes to w no faster than rate bytes a second; 0: w itself.
func atRate(ctx context.Context, w io.Writer, rate int64) io.Writer {
	if rate == 0 {
		return w
	}
	return &paced{ctx: ctx, w: w, rate: rate, began: time.Now()}
}

func (p *paced) Write(b []byte) (n int, err error) {
	size := int(min(pieceBytes, p.rate))
	for n < len(b) && err == nil {
		if err = p.wait(); err != nil {
			break
		}
		var m int
		m, err = p.w.Write(b[n:min(len(b), n+size)])
		n += m
		p.written += int64(m)
	}
	return n, err
}

// wait waits until the bytes so far are within the rate.
func (p *paced) wait() error {
	due := p.began.Add(time.Duration(float64(p.written) / float64(p.rate) * float64(time.Second)))
	if !wait.For(p.ctx, time.Until(due)) {
		return context.Cause(p.ctx)
	}
	return nil
}
