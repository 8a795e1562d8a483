package recovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/verify"
	"github.com/belfryhq/belfry/raftgroup/logstore"
)

// controlNumber is the number of the control group among the Raft groups.
const controlNumber = 0

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
	folders []*verify.Reader // beside cfg.Dirs
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
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

func (r *Recovery) openFolders(context.Context) error {
	for _, dir := range r.cfg.Dirs {
		f, err := verify.Open(filepath.Clean(dir))
		if err != nil {
			return err
		}
		r.folders = append(r.folders, f)
		switch {
		case f.ClusterID() == "":
			return fmt.Errorf("%s belongs to no cluster", dir)
		case r.plan.ClusterID == "":
			r.plan.ClusterID = f.ClusterID()
		case r.plan.ClusterID != f.ClusterID():
			return fmt.Errorf("%s is of cluster %s, and %s of cluster %s: all must be of one", dir, f.ClusterID(),
				r.cfg.Dirs[0], r.plan.ClusterID)
		}
		same := func(s Survivor) bool { return s.NodeID == f.NodeID() }
		if i := slices.IndexFunc(r.plan.Survivors, same); i >= 0 {
			return fmt.Errorf("%s and %s are folders of the same node: give the newer one only", r.cfg.Dirs[i], dir)
		}
		r.plan.Survivors = append(r.plan.Survivors, Survivor{Dir: dir, NodeID: f.NodeID()})
	}
	return nil
}

// survey replays each group of each folder, one at a time, and finds the newest replicas.
func (r *Recovery) survey(ctx context.Context) error {
	for i, f := range r.folders {
		for _, number := range f.Groups() {
			if err := ctx.Err(); err != nil {
				return err
			}
			replayed, err := r.replay(i, number)
			if err != nil {
				return err
			}
			c := candidateOf(i, replayed)
			if best, found := r.newest[number]; found && !c.newer(best) {
				continue
			}
			r.newest[number] = c
			if number == controlNumber {
				r.control = replayed.Control
			}
		}
	}
	return nil
}

// replay returns a replica of a folder after its last entry.
func (r *Recovery) replay(folder int, number uint32) (*verify.Replayed, error) {
	replayed, err := r.folders[folder].Replay(number, r.cfg.Temp)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.cfg.Dirs[folder], err)
	}
	if len(replayed.Problems) > 0 {
		return nil, &DamagedError{r.cfg.Dirs[folder], number, replayed.Problems}
	}
	return replayed, nil
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
		nodes, err := f.Observed()
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
		if slices.Contains(voters, f.NodeID()) && slices.Contains(f.Groups(), number) {
			n++
		}
	}
	return n
}
