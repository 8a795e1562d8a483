package dispatch

import (
	"container/list"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/admission"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
	"github.com/belfryhq/belfry/shard/internal/groups"
	"github.com/belfryhq/belfry/shard/internal/throttle"
)

// Config connects a planner with its surroundings. Policies, Owners and Desk are inputs: a plan depends on their
// answers.
type Config struct {
	Throttle throttle.Config // of all receivers; Start is the window that an Advance assumes
	Crowd    *Crowd          // of the node
	Policies Policies
	Owners   Owners
	Desk     Desk
	// Weights are the weights of namespaces. The namespaces with tasks share the plans by weight.
	Weights admission.Weights
}

// Policies gives access to the policies of queues.
type Policies interface {
	// Policy returns a queue's policy, or nil if it has none. A policy is immutable: a change makes another one.
	Policy(namespace, queue string) *fsmpb.QueuePolicy
}

// Owners reaches the owners of queues, which give permits for the whole cluster.
type Owners interface {
	// Permits returns the permits of a limited queue. It always returns the same ones for a queue.
	Permits(QueueName) Permits
	// Ask asks the owner of a queue for permits of its groups. Answered must follow, also after cancel.
	Ask(groups.Ask) (cancel func())
}

// Desk gives access to the demands of consumers. *desk.Desk implements it.
type Desk interface {
	// Wishes returns the consumers' wishes in a lane, in the order in which they are to be served. The planner calls it
	// at most once a lane for each entry, unless the demand changes in between.
	Wishes(task.Lane) []desk.Wish
}

// Planner plans the work that one leadership may begin. See the package's documentation for the order of calls.
type Planner struct {
	cfg Config
	now time.Time // the instant of the present call; never goes back

	lanes     map[task.Lane]*lane
	receivers receivers
	queues    map[QueueName]*queue
	spaces    spaces
	inquiries inquiries
	held      map[QueueName]bool // queues that the shard's rules hold while this node does not know their policies

	// The sets below. A lane with tasks that is in none of them waits for an event: an attempt's end, a demand, a
	// policy.
	woken   admission.Queue[*lane] // lanes that the next plan looks at, by namespace
	asleep  sleepers               // lanes that an instant wakes
	holding fifo[*queue]           // queues with lanes that fewer attempts under way wake
	asked   ring                   // pulled lanes with a demand
	unusual ring                   // pushed lanes that need a credit in an Advance
	broken  ring                   // lanes whose breaker is open
	idle    *list.List             // lanes without a task, the longest idle first
	drafted fifo[*lane]            // lanes that the entry being made changes

	serving   fifo[*queue] // limited queues with a line and permits
	reporting fifo[*queue] // limited queues whose owners need a report of the last entry

	firing int  // attempts and leases under way: the sum over the lanes
	pushed int  // attempts alone, without leases; 0 <= pushed <= firing
	waited bool // the entry being made grants tasks that had waited

	serveFirst bool // the last plan had no room for the limited queues
	backlog    backlog
	looks      looks
}

// New returns a planner without lanes.
func New(cfg Config) *Planner {
	return &Planner{
		cfg: cfg, lanes: map[task.Lane]*lane{}, receivers: receivers{byLane: map[task.Lane]*receiver{}},
		queues: map[QueueName]*queue{}, idle: list.New(),
		spaces: newSpaces(cfg.Crowd), inquiries: newInquiries(),
		woken: admission.Queue[*lane]{Weights: cfg.Weights}, holding: fifo[*queue]{set: holding},
		drafted: fifo[*lane]{set: inDraft},
		asked:   ring{id: ringAsked}, unusual: ring{id: ringUnusual}, broken: ring{id: ringBroken},
		serving: fifo[*queue]{set: serving}, reporting: fifo[*queue]{set: reporting},
	}
}

// turnTo sets the instant of a call.
func (p *Planner) turnTo(now time.Time) {
	if now.Before(p.now) {
		panic("dispatch: the clock went back")
	}
	p.now = now
}

// Begin sets the lanes' loads at the beginning of a leadership. held is as for Policies.
func (p *Planner) Begin(now time.Time, loads []task.LaneLoad, held map[QueueName]bool) {
	p.Policies(now, held)
	for _, load := range loads {
		p.update(load)
	}
}

// Asked reports that consumers' demand for tasks of a lane has appeared or grown, or that none is left.
func (p *Planner) Asked(now time.Time, key task.Lane, some bool) {
	p.turnTo(now)
	l := p.open(key)
	l.draft.known, l.draft.wishes = false, nil
	if l.isAsked() != some {
		p.asked.set(l, some)
		p.reviewParts(l)
	}
	p.wake(l)
	p.review(l)
}

// Isolates sets whether a failing path may be isolated, and the machine knows the turns and probes of a failing
// receiver.
func (p *Planner) Isolates(may bool) { p.receivers.mayIsolate = may }

// Called reports that the entry being made holds a user's command.
func (p *Planner) Called(now time.Time) {
	p.turnTo(now)
	p.backlog.called = now
}

