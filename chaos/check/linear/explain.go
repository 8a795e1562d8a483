package linear

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/history"
)

// explained is the number of failures that get an explanation. More explanations would add nothing.
const explained = 10

// failure describes an id with calls that are not linearizable, or not decided in time.
type failure struct {
	breach    check.Breach
	partition *partition // the shortest prefix that fails; nil: the failure is not explained
	info      porcupine.LinearizationInfo
	open      []*history.Call // the prefix's changing calls without an answer
}

// explain finds the shortest prefix of a life that fails, and the steps of it that fit into no order. A life that was
// not decided in time may have a short prefix that certainly fails.
func (v *judgement) explain(timeout time.Duration, fully bool) *failure {
	f := &failure{breach: check.Breach{ID: v.life.id, At: v.partition.end()}}
	if !fully {
		f.breach.What = "not linearizable"
		if v.result == porcupine.Unknown {
			f.breach.What = "not decided in time"
		}
		return f
	}
	cut, at := v.shortest(timeout / shortening)
	if last := judge(cut, v.partition.clocks, timeout); last.result == porcupine.Illegal {
		v.result = porcupine.Illegal
	}
	f.breach.At = at
	f.partition, f.open = newPartition(cut, v.partition.clocks), cut.open()
	_, f.info = porcupine.CheckOperationsVerbose(f.partition.model(thorough()), f.partition.operations(), timeout)
	f.breach.What = f.story(v.result, timeout)
	return f
}

// shortening is the divisor of the timeout for each prefix.
const shortening = 4

// shortest returns the shortest prefix that is not found linearizable, and its last instant. It searches by halving:
// every prefix of a linearizable history is linearizable.
func (v *judgement) shortest(timeout time.Duration) (*life, history.Instant) {
	ends := v.partition.ends()
	first := sort.Search(len(ends)-1, func(i int) bool {
		return judge(v.life.until(ends[i]), v.partition.clocks, timeout).result != porcupine.Ok
	})
	return v.life.until(ends[first]), ends[first]
}

// ends returns the instants at which the steps were answered, in order and without repeats.
func (p *partition) ends() []history.Instant {
	var ends []history.Instant
	for _, x := range p.steps {
		ends = append(ends, x.end)
	}
	slices.Sort(ends)
	return slices.Compact(ends)
}

func (p *partition) end() history.Instant {
	if ends := p.ends(); len(ends) > 0 {
		return ends[len(ends)-1]
	}
	return 0
}

// open returns the changing calls of unknown outcome.
func (l *life) open() []*history.Call {
	var open []*history.Call
	for _, c := range l.calls {
		if c.Kind.Changes() && c.Outcome != history.OK && c.Outcome != history.Failed {
			open = append(open, c)
		}
	}
	return open
}

// story describes the longest order that was found, by the states after it, and the steps that fit nowhere.
func (f *failure) story(result porcupine.CheckResult, timeout time.Duration) string {
	p := f.partition
	order := f.longest()
	seed := maphash.MakeSeed()
	now := start(seed)
	placed := map[*step]bool{}
	for _, x := range order {
		now = newSet(max(now.number, x.number), p.take(context.Background(), now, x, thorough()), seed)
		placed[x] = true
	}
	var left []string
	for _, x := range p.steps {
		if !placed[x] {
			left = append(left, x.String())
		}
	}
	verdict := "not linearizable"
	if result == porcupine.Unknown {
		verdict = fmt.Sprintf("not decided within %v", timeout)
	}
	return fmt.Sprintf("%s: the shortest prefix of which that can be said has %d calls and grants, and %d calls of "+
		"unknown outcome. After %d of them the task can be: %s. No way was found from there to: %s", verdict, len(p.steps),
		len(f.open), len(order), p.describe(now), strings.Join(left, " | "))
}

// longest returns the longest order that porcupine found.
func (f *failure) longest() []*step {
	var longest []*step
	for _, partial := range f.info.PartialLinearizationsOperations()[0] {
		if len(partial) <= len(longest) {
			continue
		}
		longest = longest[:0]
		for _, op := range partial {
			longest = append(longest, op.Input.(*step))
		}
	}
	return longest
}

// WriteHTML draws each explained failure to an HTML file of its own in dir, and returns the files' paths. It draws the
// remaining failures after an error, and returns all errors joined.
func (r *Result) WriteHTML(dir string) (paths []string, err error) {
	for i, f := range r.failures {
		if f.partition == nil {
			continue
		}
		path := filepath.Join(dir, fmt.Sprintf("linear-%d-%s.html", i+1, fileName(f.partition.id)))
		if failed := f.draw(path); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		paths = append(paths, path)
	}
	return paths, err
}

func fileName(id string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, id)
}

