package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Node is the present state of a node.
type Node struct {
	Name     string // node-1, node-2, …
	HTTPAddr string // host:port
	PeerAddr string // host:port, for other nodes
	Dir      string // folder of belfry.log and belfry.pid, and of the data unless Data differs
	Data     string // data folder
	PID      int    // 0: the node does not run
	KeyFile  string // file with a key that may call it; empty: calls need none
}

// Cluster is a running local cluster. It is safe for concurrent use.
type Cluster struct {
	cfg     Config
	keyFile string // path of the admin key; empty: calls need no credentials
	events  chan Event
	stop    chan struct{}  // closed when Stop begins; no node starts afterwards
	watch   sync.WaitGroup // watchers and pending restarts

	mu      sync.Mutex // guards the fields below and the members' processes
	members []*member
	stopped bool
}

// member is a node and its process.
type member struct {
	Node
	place   Place
	build   Build
	erased  bool     // its first data is gone: it joins the cluster, also if it has formed it
	process *process // nil: the node does not run
	ending  Kind     // expected end of the running process; empty: none
}

// Start starts the nodes and returns when all of them are ready. The context bounds the start, not the cluster's life.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("local cluster: %w", err)
	}
	plan, err := openLayout(cfg)
	if err != nil {
		return nil, fmt.Errorf("local cluster: %w", err)
	}
	key, err := openKey(cfg)
	if err != nil {
		return nil, fmt.Errorf("local cluster: %w", err)
	}
	c := &Cluster{cfg: cfg, keyFile: key, events: make(chan Event, eventBacklog), stop: make(chan struct{})}
	for i, a := range plan.Nodes {
		c.members = append(c.members, c.newMember(i, a))
	}
	if err := c.startAll(ctx); err != nil {
		c.Stop()
		return nil, fmt.Errorf("local cluster: %w", err)
	}
	return c, nil
}

func (c *Cluster) newMember(i int, a addresses) *member {
	cfg := c.cfg
	name, place := "node-"+strconv.Itoa(i+1), cfg.place(i)
	dir := filepath.Join(cfg.DataDir, name)
	return &member{place: place, build: Build{Binary: cfg.Binary}, Node: Node{
		Name: name, HTTPAddr: cmp.Or(place.HTTPAddr, a.HTTP), PeerAddr: cmp.Or(place.PeerAddr, a.Peer),
		Dir: dir, Data: cmp.Or(place.Data, dir), KeyFile: c.keyFile,
	}}
}

// startAll starts every first node before it waits for any, because a new cluster forms only with all its founders.
func (c *Cluster) startAll(ctx context.Context) error {
	first := c.members
	if c.cfg.Founders > 0 {
		first = first[:c.cfg.Founders]
	}
	processes := make([]*process, len(first))
	for i, m := range first {
		var err error
		if processes[i], err = c.launch(m); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.StartTimeout)
	defer cancel()
	for i, m := range first {
		if err := awaitReady(ctx, c.nodeOf(m), processes[i]); err != nil {
			return err
		}
	}
	return nil
}

// nodeOf returns a member's present state, which changes when its process ends.
func (c *Cluster) nodeOf(m *member) Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return m.Node
}

// launch starts a node's process and watches it.
func (c *Cluster) launch(m *member) (*process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.stopped:
		return nil, errors.New("the cluster is stopped")
	case m.process != nil:
		return nil, fmt.Errorf("%s runs already, with pid %d", m.Name, m.PID)
	}
	if err := errors.Join(m.checkFree(), os.MkdirAll(m.Dir, 0o755)); err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	command := slices.Concat(m.place.Command, []string{m.build.Binary}, c.args(m))
	p, err := startProcess(command, m.place.Env, logPath(m.Dir))
	if err != nil {
		return nil, err
	}
	m.process, m.PID, m.ending = p, p.PID(), ""
	c.tell(Event{Node: m.Name, Kind: Started, PID: m.PID})
	c.watch.Go(func() { c.await(m, p) })
	return p, writePID(m.Dir, m.PID)
}

// checkFree returns an error if another program listens on the node's addresses and could be taken for the node. It
// skips addresses from the node's Place, which may belong to another host.
func (m *member) checkFree() error {
	var err error
	if m.place.HTTPAddr == "" {
		err = checkFree(m.HTTPAddr)
	}
	if m.place.PeerAddr == "" {
		err = errors.Join(err, checkFree(m.PeerAddr))
	}
	return err
}

