package witness

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/internal/wait"
)

const (
	settle         = 300 * time.Millisecond // how long voters beyond a majority are waited for
	askAgain       = 20 * time.Millisecond  // first pause between questions to a silent node; it doubles
	askSeldom      = 250 * time.Millisecond // longest pause while the node waits to take part
	announceSeldom = 5 * time.Second        // longest pause once it takes part
	askFor         = time.Second            // limit of one question
	sayAgain       = 5 * time.Minute
)

// CheckConfig describes a starting node's data, and the calls to other nodes.
type CheckConfig struct {
	Node     string // its id
	Run      Run
	Copied   bool               // its folder counts as copied: every other voter has to answer
	Replicas map[uint32]Replica // by group
	Unread   map[uint32]bool    // groups whose replica cannot be read, and so will not run
	Left     map[uint32]uint64  // groups that have left the folder, with the revision of the last replica here
	Applied  uint64             // last entry of the control group that was applied here, by the node's own record

	Nodes Nodes
	Addrs []string // addresses where this node was dialled before, as far as it knows

	Logger *slog.Logger
}

// Nodes are the nodes of the cluster.
type Nodes interface {
	// Known returns the nodes that may be in the cluster by now. They are asked, and not waited for.
	Known() []string
	// Name returns a node's label; empty: not known.
	Name(node string) string
	// Ask asks a node at any of its known addresses.
	Ask(ctx context.Context, node string, req *clusterpb.WitnessRequest) (*clusterpb.WitnessReply, error)
	// AskAddr asks the process at an address that claims to be this very node.
	AskAddr(ctx context.Context, addr string, req *clusterpb.WitnessRequest) (*clusterpb.WitnessReply, error)
}

func (c CheckConfig) name(node string) string {
	if label := c.Nodes.Name(node); label != "" {
		return fmt.Sprintf("%s (%s)", label, node)
	}
	return node
}

// Check decides whether a starting node may take part.
type Check struct {
	cfg CheckConfig

	mu     sync.Mutex
	waits  []string // nodes whose answers it waits for
	claims map[string]bool
	newest *clusterpb.Standing // nil: no answer had one that is as new as the folder
}

// NewCheck returns the check of a starting node.
func NewCheck(cfg CheckConfig) *Check { return &Check{cfg: cfg, claims: make(map[string]bool)} }

// Status describes the answers that the check waits for. It is empty if the check waits for none.
func (c *Check) Status() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waits) == 0 {
		return ""
	}
	names := make([]string, len(c.waits))
	for i, id := range c.waits {
		names[i] = c.cfg.name(id)
	}
	why := "a majority of the voters of each group has to answer"
	if c.cfg.Copied {
		why = "its data folder is not the one that it was started from before, as after a copy, so every other voter " +
			"has to answer once"
	}
	return fmt.Sprintf("this node takes part when others have said what they saw of it last: %s; it waits for %s",
		why, strings.Join(names, ", "))
}

// Run returns nil once the node may take part and has claimed its run. It returns a *Refusal if the node must not take
// part, and the cause of ctx's end otherwise.
func (c *Check) Run(ctx context.Context) error {
	if len(c.nodes()) == 0 {
		return nil
	}
	replies, err := c.round(ctx, false)
	if err != nil {
		return err
	}
	if err := c.lookForOriginal(ctx, replies); err != nil {
		return err
	}
	// If two copies ask at the same time, one of them learns of the other's claim.
	_, err = c.round(ctx, true)
	return err
}

// answer is the answer of a node.
type answer struct {
	node  string
	reply *clusterpb.WitnessReply
}

