package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/belfryhq/belfry/cluster/backup"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/identity"
	"github.com/belfryhq/belfry/cluster/placement"
	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/raftgroup/logstore"
	"github.com/belfryhq/belfry/shard"
)

// Overdue is a treatment of tasks that fell due between the backup and the restore.
type Overdue string

// The treatments: see the package's documentation.
const (
	Fire Overdue = "fire"
	Hold Overdue = "hold"
	Dead Overdue = "dead"
)

// Config names the backup to restore, and the folder to restore it into.
type Config struct {
	From     io.Reader    // the backup
	Dir      string       // data folder, empty or absent
	Shards   int          // of the new cluster; 0: as many as the backup has
	Overdue  Overdue      // default Fire
	LogStore string       // "wal", the default, or "boltdb"
	Now      time.Time    // default: time.Now
	Logger   *slog.Logger // nil: none
}

// Report counts the restored tasks.
type Report struct {
	From      string `json:"from_cluster"` // id of the cluster in the backup
	MadeAt    string `json:"made_at"`
	ClusterID string `json:"cluster_id"` // of the new cluster
	NodeID    string `json:"node_id"`
	Shards    int    `json:"shards"`

	Tasks     map[string]int `json:"tasks"` // by their state in the backup
	GivenBack int            `json:"given_back"`
	Overdue   int            `json:"overdue"` // fell due between the backup and the restore
	Buried    int            `json:"buried"`  // of those; with Dead
	Queues    []QueueDue     `json:"queues"`  // those with due tasks, by name
	// ClusterKeys are the ids of the keys under which secrets of queues are sealed: the node needs them in its
	// --cluster-key-file.
	ClusterKeys []string `json:"cluster_keys"`
	Keys        int      `json:"keys"` // API keys, those included that were revoked after the backup
}

// QueueDue counts the due tasks of one queue.
type QueueDue struct {
	Namespace string `json:"namespace"`
	Queue     string `json:"queue"`
	Before    int    `json:"due_before"` // due at the backup already
	Since     int    `json:"due_since"`  // overdue
	Paused    bool   `json:"paused"`     // by the restore, with Hold
}

// run is one restore under way.
type run struct {
	cfg    Config
	ctx    context.Context
	header *clusterpb.BackupHeader
	id     *identity.Identity
	ranges []placement.Range // slots of the new shards
	made   []*fsm.Rebuild    // beside ranges
	shards []*fsm.Machine    // beside ranges
	state  *clusterpb.ControlState
	report Report
	queues map[[2]string]*QueueDue
}

// Run restores a backup. After an error the folder holds no node's data, and may be used for another restore.
func Run(ctx context.Context, cfg Config) (report *Report, err error) {
	if cfg, err = cfg.withDefaults(); err != nil {
		return nil, err
	}
	from, err := backup.NewReader(cfg.From)
	if err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, ctx: ctx, header: from.Header(), queues: map[[2]string]*QueueDue{}}
	if err := r.plan(); err != nil {
		return nil, err
	}
	if r.id, err = identity.BeginRestore(cfg.Dir); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.id.Close()) }()
	if err := r.read(from); err != nil {
		return nil, err
	}
	if err := r.settle(); err != nil {
		return nil, err
	}
	if err := r.write(); err != nil {
		return nil, fmt.Errorf("data folder %s: %w", cfg.Dir, err)
	}
	return &r.report, nil
}

func (c Config) withDefaults() (Config, error) {
	if c.Overdue == "" {
		c.Overdue = Fire
	}
	if !slices.Contains([]Overdue{Fire, Hold, Dead}, c.Overdue) {
		return c, fmt.Errorf("overdue is %q: fire, hold or dead", c.Overdue)
	}
	kind, err := logstore.ParseKind(cmp.Or(c.LogStore, string(logstore.WAL)))
	if err != nil {
		return c, err
	}
	c.LogStore = string(kind)
	if c.Now.IsZero() {
		c.Now = time.Now()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// plan checks the backup's header, and gives slots to the new shards.
func (r *run) plan() error {
	if err := backup.CheckHeader(r.header); err != nil {
		return err
	}
	r.report = Report{
		From: r.header.ClusterId, MadeAt: time.UnixMilli(r.header.MadeAtMs).UTC().Format(time.RFC3339Nano),
		Shards: r.cfg.Shards, Tasks: map[string]int{}, Queues: []QueueDue{}, ClusterKeys: []string{},
		Keys: len(r.header.Control.ApiKeys),
	}
	if r.report.Shards == 0 {
		r.report.Shards = len(r.header.Shards)
	}
	var err error
	r.ranges, err = placement.Split(task.Slots, r.report.Shards)
	if err != nil {
		return err
	}
	var rules []*fsmpb.QueueRule
	for _, p := range r.header.Control.Queues {
		rules = append(rules, fsm.RuleOf(p))
		if key := p.GetSealed().GetKey(); key != "" && !slices.Contains(r.report.ClusterKeys, key) {
			r.report.ClusterKeys = append(r.report.ClusterKeys, key)
		}
	}
	for i := range r.ranges {
		r.made = append(r.made, fsm.NewRebuild(uint32(i+1), rules, earliest(r.header.Shards)))
	}
	return nil
}

// earliest returns the earliest position of the wheels that were ever advanced.
func earliest(shards []*clusterpb.BackupShard) int64 {
	var least int64
	for _, s := range shards {
		if s.PositionMs > 0 && (least == 0 || s.PositionMs < least) {
			least = s.PositionMs
		}
	}
	return least
}

// read reads all of the backup, and brings each task to its new shard.
func (r *run) read(from *backup.Reader) error {
	for {
		cut, err := from.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.readShard(from, cut.Shard); err != nil {
			return fmt.Errorf("shard %d: %w", cut.Shard, err)
		}
	}
}

func (r *run) readShard(from io.Reader, id uint32) error {
	begin := func(h *fsmpb.SnapshotHeader) error {
		if h.Shard != id {
			return fmt.Errorf("the state is of shard %d", h.Shard)
		}
		return r.begin(h)
	}
	err := shard.ReadTasks(from, begin, func(t *fsmpb.SnapshotTask) error { return r.add(id, t) })
	if err != nil {
		return err
	}
	if n, err := io.Copy(io.Discard, from); err != nil || n > 0 {
		return errors.Join(err, fmt.Errorf("%d bytes follow the state", n))
	}
	return nil
}

// begin names an old shard to the new shards that get its tasks.
func (r *run) begin(h *fsmpb.SnapshotHeader) error {
	for i, to := range r.ranges {
		var both []fsm.SlotRange
		for _, had := range r.header.Control.Slots {
			if first, end := max(to.First, had.First), min(to.End, had.End); had.Shard == h.Shard && first < end {
				both = append(both, fsm.SlotRange{First: first, End: end})
			}
		}
		if len(both) == 0 {
			continue
		}
		if err := r.made[i].From(h, both); err != nil {
			return err
		}
	}
	return nil
}

// add brings a task of an old shard to its new shard. A task in a slot that the old shard does not own is the rest of a
// move, and the owner has it.
func (r *run) add(from uint32, t *fsmpb.SnapshotTask) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	slot := task.Slot(t.GetTask().GetNamespace(), t.GetTask().GetId())
	had := slices.IndexFunc(r.header.Control.Slots, func(s *clusterpb.SlotRange) bool {
		return s.First <= slot && slot < s.End
	})
	if r.header.Control.Slots[had].Shard != from {
		return nil
	}
	to := slices.IndexFunc(r.ranges, func(s placement.Range) bool { return s.First <= slot && slot < s.End })
	r.count(t)
	return r.made[to].Add(t)
}