// Ended reports that the entry being made settles an attempt of a lane. how describes the receiver's part in the
// outcome; nil: none. A lane that has become pulled meanwhile has no receiver to learn of. Ended comes before Plan, so
// that the same entry fills the freed place.
func (p *Planner) Ended(now time.Time, key task.Lane, how *Ending) {
	p.turnTo(now)
	l, ok := p.lanes[key.Receiver()]
	if !ok {
		return
	}
	p.enter(l)
	if how != nil && !l.Pulled {
		p.learn(l, *how)
	}
	l.draft.freed++
	p.wake(l)
}

// Entry describes an applied entry. The zero Entry stands for one without commands, which was not proposed.
type Entry struct {
	Proposed bool
	Took     time.Duration   // from its proposal until it was applied
	Lanes    []task.LaneLoad // loads of the lanes that it changed
	Grants   []task.Grant
	Renewed  bool // a Takeover made the grants: their attempts may have begun long ago
}

// Applied ends an entry. It splits the entry's grants into those to start and those to give back because their lane's
// gate was closed without the machine's knowledge. Renewed grants all start.
func (p *Planner) Applied(now time.Time, e Entry) (start, back []task.Grant) {
	p.turnTo(now)
	if e.Proposed {
		p.advanceBacklog(now, e)
	}
	start, back = p.part(e)
	p.endDraft()
	p.waited = false
	for _, load := range e.Lanes {
		p.update(load)
	}
	p.report()
	return start, back
}

// Passed ends an entry that was made without a plan and without Ended. It returns false, and the caller must call
// Applied, if the entry has changed a lane, or a consumer waits for an answer.
func (p *Planner) Passed(e Entry) bool {
	if len(e.Lanes)+len(e.Grants)+len(p.looks.lanes) > 0 {
		return false
	}
	p.backlog.timed(e.Took)
	return true
}

// advanceBacklog tells the backlog of an entry, and its namespaces of the burst that the entry ends.
func (p *Planner) advanceBacklog(now time.Time, e Entry) {
	before, rested := p.backlog.granted, p.backlog.until
	p.backlog.applied(now, e.Took, len(e.Grants), p.waited, func() int { return waitingBeside(e.Grants, e.Lanes) })
	rests := !p.backlog.until.Equal(rested)
	if rests || p.backlog.granted > before {
		p.spaces.attribute(e.Grants)
	}
	if rests || before > 0 && p.backlog.granted == 0 {
		p.spaces.endBurst(rests)
	}
}

// part splits an entry's grants into those to start and those to give back.
func (p *Planner) part(e Entry) (start, back []task.Grant) {
	if e.Renewed || len(e.Grants) == 0 {
		return e.Grants, nil
	}
	start = make([]task.Grant, 0, len(e.Grants))
	for _, g := range e.Grants {
		if p.admit(g) {
			g.Probe = g.Tag == 0 && p.isProbe(p.lanes[g.Lane.Receiver()])
			start = append(start, g)
		} else {
			back = append(back, g)
		}
	}
	return start, back
}

// admit reports whether a grant may start.
func (p *Planner) admit(g task.Grant) bool {
	l := p.open(g.Lane.Receiver())
	switch q := l.queue; {
	case q.isShut(), l.isStranded():
		return false
	case q.permits != nil:
		return q.permits.Take(p.now)
	case g.Tag == 0 && l.throttle.Open() && l.draft.granted == 0:
		return false
	}
	p.enter(l)
	l.draft.granted = max(l.draft.granted-1, 0)
	return true
}

// lookAgain is the pause between looks at lanes that are held back: no event of this shard tells that attempts of other
// shards have ended.
const lookAgain = 100 * time.Millisecond

// Next returns the instant at which the next plan may grant a task: now, if it already may. ok is false if only an
// event changes that.
func (p *Planner) Next(now time.Time) (at time.Time, ok bool) {
	p.turnTo(now)
	at, ok = p.wakeSleepers()
	if again := now.Add(lookAgain); p.holding.len() > 0 && (!ok || at.After(again)) {
		at, ok = again, true
	}
	switch {
	case len(p.receivers.isolations) > 0:
		return now, true
	case !p.mayGrant():
		return at, ok
	case !p.backlog.isResting(now) || p.isFresh():
		return now, true
	case ok && at.Before(p.backlog.until):
		return at, true
	}
	return p.backlog.until, true
}

// mayGrant reports whether the next plan may grant a task, apart from rests.
func (p *Planner) mayGrant() bool {
	return p.woken.Len()+p.serving.len() > 0 || p.mayWake()
}

// Stats holds counts of a planner's contents.
type Stats struct {
	Lanes    int // records of lanes with tasks or demands, and remembered ones
	Firing   int // attempts and leases under way
	Pushed   int // attempts alone, without leases
	Broken   int // lanes whose breaker is open
	Woken    int // lanes that the next plan looks at
	Asleep   int // lanes that an instant wakes
	HeldBack int // lanes that fewer attempts under way wake
	Serving  int // limited queues whose lines the next plan serves
	Looks    int // open questions of consumers, see Look
}

// Stats returns counts of the planner's contents.
func (p *Planner) Stats() Stats {
	held := 0
	for _, q := range p.holding.members {
		held += q.heldBack.len()
	}
	return Stats{
		Lanes: len(p.lanes), Firing: p.firing, Pushed: p.pushed, Broken: len(p.broken.lanes),
		Woken: p.woken.Len(), Asleep: len(p.asleep), HeldBack: held, Serving: p.serving.len(),
		Looks: len(p.looks.lanes),
	}
}
