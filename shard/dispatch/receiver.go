package dispatch

import (
	"cmp"
	"slices"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/internal/throttle"
)

const (
	// isolateAfter is the number of failures in a row, attempts that hang included, after which a path gets a lane of its
	// own.
	isolateAfter = 8
	// maxIsolations is the number of Isolate commands in one entry.
	maxIsolations = 64
	// aliveFor is the time after a success on any path of a receiver in which pauses between probes do not grow.
	aliveFor = time.Minute
)

// maxPaths is the largest number of paths of one receiver whose failures are counted.
const maxPaths = 2 * task.MaxIsolatedPaths

// receiver is the planner's record of one destination of a queue with an attempt that failed or hangs.
type receiver struct {
	lanes     int              // of the destination and its isolated paths; the receiver is forgotten with the last one
	paths     map[string]*path // paths that fail
	isolated  int              // isolated paths, those asked for included
	run       int              // failures since the last success, on all paths
	succeeded time.Time        // the last success on any path
	probe     time.Time        // no probe of any path begins before this instant
}

// path is the record of one path that fails.
type path struct {
	lane     *lane // of the path; nil: there is none
	isolated bool  // or about to be; the lane then comes with the next entry
	failures int   // since the last success, of attempts in the destination's lane
	hung     int   // attempts in the destination's lane that hang
}

// Ending describes the end of an attempt.
type Ending struct {
	throttle.Ending
	URL   string // of the task's own target; empty: the task has none
	Error string // empty: a success
	Hung  bool   // Hangs has reported the attempt
}

func (e *Ending) isFailure() bool { return !e.Delivered && !e.Refused }

// Broken describes a receiver whose breaker is open.
type Broken struct {
	Queue     QueueName
	Receiver  string // the destination; empty: the queue's own target
	Path      string // empty: all paths that are not named
	Since     time.Time
	LastError string
	Waiting   int // tasks
}

// receivers holds the receivers with an attempt that failed or hangs, and the changes to their isolated paths.
type receivers struct {
	byLane     map[task.Lane]*receiver // by the lane of the destination
	mayIsolate bool                    // see Planner.Isolates
	isolated   int                     // isolated paths, those asked for included
	isolations []*fsmpb.Isolate        // of the next entry
}

// open returns the record of a lane's receiver and creates it if there is none.
func (rs *receivers) open(l *lane) *receiver {
	if l.receiver == nil {
		key := l.Lane.Destined()
		if rs.byLane[key] == nil {
			rs.byLane[key] = &receiver{paths: map[string]*path{}}
		}
		rs.join(l)
	}
	return l.receiver
}

// join adds a lane to the record of its receiver, if there is one.
func (rs *receivers) join(l *lane) {
	if len(rs.byLane) == 0 {
		return
	}
	if l.receiver = rs.byLane[l.Lane.Destined()]; l.receiver != nil {
		l.receiver.lanes++
	}
}

// leave removes a lane from the record of its receiver.
func (rs *receivers) leave(l *lane) {
	r := l.receiver
	if r == nil {
		return
	}
	l.receiver = nil
	if of := r.paths[l.Lane.Path]; of != nil && of.lane == l {
		delete(r.paths, l.Lane.Path)
	}
	if r.lanes--; r.lanes == 0 {
		delete(rs.byLane, l.Lane.Destined())
	}
}

// pathIn returns the record of the path of a URL. Without one, it creates one if create is set, and otherwise returns
// nil. The lane of a path, a queue's own target and a broker have no paths.
func (r *receiver) pathIn(l *lane, url string, create bool) (name string, of *path) {
	if l.Lane.Path != "" || l.Lane.Destination == "" || url == "" || len(r.paths) == 0 && !create {
		return "", nil
	}
	_, name, err := task.DestinationAndPath(url)
	if err != nil || name == "" {
		return "", nil
	}
	if of = r.paths[name]; of == nil && create {
		if len(r.paths) >= maxPaths {
			r.forgetLeast()
		}
		of = &path{}
		r.paths[name] = of
	}
	return name, of
}

// forgetLeast forgets the path that has failed least.
func (r *receiver) forgetLeast() {
	least, name := (*path)(nil), ""
	for n, of := range r.paths {
		if of.lane == nil && !of.isolated && (least == nil || cmp.Or(of.faults()-least.faults(), cmp.Compare(n, name)) < 0) {
			least, name = of, n
		}
	}
	delete(r.paths, name)
}