// draw writes porcupine's picture of a failure, with the calls of unknown outcome as annotations.
func (f *failure) draw(path string) (err error) {
	var notes []porcupine.Annotation
	for _, c := range f.open {
		notes = append(notes, porcupine.Annotation{
			Tag: "unknown outcome", Start: int64(c.Start), End: int64(f.breach.At), Description: describeAsk(c),
			Details: "it may happen at any time from here on, or never",
		})
	}
	info := f.info
	info.AddAnnotations(notes)
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return porcupine.Visualize(f.partition.model(thorough()), info, file) //nolint:misspell // its name
}

// String describes the step for a reader of a failed history: the request and its answer.
func (x *step) String() string {
	if g := x.grant; g != nil {
		kind := "attempt"
		if g.arrival.Pulled {
			kind = "lease"
		}
		return fmt.Sprintf("granted %d: %s %d with the payload of %d, due %s%s",
			x.number, kind, g.arrival.Attempt, g.wrote, clock(g.arrival.Due), x.impossible())
	}
	return fmt.Sprintf("%s → %s%s", describeAsk(x.call), describeAnswer(x.call), x.impossible())
}

func (x *step) impossible() string {
	if x.bad == "" {
		return ""
	}
	return " (" + x.bad + ")"
}

// describeAsk describes a call without its answer.
func describeAsk(c *history.Call) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s", c.Op, c.Kind)
	a := c.Ask
	add := func(on bool, format string, value any) {
		if on {
			fmt.Fprintf(&b, format, value)
		}
	}
	add(a.FireAt != 0, " at %s", clock(a.FireAt))
	add(a.Delay != 0, " in %v", a.Delay)
	add(a.Fence != 0, " lease %d", a.Fence)
	add(a.IfRevision != 0, " if revision %d", a.IfRevision)
	add(a.IfAbsent, " if %s", "absent")
	add(a.OrSchedule, " or %s", "schedule")
	add(c.Kind == history.Patch && a.Body != 0, " and swap the %s", "payload")
	return b.String()
}

// describeAnswer describes a call's answer.
func describeAnswer(c *history.Call) string {
	a := c.Answer
	var parts []string
	add := func(on bool, format string, value any) {
		if on {
			parts = append(parts, fmt.Sprintf(format, value))
		}
	}
	add(a.Status != 0, "%d", a.Status)
	add(a.Cancel != "", "%s", a.Cancel)
	add(a.Replaced, "%s", "replaced")
	add(a.State != "", "%s", a.State)
	add(a.Revision != 0, "revision %d", a.Revision)
	add(a.Previous != "", "replaced %s", a.Previous)
	add(a.Attempts != 0, "%d attempts", a.Attempts)
	add(a.FireAt != 0, "due %s", clock(a.FireAt))
	add(a.Wrote != 0, "payload of %d", a.Wrote)
	if len(parts) == 0 {
		return "done"
	}
	return strings.Join(parts, ", ")
}

// shownStates is the largest number of states that describe lists.
const shownStates = 12

// describe lists the states in a set.
func (p *partition) describe(t *set) string {
	var lines []string
	for i, s := range t.states {
		if i == shownStates {
			lines = append(lines, fmt.Sprintf("… or %d others", len(t.states)-i))
			break
		}
		lines = append(lines, p.describeState(s))
	}
	return strings.Join(lines, "; or ")
}

// describeState describes a state in words. A field that is not known is shown by its lower bound.
func (p *partition) describeState(s state) string {
	if s.phase == absent {
		return "absent" + p.describeUsed(s)
	}
	parts := []string{
		s.phase.String(), "revision " + bound(s.exact, s.rev), bound(s.counted, s.attempts) + " attempts",
	}
	if s.fireAt != 0 {
		parts = append(parts, "due "+bound(s.known, clock(s.fireAt)))
	}
	if s.wrote != 0 {
		parts = append(parts, fmt.Sprintf("payload of %d", s.wrote))
	}
	if s.fence != 0 {
		parts = append(parts, fmt.Sprintf("fence %d", s.fence))
	}
	if s.outcome != none {
		parts = append(parts, "cancel answers "+s.outcome.String())
	}
	return strings.Join(parts, ", ") + p.describeUsed(s)
}

// describeUsed describes the calls of unknown outcome that must have happened for a state.
func (p *partition) describeUsed(s state) string {
	var parts []string
	for class := range len(s.used) {
		if n := s.used[class]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d × %s", n, p.events[class].String()))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (if these happened: " + strings.Join(parts, ", ") + ")"
}

func (e *event) String() string {
	return describeAsk(&history.Call{Op: e.n, Kind: e.kind, Ask: e.ask})
}

func bound[T any](exact bool, value T) string {
	if exact {
		return fmt.Sprint(value)
	}
	return fmt.Sprintf("≥%v", value)
}

func clock(at history.Instant) string {
	if at == 0 {
		return "?"
	}
	return at.Time().Format("15:04:05.000")
}