func (c *Cluster) args(m *member) []string {
	args := []string{
		"serve", "--name", m.Name, "--data", m.Data, "--http", m.HTTPAddr, "--peer", m.PeerAddr,
		"--allow-webhook-cidr", "127.0.0.0/8", "--allow-webhook-cidr", "::1/128",
		"--allow-broker-cidr", "127.0.0.0/8", "--allow-broker-cidr", "::1/128",
	}
	if os.Getenv("GOMEMLIMIT") == "" { // the nodes would inherit the variable
		args = append(args, "--memory-limit", memoryShare(len(c.members)))
	}
	founders := cmp.Or(c.cfg.Founders, founders(len(c.members)))
	founds := slices.Contains(c.members[:founders], m) && !m.erased
	if founds {
		args = append(args, "--bootstrap-expect", strconv.Itoa(founders))
	}
	if join := c.othersThan(m); len(join) > 0 && !(founds && founders == 1) {
		args = append(args, "--join", strings.Join(join, ","))
	}
	if c.keyFile != "" && m.build.Binary == c.cfg.Binary { // another build may not know the flag
		args = append(args, "--root-key-file", c.keyFile)
	}
	return slices.Concat(args, c.cfg.ExtraArgs, m.place.Args, m.build.Args)
}

// founders returns how many of n nodes form the cluster. The others join it.
func founders(n int) int {
	switch {
	case n >= 5:
		return 5
	case n >= 3:
		return 3
	}
	return 1
}

func (c *Cluster) othersThan(m *member) []string {
	var others []string
	for _, other := range c.members {
		if other != m {
			others = append(others, other.PeerAddr)
		}
	}
	return others
}

// await waits for the end of a process and reports it. It starts the node again if Config.Restart is set.
func (c *Cluster) await(m *member, p *process) {
	<-p.Done()
	c.mu.Lock()
	event := Event{Node: m.Name, Kind: m.ending, PID: m.PID, Err: p.Err()}
	if event.Kind == "" {
		event.Kind = Died
	}
	m.process, m.PID, m.ending = nil, 0, ""
	removed := os.Remove(pidPath(m.Dir))
	c.tell(event)
	c.mu.Unlock()
	close(p.gone)
	if removed != nil && !errors.Is(removed, os.ErrNotExist) {
		c.say("%s: %v", m.Name, removed)
	}
	if event.Kind == Died && c.cfg.Restart {
		c.restart(m)
	}
}

// restartPause is the delay before a restart. It limits the rate of restarts of a node that cannot start.
const restartPause = time.Second

func (c *Cluster) restart(m *member) {
	pause := time.NewTimer(restartPause)
	defer pause.Stop()
	select {
	case <-c.stop:
		return
	case <-pause.C:
	}
	if _, err := c.launch(m); err != nil {
		c.say("%s is not started again: %v", m.Name, err)
	}
}

// tell publishes an event. The caller holds c.mu, so the events are in order.
func (c *Cluster) tell(e Event) {
	c.say("%s", e)
	select {
	case c.events <- e:
	default: // see eventBacklog
	}
}

func (c *Cluster) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.cfg.Out, format+"\n", args...) // there is no other place to report a failed write
}

// Events returns the events of the nodes. The channel buffers 256 events for a slow reader and is never closed.
func (c *Cluster) Events() <-chan Event { return c.events }

// Nodes returns the present states of the nodes, node-1 first.
func (c *Cluster) Nodes() []Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	nodes := make([]Node, len(c.members))
	for i, m := range c.members {
		nodes[i] = m.Node
	}
	return nodes
}

// URLs returns the base URLs of the nodes' HTTP interfaces.
func (c *Cluster) URLs() []string {
	var urls []string
	for _, m := range c.members {
		urls = append(urls, "http://"+m.HTTPAddr)
	}
	return urls
}

// StartNode starts a node that does not run and returns when it is ready.
func (c *Cluster) StartNode(ctx context.Context, name string) error {
	if err := c.Launch(name); err != nil {
		return err
	}
	return c.AwaitReady(ctx, name)
}

