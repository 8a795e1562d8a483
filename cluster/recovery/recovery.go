package recovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/witness"
	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/raftgroup/logstore"
	"github.com/belfryhq/belfry/shard"
)

// Config names the folders of the survivors.
type Config struct {
	Dirs     []string     // data folders, of one cluster
	Temp     string       // folder for copies of logs; empty: the system's temporary folder
	LogStore string       // of the new node: "wal", the default, or "boltdb"
	Logger   *slog.Logger // nil: none
}

// Recovery has the folders of the survivors open. Their nodes cannot start until Close.
type Recovery struct {
	cfg     Config
	kind    logstore.Kind
	plan    Plan
	folders []*folder // beside cfg.Dirs
	control *clusterpb.ControlState
	newest  map[uint32]candidate // by group
}

// ErrNotLost is the error of folders that hold a majority of the voters of every group.
var ErrNotLost = errors.New("no group has lost its majority: start the nodes of these folders instead")

// Open reads the folders of the survivors and plans the recovery. It changes nothing.
func Open(ctx context.Context, cfg Config) (*Recovery, error) {
	if len(cfg.Dirs) == 0 {
		return nil, errors.New("no data folder is given")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	kind, err := logstore.ParseKind(cfg.LogStore)
	if err != nil {
		return nil, err
	}
	r := &Recovery{cfg: cfg, kind: kind, newest: make(map[uint32]candidate)}
	if err := r.open(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Recovery) open(ctx context.Context) error {
	for _, step := range []func(context.Context) error{r.openFolders, r.survey, r.makePlan} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	lost := func(g Group) bool { return g.Loss != None }
	if !slices.ContainsFunc(r.plan.Groups, lost) {
		return ErrNotLost
	}
	return nil
}

// Plan returns the plan of the recovery.
func (r *Recovery) Plan() Plan { return r.plan }

// Close lets the nodes of the folders start again.
func (r *Recovery) Close() error {
	var errs []error
	for _, f := range r.folders {
		errs = append(errs, f.id.Close())
	}
	return errors.Join(errs...)
}

func (r *Recovery) openFolders(context.Context) error {
	for _, dir := range r.cfg.Dirs {
		f, err := openFolder(filepath.Clean(dir))
		if err != nil {
			return err
		}
		r.folders = append(r.folders, f)
		switch {
		case f.id.ClusterID() == "":
			return fmt.Errorf("%s belongs to no cluster", dir)
		case r.plan.ClusterID == "":
			r.plan.ClusterID = f.id.ClusterID()
		case r.plan.ClusterID != f.id.ClusterID():
			return fmt.Errorf("%s is of cluster %s, and %s of cluster %s: all must be of one", dir, f.id.ClusterID(),
				r.cfg.Dirs[0], r.plan.ClusterID)
		}
		same := func(s Survivor) bool { return s.NodeID == f.id.NodeID() }
		if i := slices.IndexFunc(r.plan.Survivors, same); i >= 0 {
			return fmt.Errorf("%s and %s are folders of the same node: give the newer one only", r.cfg.Dirs[i], dir)
		}
		r.plan.Survivors = append(r.plan.Survivors, Survivor{Dir: dir, NodeID: f.id.NodeID()})
	}
	return nil
}

// survey replays each group of each folder, one at a time, and finds the newest replicas.
func (r *Recovery) survey(ctx context.Context) error {
	for i, f := range r.folders {
		for _, number := range f.id.Groups() {
			if err := ctx.Err(); err != nil {
				return err
			}
			found, err := r.replay(i, number)
			if err != nil {
				return err
			}
			c := candidate{
				dir: i, lastTerm: found.lastTerm, lastIndex: found.lastIndex(), at: found.lastAt, voters: found.voters,
				tasks: found.Tasks,
			}
			if best, held := r.newest[number]; held && !c.newer(best) {
				continue
			}
			r.newest[number] = c
			if replay, ok := found.state.(*control.Replay); ok {
				r.control = replay.State()
			}
		}
	}
	return nil
}

// replay returns a replica of a folder after its last entry.
func (r *Recovery) replay(folder int, number uint32) (*replica, error) {
	found, err := r.folders[folder].replay(number, r.cfg.Temp)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.cfg.Dirs[folder], err)
	}
	if len(found.Problems) > 0 {
		return nil, &DamagedError{r.cfg.Dirs[folder], number, found.Problems}
	}
	return found, nil
}

func (r *Recovery) makePlan(context.Context) error {
	if len(r.control.GetShards()) == 0 {
		return errors.New("no folder knows the shards of the cluster: none of its nodes has seen them placed")
	}
	seen, err := r.observed()
	if err != nil {
		return err
	}
	r.plan.Groups = append(r.plan.Groups, r.planGroup(controlNumber, seen))
	for _, s := range r.control.Shards {
		r.plan.Groups = append(r.plan.Groups, r.planGroup(s.Id, seen))
	}
	return nil
}

// observed returns the survivors' records of all nodes.
func (r *Recovery) observed() ([]*clusterpb.SeenNode, error) {
	var all []*clusterpb.SeenNode
	for _, f := range r.folders {
		nodes, err := witness.Observed(f.dir, f.id.NodeID())
		if err != nil {
			return nil, err
		}
		all = append(all, nodes...)
	}
	return all, nil
}

