package dispatch

import (
	"fmt"
	"testing"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/internal/throttle"
)

var host = task.Lane{Namespace: "default", Queue: "q", Destination: "http://x:80"}

// pathLane returns the lane of a path of host.
func pathLane(path string) task.Lane {
	l := host
	l.Path = path
	return l
}

// judged is a planner with tasks that wait for host, whose attempts end as the test says.
type judged struct {
	*testing.T
	*world
}

func newJudged(t *testing.T, waiting int) judged {
	j := judged{t, newWorld(t, 1000)}
	j.due(host, waiting)
	j.entry(true)
	return j
}

// ends ends n attempts of a lane, each at the URL of a path.
func (j judged) ends(n int, l task.Lane, path string, how throttle.Ending) {
	for range n {
		j.planner.Ended(j.now, l, &Ending{Ending: how, URL: "http://x" + path, Error: "500"})
	}
}

// isolated returns the paths that the next plan isolates or, after a minus sign, no longer isolates.
func (j judged) isolated() (paths []string) {
	for _, op := range j.planner.Plan(j.now, false).Isolations {
		sign := ""
		if op.End {
			sign = "-"
		}
		paths = append(paths, sign+op.Lane.Path)
	}
	return paths
}

// apply tells the planner the load of a lane.
func (j judged) apply(load task.LaneLoad) {
	j.planner.Applied(j.now, Entry{Proposed: true, Lanes: []task.LaneLoad{load}})
}

func (j judged) want(what string, got, want any) {
	j.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		j.Errorf("%s: %v, want %v", what, got, want)
	}
}

var (
	good    = throttle.Ending{Delivered: true, Took: time.Millisecond}
	failure = throttle.Ending{Took: time.Millisecond}
	refusal = throttle.Ending{Refused: true, Took: time.Millisecond}
)

// Only web servers have slow answers: a broker confirms late when it has much to confirm.
func TestWindowOfABroker(t *testing.T) {
	for url, want := range map[string]int{
		"http://x:80": 1, "https://x:443": 1, "amqp://x:5672": testThrottle.Max, "nats://x:4222": testThrottle.Max,
	} {
		j := newJudged(t, 50)
		lane := task.Lane{Namespace: "default", Queue: "q", Destination: url}
		j.apply(task.LaneLoad{Lane: lane, Ready: 50, Waiting: [5]int32{2: 50}})
		j.ends(1, lane, "", good)
		j.ends(200, lane, "", throttle.Ending{Delivered: true, Took: time.Second})
		j.want("window of "+url, j.planner.lanes[lane].throttle.Window(), want)
	}
}

// A path is isolated after eight failures in a row, and the destination is excused from them.
func TestPathIsIsolated(t *testing.T) {
	j := newJudged(t, 50)
	j.ends(5, host, "/bad", failure)
	j.ends(1, host, "/good", good)
	j.ends(2, host, "/bad?n=1", failure)
	j.want("after seven failures", j.isolated(), "[]")
	j.ends(1, host, "/bad", failure)
	j.want("after eight failures", j.isolated(), "[/bad]")
	j.want("failures of the destination", j.planner.lanes[host].throttle.Run(), 0)
	j.ends(20, host, "/bad", failure) // they began before
	j.want("failures of the destination", j.planner.lanes[host].throttle.Run(), 0)

	j.apply(task.LaneLoad{Lane: pathLane("/bad"), Isolated: true, Ready: 1, Waiting: [5]int32{2: 1}})
	l := j.planner.lanes[pathLane("/bad")]
	j.want("failures of the path", l.throttle.Run(), 28)
	j.want("its breaker is open", l.throttle.Open(), true)
	j.want("broken receivers", len(j.planner.Broken()), 1)
}

// A success of the path ends its run, and refusals are neither failures nor successes.
func TestRunOfPath(t *testing.T) {
	j := newJudged(t, 50)
	for range 10 {
		j.ends(7, host, "/flaky", failure)
		j.ends(1, host, "/flaky", good)
		j.ends(40, host, "/refuses", refusal)
	}
	j.want("isolated", j.isolated(), "[]")
	j.want("the breaker is open", j.planner.lanes[host].throttle.Open(), false)
	j.want("paths that fail", len(j.planner.lanes[host].receiver.paths), 0)
	j.ends(7, host, "/flaky", failure)
	j.ends(40, host, "/flaky", refusal)
	j.ends(1, host, "/flaky", failure)
	j.want("isolated", j.isolated(), "[/flaky]")
}

// Many paths that fail once are judged together: they open the breaker of their destination, and few are remembered.
func TestManyPaths(t *testing.T) {
	j := newJudged(t, 50)
	for i := range 1000 {
		j.ends(1, host, fmt.Sprint("/orders/", i), failure)
	}
	j.want("isolated", j.isolated(), "[]")
	j.want("the breaker is open", j.planner.lanes[host].throttle.Open(), true)
	if n := len(j.planner.lanes[host].receiver.paths); n > maxPaths {
		t.Errorf("%d paths are remembered", n)
	}
}