// round asks all voters until enough have answered.
func (c *Check) round(ctx context.Context, claim bool) ([]*clusterpb.WitnessReply, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asked := make(map[string]bool)
	answers := make(chan answer)
	ask := func() {
		for _, node := range c.nodes() {
			if !asked[node] {
				asked[node] = true
				go c.ask(ctx, node, claim, askSeldom, answers)
			}
		}
	}
	ask()
	look := time.NewTicker(askSeldom)
	defer look.Stop()
	var replies []*clusterpb.WitnessReply
	answered := make(map[string]bool)
	settled := time.After(settle)
	defer c.waitFor(nil)
	say := time.NewTimer(settle)
	defer say.Stop()
	for patient := !claim; ; {
		missing := missing(c.cfg.Node, c.required(), answered, c.cfg.Copied)
		if len(missing) == 0 && (!patient || len(answered) == len(asked)) {
			return replies, nil
		}
		c.waitFor(missing)
		select {
		case a := <-answers:
			if refusal := judge(c.cfg, a.reply); refusal != nil {
				return nil, refusal
			}
			answered[a.node] = true
			c.learn(a.reply.Standing)
			ask()
			replies = append(replies, a.reply)
			if claim {
				c.claimed(a.node)
			}
		case <-look.C:
			ask()
		case <-settled:
			patient = false
		case <-say.C:
			if len(missing) > 0 {
				c.cfg.Logger.Info("this node does not take part yet", "reason", c.Status())
			}
			say.Reset(sayAgain)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (c *Check) waitFor(nodes []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits = nodes
}

func (c *Check) claimed(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claims[node] = true
}

// question asks one process once.
type question func(context.Context, *clusterpb.WitnessRequest) (*clusterpb.WitnessReply, error)

// ask asks a node until it answers or ctx ends. The pauses double up to longest.
func (c *Check) ask(ctx context.Context, node string, claim bool, longest time.Duration, answers chan<- answer) {
	for again := askAgain; ; again = min(2*again, longest) {
		reply, err := c.question(ctx, claim, func(ctx context.Context, req *clusterpb.WitnessRequest) (
			*clusterpb.WitnessReply, error) {
			return c.cfg.Nodes.Ask(ctx, node, req)
		})
		if err == nil {
			select {
			case answers <- answer{node, reply}:
			case <-ctx.Done():
			}
			return
		}
		c.cfg.Logger.Debug("a voter has not sent its record of this node yet", "node", node, "err", err)
		if !wait.For(ctx, again) {
			return
		}
	}
}

func (c *Check) question(ctx context.Context, claim bool, ask question) (*clusterpb.WitnessReply, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	return ask(ctx, &clusterpb.WitnessRequest{Node: c.cfg.Node, Run: c.cfg.Run.proto(), Claim: claim})
}

// lookForOriginal asks at the addresses where this node has been. A process that answers there as this node, in another
// run, has the folder of which this one is a copy.
func (c *Check) lookForOriginal(ctx context.Context, replies []*clusterpb.WitnessReply) error {
	addrs := slices.Clone(c.cfg.Addrs)
	for _, r := range replies {
		addrs = append(addrs, r.Seen.GetRun().GetPeerAddr())
	}
	slices.Sort(addrs)
	addrs = slices.DeleteFunc(slices.Compact(addrs), func(a string) bool { return a == "" || a == c.cfg.Run.Addr })
	found := make(chan *Refusal, len(addrs))
	for _, addr := range addrs {
		go func() { found <- c.originalAt(ctx, addr) }()
	}
	for range addrs {
		if refusal := <-found; refusal != nil {
			return refusal
		}
	}
	return nil
}

func (c *Check) originalAt(ctx context.Context, addr string) *Refusal {
	reply, err := c.question(ctx, false, func(ctx context.Context, req *clusterpb.WitnessRequest) (
		*clusterpb.WitnessReply, error) {
		return c.cfg.Nodes.AskAddr(ctx, addr, req)
	})
	if err != nil || reply.Node != c.cfg.Node || reply.Run.GetNonce() == c.cfg.Run.Nonce {
		return nil
	}
	return &Refusal{
		Reason: fmt.Sprintf("node %s runs already, at %s", c.cfg.name(c.cfg.Node), addr),
		Advice: adviceTwice,
	}
}

// Announce claims the run at a node that took no part in the check, or was down, and tries until ctx ends. It ignores
// the node's positions, since this node has moved on.
func (c *Check) Announce(ctx context.Context, node string) {
	c.mu.Lock()
	done := c.claims[node]
	c.mu.Unlock()
	if done {
		return
	}
	answers := make(chan answer, 1)
	c.ask(ctx, node, true, announceSeldom, answers)
	select {
	case a := <-answers:
		if run := runOf(a.reply.Seen.GetRun()); run.outdates(c.cfg.Run) {
			c.cfg.Logger.Error("another process runs as this node, too", "seen_by", c.cfg.name(node), "at", run.Addr)
		}
	default: // the context has ended
	}
}