// faults returns the number of failures since the last success, attempts that hang included.
func (of *path) faults() int { return of.failures + of.hung }

// Hangs reports that an attempt of a lane has been under way for so long that its receiver hangs. In the lane of a
// destination with paths, the attempt no longer counts in the window. url is that of the task's own target.
func (p *Planner) Hangs(now time.Time, key task.Lane, url string) {
	p.turnTo(now)
	l, ok := p.lanes[key.Receiver()]
	if !ok || l.Pulled {
		return
	}
	switch name, of := p.receivers.open(l).pathIn(l, url, true); {
	case of != nil:
		of.hung++
		l.hung++
		p.isolate(l, name, of)
		p.wake(l)
	case l.Lane.Path != "":
		l.hung++
	}
}

// learn records the end of an attempt at a lane's receiver. An attempt in the lane of a destination counts for its path
// alone once that is isolated.
func (p *Planner) learn(l *lane, e Ending) {
	failed := e.isFailure()
	if l.receiver == nil && !failed {
		p.judge(l, e)
		return
	}
	r := p.receivers.open(l)
	name, of := r.pathIn(l, e.URL, failed)
	if e.Hung {
		l.hung = max(l.hung-1, 0)
	}
	if e.Hung && of != nil {
		of.hung = max(of.hung-1, 0)
	}
	switch {
	case e.Delivered:
		r.run, r.succeeded = 0, p.now
	case failed:
		r.run++
	}
	e.Alive, e.Down = p.isAlive(r), p.isDown(r)
	if of == nil {
		p.judge(l, e)
		return
	}
	if failed {
		of.failures++
	} else if e.Delivered {
		of.failures = 0
	}
	switch {
	case of.isolated && of.lane != nil:
		p.judge(of.lane, e)
	case of.isolated:
	case failed && e.Hung && r.succeeded.After(p.now.Add(-e.Took)):
		p.followPath(l, name, of) // other paths answered meanwhile: the destination does not hang
	default:
		p.judge(l, e)
		p.followPath(l, name, of)
	}
}

// isAlive reports whether an attempt at any path of a receiver has lately succeeded.
func (p *Planner) isAlive(r *receiver) bool { return p.now.Sub(r.succeeded) < aliveFor }

// isDown reports whether a receiver fails on all of its paths.
func (p *Planner) isDown(r *receiver) bool { return r.run >= p.cfg.Throttle.Trip && !p.isAlive(r) }

// isProbe reports whether an attempt that begins in a lane is a probe: the lane's breaker is open, or it opens with the
// next failure, since the receiver is down.
func (p *Planner) isProbe(l *lane) bool {
	return p.receivers.mayIsolate && (l.throttle.Open() || l.receiver != nil && p.isDown(l.receiver))
}

// followPath isolates a path that fails, and forgets one that does not.
func (p *Planner) followPath(l *lane, name string, of *path) {
	switch {
	case of.faults() > 0:
		p.isolate(l, name, of)
	case of.lane != nil:
		p.close(of.lane)
	default:
		delete(l.receiver.paths, name)
	}
}

// judge tells a lane's throttle of the end of an attempt.
func (p *Planner) judge(l *lane, e Ending) {
	e.Full, e.Broker = l.Ready > 0 || l.Firing >= l.throttle.Window(), l.isBroker()
	l.throttle.End(p.cfg.Throttle, p.now, e.Ending)
	if e.isFailure() {
		l.lastError = e.Error
	}
	p.noteBreaker(l)
}

// noteBreaker follows the opening and closing of a lane's breaker.
func (p *Planner) noteBreaker(l *lane) {
	if open := l.throttle.Open(); open != p.broken.has(l) {
		p.broken.set(l, open)
		p.reviewParts(l)
		p.wake(l)
	}
}

// isolate asks for a lane for a path that fails, and takes the path's failures off the lane of its destination.
func (p *Planner) isolate(l *lane, name string, of *path) {
	rs := &p.receivers
	if !rs.mayIsolate || of.isolated || of.faults() < isolateAfter || len(rs.isolations) >= maxIsolations ||
		l.receiver.isolated >= task.MaxIsolatedPaths || rs.isolated >= task.MaxIsolated {
		return
	}
	rs.setIsolated(l.receiver, of, true)
	key := laneOf(l.Lane)
	key.Path = name
	rs.isolations = append(rs.isolations, &fsmpb.Isolate{Lane: key})
	l.throttle.Excuse(p.cfg.Throttle, of.failures)
	p.noteBreaker(l)
	p.wake(l)
}

