package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// testCase is one case of a file.
type testCase struct {
	Name  string     `yaml:"case"`
	Peers int        `yaml:"peers"`
	Peer  []exchange `yaml:"peer"` // scripted: the case needs no cluster
	Steps []step     `yaml:"steps"`
	// Each repeats the case with these variables, one list member at a time.
	Each []map[string]any `yaml:"each"`
}

// step is one action of a case: exactly one of the first group.
type step struct {
	Call     string         `yaml:"call"`
	Await    string         `yaml:"await"`    // name of a call in the background
	Delivery bool           `yaml:"delivery"` // the next webhook
	Kill     string         `yaml:"kill_leader_of"`
	Stop     string         `yaml:"stop_node"` // a node's name
	Restore  bool           `yaml:"restore"`   // starts the ended nodes
	Trap     map[string]any `yaml:"trap"`      // method, path, kill_leader_of
	Repeat   any            `yaml:"repeat"`    // a number: Steps are played as often, with the variable n
	Steps    []step         `yaml:"steps"`

	Client string            `yaml:"client"` // "": main
	With   map[string]any    `yaml:"with"`
	Name   string            `yaml:"background"` // the call goes on beside the next steps
	Until  time.Duration     `yaml:"until"`      // repeats the call until its answer is the wanted one
	Want   any               `yaml:"want"`
	Error  map[string]any    `yaml:"error"`
	Hidden string            `yaml:"without"` // a text that the error must not show
	Save   map[string]string `yaml:"save"`
}

// suite is a set of cases with everything that they need.
type suite struct {
	cases    []testCase
	outside  map[string]string // operations that no client has, with the reasons
	contract *contract
	stage    *stage
	kills    int // of leaders, in the case that kills many
}

// readCases reads all files of a folder, in the order of their names.
func readCases(dir string) (*suite, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	s := new(suite)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var file struct {
			Outside map[string]string `yaml:"outside"`
			Cases   []testCase        `yaml:"cases"`
		}
		in := yaml.NewDecoder(bytes.NewReader(text))
		in.KnownFields(true)
		if err := in.Decode(&file); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		s.cases = append(s.cases, file.Cases...)
		if file.Outside != nil {
			s.outside = file.Outside
		}
	}
	return s, nil
}

const caseTime = 3 * time.Minute

// runAll runs the cases that match on a driver, and returns the faults by the cases' names.
func (s *suite) runAll(ctx context.Context, d *driver, matching func(string) bool, covered *coverage) map[string]error {
	faults := map[string]error{}
	for i, c := range s.cases {
		if !matching(c.Name) {
			continue
		}
		each := c.Each
		if each == nil {
			each = []map[string]any{{}}
		}
		faults[c.Name] = nil
		for j, vars := range each {
			run := &run{suite: s, driver: d, covered: covered, vars: s.variables(fmt.Sprintf("%s-%d-%d", d.name, i, j))}
			err := run.set(vars)
			if err == nil {
				err = run.play(ctx, &c)
			}
			if err != nil && len(vars) > 0 {
				err = fmt.Errorf("%v: %w", vars, err)
			}
			faults[c.Name] = errors.Join(faults[c.Name], err)
		}
	}
	return faults
}

// variables returns those of a case, whose unique text is c.
func (s *suite) variables(c string) variables {
	return variables{"c": c, "kills": s.kills, "two_a_kill": 2 * s.kills}
}

// run is one case on one driver.
type run struct {
	suite   *suite
	driver  *driver
	covered *coverage
	vars    variables
	hook    *hook
	calls   map[string]<-chan answer // in the background, by their names
}

// set sets the variables of a repetition, whose values may refer to others.
func (r *run) set(vars map[string]any) error {
	filled, err := r.vars.fill(vars)
	if err == nil {
		maps.Copy(r.vars, filled.(map[string]any))
	}
	return err
}

func (r *run) play(ctx context.Context, c *testCase) (err error) {
	ctx, cancel := context.WithTimeout(ctx, caseTime)
	defer cancel()
	r.calls = map[string]<-chan answer{}
	seen := func(method, path string) {
		if name := r.suite.contract.of(method, path); name != "" {
			r.covered.add(r.covered.operations, name)
		}
	}
	main := map[string]any{"timeout": "20s", "attempt_timeout": "5s"}
	if c.Peer != nil {
		script := newScript(c.Peer, c.Peers, r.vars, seen)
		defer func() { err = errors.Join(err, script.close()) }()
		main["addresses"] = r.vars["peers"]
	} else {
		stage := r.suite.stage
		stage.mu.Lock()
		stage.seen = seen
		stage.mu.Unlock()
		defer func() { err = errors.Join(err, stage.restore(context.WithoutCancel(ctx))) }()
		r.hook = newHook()
		defer r.hook.server.Close()
		r.vars["hook"], r.vars["addresses"], r.vars["key"] = r.hook.server.URL, stage.addresses(), stage.key
		main["addresses"], main["key"] = stage.addresses(), stage.key
	}
	return r.steps(ctx, append([]step{{Call: "open", With: main}}, c.Steps...))
}