// Attempts that hang free their places in the window of the destination, up to a bound, and isolate their path.
func TestHangingPath(t *testing.T) {
	j := newJudged(t, 100)
	window := testThrottle.Start
	j.want("under way", j.planner.lanes[host].Firing, window)
	for i := range window {
		j.planner.Hangs(j.now, host, fmt.Sprint("http://x/", i))
	}
	j.entry(false)
	j.want("under way", j.planner.lanes[host].Firing, 2*window)
	for range isolateAfter {
		j.planner.Hangs(j.now, host, "http://x/hangs")
	}
	j.want("isolated", j.isolated(), "[/hangs]")
	for range 10 {
		for range window {
			j.planner.Hangs(j.now, host, "http://x/other")
		}
		j.entry(false)
	}
	if n := j.planner.lanes[host].Firing; n > testThrottle.Max {
		t.Errorf("%d under way", n)
	}
}

// Attempts that hang and fail on many paths open the breaker of their destination, unless another path succeeded
// meanwhile.
func TestHangingPaths(t *testing.T) {
	for _, answers := range []bool{true, false} {
		j := newJudged(t, 100)
		hang := func(n int) {
			j.planner.Hangs(j.now, host, fmt.Sprint("http://x/orders/", n))
		}
		for n := range testThrottle.Trip {
			hang(n)
		}
		if j.now = j.now.Add(5 * time.Second); answers {
			j.ends(1, host, "/good", good)
		}
		j.now = j.now.Add(10 * time.Second)
		for n := range testThrottle.Trip {
			late := throttle.Ending{TimedOut: true, Took: 15 * time.Second}
			j.planner.Ended(j.now, host, &Ending{
				Ending: late, URL: fmt.Sprint("http://x/orders/", n), Error: "timeout", Hung: true,
			})
		}
		j.want("the breaker is open", j.planner.lanes[host].throttle.Open(), !answers)
	}
}

// The lane of an isolated path goes once it has no task and no pause of its breaker runs.
func TestIsolationEnds(t *testing.T) {
	j := newJudged(t, 50)
	j.ends(isolateAfter, host, "/bad", failure)
	j.want("isolated", j.isolated(), "[/bad]")
	lane := pathLane("/bad")
	j.apply(task.LaneLoad{Lane: lane, Isolated: true, Retrying: 1})
	j.want("with a task between attempts", j.isolated(), "[]")
	j.ends(testThrottle.Trip, lane, "/bad", failure)
	j.apply(task.LaneLoad{Lane: lane, Isolated: true})
	j.want("during a pause", j.isolated(), "[]")
	j.now = j.now.Add(testThrottle.MinPause)
	j.planner.Next(j.now)
	j.want("after the pause", j.isolated(), "[-/bad]")
	j.apply(task.LaneLoad{Lane: lane})
	j.ends(1, host, "/bad", failure)
	j.want("after one more failure", j.isolated(), "[/bad]")
}

// TestAttemptsAtAReceiverThatIsDown checks that attempts of a path whose breaker is still closed are probes once the
// receiver has failed on all paths, and that the first of them opens it.
func TestAttemptsAtAReceiverThatIsDown(t *testing.T) {
	j := newJudged(t, 50)
	lane := pathLane("/few")
	j.apply(task.LaneLoad{Lane: lane, Isolated: true, Ready: 9, Waiting: [5]int32{2: 9}})
	begin := func() task.Grant {
		start, _ := j.planner.Applied(j.now, Entry{Proposed: true, Grants: []task.Grant{{Lane: lane, Fence: 1}}})
		return start[0]
	}
	j.want("a probe of a receiver that is well", begin().Probe, false)
	for i := range testThrottle.Trip {
		j.ends(1, host, fmt.Sprint("/", i), failure)
	}
	j.want("the breaker is open", j.planner.lanes[lane].throttle.Open(), false)
	j.want("a probe of a receiver that is down", begin().Probe, true)
	j.ends(1, lane, "/few", failure)
	j.want("the breaker is open", j.planner.lanes[lane].throttle.Open(), true)
}

// All open breakers of a destination share the pace of probes.
func TestProbesShareTheirPace(t *testing.T) {
	j := newJudged(t, 50)
	for i := range 5 {
		path := fmt.Sprint("/", i)
		j.ends(isolateAfter, host, path, failure)
		j.isolated()
		j.apply(task.LaneLoad{Lane: pathLane(path), Isolated: true, Ready: 9, Waiting: [5]int32{2: 9}})
		j.ends(testThrottle.Trip, pathLane(path), path, failure)
	}
	j.want("broken", j.planner.Stats().Broken, 5)
	probes := 0
	for range 100 {
		j.now = j.now.Add(testThrottle.MinPause / 10)
		for _, g := range j.planner.Plan(j.now, false).Grants {
			if g.Lane.Path != "" {
				probes += int(g.Max)
				j.planner.Applied(j.now, Entry{Proposed: true})
				j.ends(1, laneNamed(g.Lane), g.Lane.Path, failure)
			}
		}
		j.planner.Applied(j.now, Entry{Proposed: true})
	}
	if probes == 0 || probes > 11 {
		t.Errorf("%d probes in ten pauses", probes)
	}
}
