package groups

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Keeper gives permits for the groups of the queues that a shard owns, for one leadership of that shard.
type Keeper struct {
	ctx   context.Context
	look  func(context.Context, Look) ([]Standing, error)
	begun time.Time

	mu    sync.Mutex
	books map[[2]string]*book // by namespace and queue
}

// NewKeeper returns the Keeper of a leadership that lasts as long as ctx. look returns the standings of all shards.
func NewKeeper(ctx context.Context, look func(context.Context, Look) ([]Standing, error)) *Keeper {
	return &Keeper{ctx: ctx, look: look, begun: time.Now(), books: map[[2]string]*book{}}
}

// book is the record of one queue.
type book struct {
	owner   Owner
	limit   Limit
	parked  []*parked
	pace    pace
	given   []permit         // permits that no standing shows yet
	heard   map[uint32]heard // the last ask of each shard that came here
	ended   map[string]bool  // groups with fewer attempts under way, since the last round
	unclear map[string]bool  // groups whose first task may not be the earliest, by the last round
	news    chan struct{}    // capacity 1: make a round
	runs    bool             // a goroutine makes rounds
}

// position is the place of an ask among those of its shard.
type position struct{ term, number uint64 }

func (p position) isBefore(other position) bool {
	return p.term < other.term || p.term == other.term && p.number < other.number
}

// heard is an ask that came, and the permits that it got.
type heard struct {
	position
	given []Want
}

// parked is an ask that waits for its answer.
type parked struct {
	Ask
	asked bool        // a round has looked at its groups
	done  chan Answer // capacity 1
}

func (p *parked) position() position { return position{p.Term, p.Number} }

// permit is a number of permits of a group that an ask got.
type permit struct {
	group string
	shard uint32
	to    position
	n     int
}

// Ask gives the permits that an ask wants, as far as the limit allows. If there are none and the ask waits, it waits
// for half a second at most. The error is the context's.
func (k *Keeper) Ask(ctx context.Context, ask Ask, owner Owner, limit Limit) (Answer, error) {
	b, p := k.park(ask, owner, limit)
	if p == nil {
		return Answer{Owner: owner}, nil
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case answer := <-p.done:
		return answer, nil
	case <-timer.C:
	case <-ctx.Done():
	case <-k.ctx.Done():
	}
	return k.leave(ctx, b, p)
}

// park takes an ask into its queue's book. It returns no parked ask if nothing is wanted.
func (k *Keeper) park(ask Ask, owner Owner, limit Limit) (*book, *parked) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := k.open([2]string{ask.Namespace, ask.Queue})
	if b.owner.Compare(owner) < 0 {
		b.owner = owner
	}
	b.limit = limit
	b.pace.set(time.Now(), limit.PerSecond)
	for _, group := range ask.Ended {
		b.ended[group] = true
	}
	p := &parked{Ask: ask, done: make(chan Answer, 1)}
	if last := b.heard[ask.Shard]; last.isBefore(p.position()) {
		b.heard[ask.Shard] = heard{position: p.position()}
		b.pace.giveBack(time.Now(), ask.Unused)
		if last.position == (position{ask.Term, ask.Lost}) {
			b.pace.giveBack(time.Now(), last.given)
		}
		b.parked = slices.DeleteFunc(b.parked, func(old *parked) bool { return old.Shard == ask.Shard })
	} else if len(ask.Wants) > 0 {
		p.done <- Answer{Owner: owner} // it came late: its asker has given it up
		return b, p
	}
	if len(ask.Wants) > 0 {
		b.parked = append(b.parked, p)
	} else {
		p = nil
	}
	k.wake(b)
	return b, p
}

// open returns the book of a queue and makes it if there is none.
func (k *Keeper) open(queue [2]string) *book {
	b := k.books[queue]
	if b == nil {
		b = &book{
			pace: newPace(k.begun), heard: map[uint32]heard{}, ended: map[string]bool{}, news: make(chan struct{}, 1),
		}
		k.books[queue] = b
	}
	if !b.runs {
		b.runs = true
		go k.run(queue, b)
	}
	return b
}

func (k *Keeper) wake(b *book) {
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// leave takes an ask out of its book after its time. It may have got its permits in this moment.
func (k *Keeper) leave(ctx context.Context, b *book, p *parked) (Answer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b.parked = slices.DeleteFunc(b.parked, func(other *parked) bool { return other == p })
	select {
	case answer := <-p.done:
		return answer, nil
	default:
		return Answer{Owner: b.owner}, ctx.Err()
	}
}