// Launch starts a node that does not run, and does not wait until it is ready.
func (c *Cluster) Launch(name string) error {
	m, err := c.member(name)
	if err != nil {
		return err
	}
	_, err = c.launch(m)
	return err
}

// Erase deletes the data of a node that does not run, as the loss of its disk does. Its log stays.
func (c *Cluster) Erase(name string) error {
	m, err := c.member(name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.process != nil {
		return fmt.Errorf("%s runs: its data stays", name)
	}
	m.erased = true
	entries, err := os.ReadDir(m.Data)
	for _, e := range entries {
		if path := filepath.Join(m.Data, e.Name()); path != logPath(m.Dir) && path != pidPath(m.Dir) {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	return err
}

// Build is a build of belfry.
type Build struct {
	Binary string   // path of the program
	Args   []string // further arguments of `belfry serve` that the build knows
}

// UseBuild makes a node run another build from its next start on.
func (c *Cluster) UseBuild(name string, build Build) error {
	m, err := c.member(name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m.build = build
	return nil
}

// AwaitReady returns when a started node is ready. The error has the end of the node's log if the node dies before.
func (c *Cluster) AwaitReady(ctx context.Context, name string) error {
	m, err := c.member(name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	p := m.process
	c.mu.Unlock()
	if p == nil {
		return fmt.Errorf("%s does not run", name)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.StartTimeout)
	defer cancel()
	return awaitReady(ctx, c.nodeOf(m), p)
}

// Kill ends a node with SIGKILL and returns when it has ended. The cluster does not restart it.
func (c *Cluster) Kill(name string) error { return c.end(name, syscall.SIGKILL, Killed) }

// Terminate sends a node SIGTERM and returns when it has ended. After Config.Grace it kills the node.
func (c *Cluster) Terminate(name string) error { return c.end(name, syscall.SIGTERM, Stopped) }

// Pause suspends a node with SIGSTOP. Resume continues it.
func (c *Cluster) Pause(name string) error { return c.Signal(name, syscall.SIGSTOP) }

// Resume continues a paused node.
func (c *Cluster) Resume(name string) error { return c.Signal(name, syscall.SIGCONT) }

// Signal sends a node a signal. A death from the signal counts as Died.
func (c *Cluster) Signal(name string, sig os.Signal) error {
	_, err := c.signal(name, sig, "")
	return err
}

// signal sends a signal. A non-empty ending is the expected end of the process.
func (c *Cluster) signal(name string, sig os.Signal, ending Kind) (*process, error) {
	m, err := c.member(name)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.process == nil || m.process.Ended() {
		return nil, fmt.Errorf("%s does not run", name)
	}
	if ending != "" {
		m.ending = ending
	}
	return m.process, m.process.Signal(sig)
}

func (c *Cluster) member(name string) (*member, error) {
	for _, m := range c.members {
		if m.Name == name {
			return m, nil
		}
	}
	return nil, fmt.Errorf("there is no node %q", name)
}

// end makes a node's process end. It kills the process after Config.Grace.
func (c *Cluster) end(name string, sig syscall.Signal, kind Kind) error {
	p, err := c.signal(name, sig, kind)
	if err != nil {
		return err
	}
	if err := p.Signal(syscall.SIGCONT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err // a paused process would not handle the signal
	}
	grace := time.NewTimer(c.cfg.Grace)
	defer grace.Stop()
	select {
	case <-p.gone:
		return nil
	case <-grace.C:
	}
	c.say("%s has not stopped within %v: killed", name, c.cfg.Grace)
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.gone
	return nil
}

// Stop stops the nodes one after the other, the last first, and returns when all have ended. Further calls do nothing.
func (c *Cluster) Stop() {
	c.mu.Lock()
	if !c.stopped {
		c.stopped = true
		close(c.stop)
	}
	c.mu.Unlock()
	for i := len(c.members) - 1; i >= 0; i-- {
		m := c.members[i]
		if c.running(m) {
			if err := c.Terminate(m.Name); err != nil {
				c.say("%v", err)
			}
		}
	}
	c.watch.Wait()
}

func (c *Cluster) running(m *member) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return m.process != nil && !m.process.Ended()
}

// memoryShare returns the memory limit of one of several nodes on a machine. All nodes together get three quarters of
// the memory.
func memoryShare(nodes int) string { return strconv.Itoa(max(75/nodes, 1)) + "%" }