func (r *Recovery) planGroup(number uint32, seen []*clusterpb.SeenNode) Group {
	c, found := r.newest[number]
	if !found {
		return Group{Number: number, Loss: Whole, Tasks: map[string]int{}}
	}
	g := Group{
		Number: number, From: r.cfg.Dirs[c.dir], Term: c.lastTerm, Index: c.lastIndex, Tasks: c.tasks,
		Voters: len(c.voters), Held: r.held(number, c.voters), Loss: Possible,
	}
	if !c.at.IsZero() {
		g.At = c.at.UTC().Format(time.RFC3339Nano)
	}
	for _, n := range seen {
		for _, p := range n.Positions {
			if p.Group == number && c.lacks(p) && p.Index >= g.SeenAt {
				g.Loss, g.SeenAt, g.SeenBy = Certain, p.Index, n.Node
			}
		}
	}
	if 2*g.Held > g.Voters {
		g.Loss, g.SeenAt, g.SeenBy = None, 0, ""
	}
	return g
}

// held returns how many voters of a group have their folder here.
func (r *Recovery) held(number uint32, voters []string) (n int) {
	for _, f := range r.folders {
		if slices.Contains(voters, f.id.NodeID()) && slices.Contains(f.id.Groups(), number) {
			n++
		}
	}
	return n
}

// Loss says how much of a group is lost.
type Loss string

// The losses: see the package's documentation.
const (
	None     Loss = "none"
	Possible Loss = "possible"
	Certain  Loss = "certain"
	Whole    Loss = "whole"
)

// Plan describes the tasks that a recovery would keep, and the possible loss.
type Plan struct {
	ClusterID string     `json:"cluster_id"` // of the lost cluster
	Survivors []Survivor `json:"survivors"`
	Groups    []Group    `json:"groups"` // the control group, whose number is 0, and the shards
}

// Survivor is the folder of one node.
type Survivor struct {
	Dir    string `json:"data"`
	NodeID string `json:"node_id"`
}

// Group is one Raft group's part of the plan.
type Group struct {
	Number uint32 `json:"shard"` // 0: the control group
	From   string `json:"data"`  // folder of the newest replica; empty: no folder has one
	Loss   Loss   `json:"loss"`
	Voters int    `json:"voters"`  // of the newest configuration
	Held   int    `json:"folders"` // of these voters

	Term   uint64 `json:"term"` // of the last entry
	Index  uint64 `json:"index"`
	At     string `json:"at"`           // instant of that entry, by its leader's clock; empty: not known
	SeenAt uint64 `json:"seen_index"`   // highest index that another voter was seen to hold; 0: none was seen ahead
	SeenBy string `json:"seen_of_node"` // that voter

	Tasks map[string]int `json:"tasks"` // by state
}

// LeastMissing returns the number of log entries that are missing for certain.
func (g Group) LeastMissing() uint64 {
	switch {
	case g.Loss != Certain:
		return 0
	case g.SeenAt <= g.Index:
		return 1 // in a later term than the last entry here
	}
	return g.SeenAt - g.Index
}

// DamagedError is the error of a folder that cannot be read as a whole.
type DamagedError struct {
	Dir      string
	Group    uint32
	Problems []string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s, group %d, is not sound, so it is not used: %s; leave this folder out if another one has "+
		"what is needed", e.Dir, e.Group, strings.Join(e.Problems, "; "))
}

// candidate is one folder's replica of a group.
type candidate struct {
	dir                 int // index of the folder
	lastTerm, lastIndex uint64
	at                  time.Time
	voters              []string
	tasks               map[string]int
}

// newer reports whether c's log is more up to date than o's.
func (c candidate) newer(o candidate) bool {
	return c.lastTerm > o.lastTerm || c.lastTerm == o.lastTerm && c.lastIndex > o.lastIndex
}

// lacks reports whether c's log does not reach to an entry that another replica was seen to hold.
func (c candidate) lacks(p *clusterpb.SeenPosition) bool {
	return p.Index > 0 && (p.EntryTerm > c.lastTerm || p.EntryTerm == c.lastTerm && p.Index > c.lastIndex)
}

// skipped is added to each shard's counter. It is more than the lost nodes can have given numbers, at a million a
// second for twelve days, and a small part of all numbers.
const skipped = 1 << 40

// Write writes the folder of the new cluster's node, which must be empty or absent, or left by a recovery that was not
// finished. After an error the folder holds no node's data. Write may be called again.
func (r *Recovery) Write(ctx context.Context, dir string) (made Made, err error) {
	f, err := begin(dir, r.kind, r.cfg.Logger)
	if err != nil {
		return Made{}, err
	}
	defer func() { err = errors.Join(err, f.id.Close()) }()
	if err := f.write(ctx, r.shape(f.Made), r.newestOf); err != nil {
		return Made{}, err
	}
	return f.Made, nil
}

// shape returns the control state with a node in the place of all others.
func (r *Recovery) shape(made Made) *clusterpb.ControlState {
	state := proto.CloneOf(r.control)
	state.ClusterId = made.ClusterID
	state.Nodes, state.Orders, state.Operations, state.Backups, state.JoinTokens = nil, nil, nil, nil, nil
	state.Bulks = nil // their walks do not fit the tasks of older replicas
	for _, s := range state.Shards {
		s.Replicas, s.Preferred, s.Target, s.Joined = []string{made.NodeID}, made.NodeID, nil, nil
	}
	return state
}

// newestOf returns the newest state of a shard, or an empty one if no folder has one.
func (r *Recovery) newestOf(number uint32) (*fsm.Machine, error) {
	machine := fsm.New(number)
	if c, held := r.newest[number]; held {
		found, err := r.replay(c.dir, number)
		if err != nil {
			return nil, err
		}
		machine = found.state.(*shard.Replay).Machine()
	}
	machine.SkipNumbers(skipped)
	return machine, nil
}