func (rs *receivers) setIsolated(r *receiver, of *path, isolated bool) {
	if of.isolated == isolated {
		return
	}
	n := 1
	if of.isolated = isolated; !isolated {
		n = -1
	}
	r.isolated += n
	rs.isolated += n
}

// followIsolation follows the state machine: a path has got a lane of its own, or has lost it. A new lane begins with
// the failures of its path, and the path with those of the lane.
func (p *Planner) followIsolation(l *lane, isolated bool) {
	r := p.receivers.open(l)
	of := r.paths[l.Lane.Path]
	if of == nil {
		of = &path{}
		r.paths[l.Lane.Path] = of
	}
	if of.lane == nil {
		l.throttle.Blame(p.cfg.Throttle, p.now, of.failures)
		p.noteBreaker(l)
	}
	of.lane, of.failures = l, l.throttle.Run()
	p.receivers.setIsolated(r, of, isolated)
}

// restIsolated ends the isolation of a path without tasks, once no pause of its breaker runs. Otherwise new tasks would
// take the place of probes.
func (p *Planner) restIsolated(l *lane) {
	if _, until := p.throttled(l); !until.IsZero() {
		p.asleep.add(l, until)
		return
	}
	p.receivers.endIsolation(l)
}

// endIsolation asks to end the isolation of a path without tasks. The machine does not while a task has come.
func (rs *receivers) endIsolation(l *lane) {
	if rs.mayIsolate && !l.ending && len(rs.isolations) < maxIsolations {
		l.ending = true
		rs.isolations = append(rs.isolations, &fsmpb.Isolate{Lane: laneOf(l.Lane), End: true})
	}
}

// takeIsolations returns the changes for the next entry.
func (rs *receivers) takeIsolations() []*fsmpb.Isolate {
	isolations := rs.isolations
	rs.isolations = nil
	return isolations
}

// isUnwell reports whether attempts of a lane fail or hang.
func (l *lane) isUnwell() bool { return l.throttle.Run()+l.hung > 0 || l.throttle.Open() }

// occupied returns the number of attempts that count in a lane's window after the entry being made. Attempts of a
// destination that hang do not.
func (l *lane) occupied() int {
	if l.Lane.Path != "" {
		return l.inFlight()
	}
	return max(l.inFlight()-l.hung, 0)
}

// throttled returns the number of attempts that a lane's receiver takes now. If it is left alone, until is the end of
// that pause. The open breakers of one receiver share the pace of one.
func (p *Planner) throttled(l *lane) (room int, until time.Time) {
	room, until = l.throttle.Room(p.now, l.occupied())
	if l.hung > 0 {
		room = max(min(room, p.cfg.Throttle.Max-l.inFlight()), 0)
	}
	if room > 0 && l.throttle.Open() && p.now.Before(l.receiver.probe) {
		return 0, l.receiver.probe
	}
	return room, until
}

// turnOf returns the turn of the next n grants of a lane: 0 while its attempts succeed.
func (p *planning) turnOf(l *lane, n int) uint32 {
	if l.throttle.Open() {
		l.receiver.probe = p.now.Add(p.cfg.Throttle.MinPause)
	}
	if !l.isUnwell() || !p.receivers.mayIsolate {
		return 0
	}
	turn := l.turn%3 + 3
	l.turn += uint32(n)
	return turn
}

// maxBroken is the largest number of receivers that Broken returns.
const maxBroken = 1024

// Broken returns the receivers whose breakers are open, those first that are broken for longest.
func (p *Planner) Broken() []Broken {
	all := make([]Broken, 0, min(len(p.broken.lanes), maxBroken))
	p.broken.walk(maxBroken, func(l *lane) bool {
		all = append(all, Broken{
			Queue: l.queue.QueueName, Receiver: l.Lane.Destination, Path: l.Lane.Path, Since: l.throttle.Since(),
			LastError: l.lastError, Waiting: l.waiting(),
		})
		return true
	})
	slices.SortFunc(all, func(a, b Broken) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Receiver, b.Receiver), cmp.Compare(a.Path, b.Path))
	})
	return all
}
