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

// Node is a node as it stands now.
type Node struct {
	Name     string // node-1, node-2, …
	HTTPAddr string // host:port
	PeerAddr string // host:port
	Dir      string // belfry.log and belfry.pid, and its data if that is nowhere else
	Data     string // its data
	PID      int    // 0: it does not run
}

// Cluster is a running local cluster. It is safe for concurrent use.
type Cluster struct {
	cfg    Config
	events chan Event
	stop   chan struct{}  // closed when Stop begins: nothing is started again
	watch  sync.WaitGroup // watchers, and restarts that wait

	mu      sync.Mutex // guards what follows and the members' processes
	members []*member
	stopped bool
}

// member is a node and, while it runs, its process.
type member struct {
	Node
	place   Place
	process *process // nil: it does not run
	ending  Kind     // how the running process is meant to end; empty: it is not meant to
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
	c := &Cluster{cfg: cfg, events: make(chan Event, eventBacklog), stop: make(chan struct{})}
	for i, a := range plan.Nodes {
		c.members = append(c.members, newMember(cfg, i, a))
	}
	if err := c.startAll(ctx); err != nil {
		c.Stop()
		return nil, fmt.Errorf("local cluster: %w", err)
	}
	return c, nil
}

func newMember(cfg Config, i int, a addresses) *member {
	name, place := "node-"+strconv.Itoa(i+1), cfg.place(i)
	dir := filepath.Join(cfg.DataDir, name)
	return &member{place: place, Node: Node{
		Name: name, HTTPAddr: cmp.Or(place.HTTPAddr, a.HTTP), PeerAddr: cmp.Or(place.PeerAddr, a.Peer),
		Dir: dir, Data: cmp.Or(place.Data, dir),
	}}
}

// startAll starts every node before it waits for any: the first start of a cluster needs all of them.
func (c *Cluster) startAll(ctx context.Context) error {
	processes := make([]*process, len(c.members))
	for i, m := range c.members {
		var err error
		if processes[i], err = c.launch(m); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.StartTimeout)
	defer cancel()
	for i, m := range c.members {
		if err := awaitReady(ctx, c.nodeOf(m), processes[i]); err != nil {
			return err
		}
	}
	return nil
}

// nodeOf is a member as it is now: its process may end at any time.
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
	command := slices.Concat(m.place.Command, []string{c.cfg.Binary}, c.args(m))
	p, err := startProcess(command, m.place.Env, logPath(m.Dir))
	if err != nil {
		return nil, err
	}
	m.process, m.PID, m.ending = p, p.PID(), ""
	c.tell(Event{Node: m.Name, Kind: Started, PID: m.PID})
	c.watch.Go(func() { c.await(m, p) })
	return p, writePID(m.Dir, m.PID)
}

// checkFree keeps a stranger who listens where a node belongs from being taken for the node. Addresses that its place
// gave may not be this host's.
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
	if os.Getenv("GOMEMLIMIT") == "" { // which each of them would see, too
		args = append(args, "--memory-limit", memoryShare(len(c.members)))
	}
	founders := founders(len(c.members))
	founds := slices.Contains(c.members[:founders], m)
	if founds {
		args = append(args, "--bootstrap-expect", strconv.Itoa(founders))
	}
	if join := c.othersThan(m); len(join) > 0 && !(founds && founders == 1) {
		args = append(args, "--join", strings.Join(join, ","))
	}
	return slices.Concat(args, c.cfg.ExtraArgs, m.place.Args)
}

// founders is how many of n nodes form the cluster; the others join it.
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

// await sees a process end, and starts the node again if that is wanted.
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

// restartPause keeps a node that cannot start from being started all the time.
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

// tell publishes an event; c.mu is held, so events come in their order.
func (c *Cluster) tell(e Event) {
	c.say("%s", e)
	select {
	case c.events <- e:
	default: // see eventBacklog
	}
}

func (c *Cluster) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.cfg.Out, format+"\n", args...) // nobody to tell that nobody can be told
}

// Events reports what happens to the nodes. It keeps some hundred events for a slow reader and is never closed.
func (c *Cluster) Events() <-chan Event { return c.events }

// Nodes are the nodes as they stand now, node-1 first.
func (c *Cluster) Nodes() []Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	nodes := make([]Node, len(c.members))
	for i, m := range c.members {
		nodes[i] = m.Node
	}
	return nodes
}

// URLs are the base URLs of the nodes' HTTP interfaces.
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

// Launch starts a node that does not run, and waits for nothing.
func (c *Cluster) Launch(name string) error {
	m, err := c.member(name)
	if err != nil {
		return err
	}
	_, err = c.launch(m)
	return err
}

// AwaitReady returns when a node that was started is ready, or with the end of its log when it dies first.
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

// Kill ends a node with SIGKILL and returns when it is gone. It is not started again by itself.
func (c *Cluster) Kill(name string) error { return c.end(name, syscall.SIGKILL, Killed) }

// Terminate asks a node with SIGTERM to stop and returns when it has, by itself or after the grace.
func (c *Cluster) Terminate(name string) error { return c.end(name, syscall.SIGTERM, Stopped) }

// Pause stops a node in its tracks with SIGSTOP; Resume lets it go on.
func (c *Cluster) Pause(name string) error { return c.Signal(name, syscall.SIGSTOP) }

// Resume lets a paused node go on.
func (c *Cluster) Resume(name string) error { return c.Signal(name, syscall.SIGCONT) }

// Signal sends a node any signal. If it dies of it, it has died by itself.
func (c *Cluster) Signal(name string, sig os.Signal) error {
	_, err := c.signal(name, sig, "")
	return err
}

// signal sends a signal, and says how the process is meant to end, if it is.
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

// end makes a node's process end, killing it if it has not after the grace.
func (c *Cluster) end(name string, sig syscall.Signal, kind Kind) error {
	p, err := c.signal(name, sig, kind)
	if err != nil {
		return err
	}
	if err := p.Signal(syscall.SIGCONT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err // a paused process would not hear the signal
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

// Stop stops the nodes one after the other, the last first, and returns when all are gone. It may be called again.
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

// memoryShare is what one of some nodes on a machine may use of its memory: all together three quarters.
func memoryShare(nodes int) string { return strconv.Itoa(max(75/nodes, 1)) + "%" }