func (r *run) steps(ctx context.Context, steps []step) error {
	for i, step := range steps {
		if err := r.step(ctx, &step); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// repeat plays the steps of a step n times.
func (r *run) repeat(ctx context.Context, s *step, times any) error {
	n, ok := times.(int)
	if !ok {
		return fmt.Errorf("repeat: %v is not a number", times)
	}
	for i := range n {
		r.vars["n"] = i + 1
		if err := r.steps(ctx, s.Steps); err != nil {
			return fmt.Errorf("repetition %d: %w", i+1, err)
		}
	}
	return nil
}

func (r *run) step(ctx context.Context, s *step) error {
	filled, err := r.vars.fill(map[string]any{"with": s.With, "want": s.Want, "error": s.Error, "trap": s.Trap,
		"kill": s.Kill, "stop": s.Stop, "repeat": s.Repeat})
	if err != nil {
		return err
	}
	parts := filled.(map[string]any)
	stage := r.suite.stage
	switch {
	case s.Repeat != nil:
		return r.repeat(ctx, s, parts["repeat"])
	case s.Kill != "":
		return stage.killLeader(ctx, fmt.Sprint(parts["kill"]))
	case s.Stop != "":
		return stage.end(fmt.Sprint(parts["stop"]), stage.cluster.Terminate)
	case s.Restore:
		return stage.restore(ctx)
	case s.Trap != nil:
		r.setTrap(ctx, parts["trap"].(map[string]any))
		return nil
	case s.Delivery:
		select {
		case got := <-r.hook.got:
			return r.judge(s, parts, got)
		case <-ctx.Done():
			return errors.New("no delivery comes")
		}
	case s.Await != "":
		return r.end(ctx, s, parts, r.calls[s.Await])
	}
	deadline := time.Now().Add(s.Until)
	for {
		answers, err := r.begin(s, parts["with"].(map[string]any))
		if err != nil {
			return err
		}
		if s.Name != "" {
			r.calls[s.Name] = answers
			return nil
		}
		if err = r.end(ctx, s, parts, answers); err == nil || time.Now().After(deadline) {
			return err
		}
		pause := time.NewTimer(50 * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return err
		}
	}
}

// begin sends a step's call to the driver.
func (r *run) begin(s *step, with map[string]any) (<-chan answer, error) {
	q := request{Call: s.Call, Client: s.Client, With: with}
	if q.Client == "" {
		q.Client = "main"
	}
	if o := r.suite.contract.named(s.Call); o != nil {
		q.Method, q.Path = o.method, o.path
		for name, value := range with {
			q.Path = strings.ReplaceAll(q.Path, "{"+name+"}", url.PathEscape(fmt.Sprint(value)))
		}
	}
	return r.driver.begin(q)
}

// end awaits the answer of a call and compares it.
func (r *run) end(ctx context.Context, s *step, parts map[string]any, answers <-chan answer) error {
	a, err := await(ctx, answers)
	if err != nil {
		return err
	}
	if s.Error == nil {
		if a.Error != nil {
			return fmt.Errorf("%s failed: %s", s.Call+s.Await, show(a.Error))
		}
		return r.judge(s, parts, a.Result)
	}
	if a.Error == nil {
		return fmt.Errorf("%s should fail, and returned %s", s.Call+s.Await, show(a.Result))
	}
	if diff := match(parts["error"], a.Error, "error"); diff != "" {
		return errors.New(diff + " in " + show(a.Error))
	}
	if s.Hidden != "" && strings.Contains(show(a.Error), s.Hidden) {
		return errors.New("the error shows " + s.Hidden)
	}
	if kind, ok := a.Error["type"].(string); ok {
		r.covered.add(r.covered.problems, kind)
	}
	return nil
}

// judge compares a result, and saves its parts.
func (r *run) judge(s *step, parts map[string]any, got any) error {
	if s.Want != nil {
		if diff := match(parts["want"], got, "result"); diff != "" {
			return errors.New(diff)
		}
	}
	for name, path := range s.Save {
		value, err := at(got, path)
		if err != nil {
			return err
		}
		r.vars[name] = value
	}
	return nil
}

func (r *run) setTrap(ctx context.Context, with map[string]any) {
	t := &trap{method: fmt.Sprint(with["method"]), path: fmt.Sprint(with["path"]), done: make(chan error, 1)}
	t.then = func() error { return nil } // the answer alone is lost
	if task, ok := with["kill_leader_of"]; ok {
		t.then = func() error { return r.suite.stage.killLeader(ctx, fmt.Sprint(task)) }
	}
	r.suite.stage.mu.Lock()
	defer r.suite.stage.mu.Unlock()
	r.suite.stage.trap = t
}
