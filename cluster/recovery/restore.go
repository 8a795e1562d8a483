package recovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/backup"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
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

// RestoreConfig names the backup to restore, and the folder to restore it into.
type RestoreConfig struct {
	From     io.Reader    // the backup
	Dir      string       // data folder, empty or absent
	Shards   int          // of the new cluster; 0: as many as the backup has
	Overdue  Overdue      // default Fire
	LogStore string       // "wal", the default, or "boltdb"
	Now      time.Time    // default: time.Now
	Logger   *slog.Logger // nil: none
}

// RestoreReport counts the restored tasks.
type RestoreReport struct {
	From   string `json:"from_cluster"` // id of the cluster in the backup
	MadeAt string `json:"made_at"`
	Made
	Shards int `json:"shards"`

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

// restoring is one restore under way.
type restoring struct {
	cfg    RestoreConfig
	ctx    context.Context
	header *clusterpb.BackupHeader
	folder *newFolder
	ranges []placement.Range // slots of the new shards
	made   []*fsm.Rebuild    // beside ranges
	shards []*fsm.Machine    // beside ranges
	state  *clusterpb.ControlState
	report RestoreReport
	queues map[[2]string]*QueueDue
}

// Restore restores a backup. After an error the folder holds no node's data, and may be used for another restore.
func Restore(ctx context.Context, cfg RestoreConfig) (report *RestoreReport, err error) {
	if cfg, err = cfg.withDefaults(); err != nil {
		return nil, err
	}
	from, err := backup.NewReader(cfg.From)
	if err != nil {
		return nil, err
	}
	r := &restoring{cfg: cfg, ctx: ctx, header: from.Header(), queues: map[[2]string]*QueueDue{}}
	if err := r.plan(); err != nil {
		return nil, err
	}
	if r.folder, err = begin(cfg.Dir, logstore.Kind(cfg.LogStore), cfg.Logger); err != nil {
		return nil, err
	}
	r.report.Made = r.folder.Made
	defer func() { err = errors.Join(err, r.folder.id.Close()) }()
	if err := r.read(from); err != nil {
		return nil, err
	}
	if err := r.settle(); err != nil {
		return nil, err
	}
	r.shape()
	shardOf := func(number uint32) (*fsm.Machine, error) { return r.shards[number-1], nil }
	if err := r.folder.write(ctx, r.state, shardOf); err != nil {
		return nil, err
	}
	return &r.report, nil
}

func (c RestoreConfig) withDefaults() (RestoreConfig, error) {
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
func (r *restoring) plan() error {
	if err := backup.CheckHeader(r.header); err != nil {
		return err
	}
	r.report = RestoreReport{
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
func (r *restoring) read(from *backup.Reader) error {
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

func (r *restoring) readShard(from io.Reader, id uint32) error {
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
func (r *restoring) begin(h *fsmpb.SnapshotHeader) error {
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
func (r *restoring) add(from uint32, t *fsmpb.SnapshotTask) error {
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

// count counts a task by its state, and a due task by its queue.
func (r *restoring) count(t *fsmpb.SnapshotTask) {
	state := t.Task.State
	r.report.Tasks[stateName(state)]++
	switch state {
	case fsmpb.State_STATE_FIRING:
		r.report.GivenBack++
		r.queueOf(t).Before++
	case fsmpb.State_STATE_READY:
		r.queueOf(t).Before++
	case fsmpb.State_STATE_SCHEDULED, fsmpb.State_STATE_RETRYING:
		if t.WheelDueMs <= r.cfg.Now.UnixMilli() {
			r.report.Overdue++
			r.queueOf(t).Since++
		}
	case fsmpb.State_STATE_REPEATING:
		if isOverdue(t, r.cfg.Now.UnixMilli()) {
			r.queueOf(t).Since++
		}
	}
}

// isOverdue reports whether a schedule may have had an occurrence by an instant. One without coming instants may: the
// leader had yet to compute them.
func isOverdue(t *fsmpb.SnapshotTask, nowMs int64) bool {
	if t.InWheel || t.Parked {
		return t.WheelDueMs <= nowMs
	}
	return !t.Task.Series.GetPaused() && !t.Task.Series.GetComplete()
}

func (r *restoring) queueOf(t *fsmpb.SnapshotTask) *QueueDue {
	name := [2]string{task.CanonicalNamespace(t.Task.Namespace), cmp.Or(t.Task.Spec.GetQueue(), task.DefaultQueue)}
	due := r.queues[name]
	if due == nil {
		name[0], name[1] = strings.Clone(name[0]), strings.Clone(name[1]) // the message does not last
		due = &QueueDue{Namespace: name[0], Queue: name[1]}
		r.queues[name] = due
	}
	return due
}

// settle completes the shards, and treats the overdue tasks.
func (r *restoring) settle() error {
	reason := fmt.Sprintf("fell due after the backup of %s and before its restore", r.report.MadeAt)
	for _, made := range r.made {
		r.shards = append(r.shards, made.Machine())
	}
	r.made = nil
	if r.cfg.Overdue == Dead {
		for _, s := range r.shards {
			r.report.Buried += s.BuryOverdue(r.cfg.Now.UnixMilli(), reason)
		}
	}
	r.state = proto.CloneOf(r.header.Control)
	if r.cfg.Overdue == Hold {
		if err := r.hold(); err != nil {
			return err
		}
	}
	for _, q := range r.due() {
		r.report.Queues = append(r.report.Queues, *q)
	}
	return nil
}

// due returns the queues with due tasks, by name.
func (r *restoring) due() []*QueueDue {
	return slices.SortedFunc(maps.Values(r.queues), func(a, b *QueueDue) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Queue, b.Queue))
	})
}

// hold pauses the queues with due tasks: in their policies, and in the shards' rules, which hold the queues until a
// shard's leader knows the policies.
func (r *restoring) hold() error {
	var rules []*fsmpb.QueueRule
	for _, q := range r.due() {
		policy, err := policyOf(r.state, q.Namespace, q.Queue)
		if err != nil {
			return err
		}
		if policy.Paused {
			continue
		}
		q.Paused, policy.Paused = true, true
		r.state.QueuesVersion++
		policy.Version = r.state.QueuesVersion
		rules = append(rules, fsm.RuleOf(policy))
	}
	entry := &fsmpb.Entry{
		Version: fsm.CommandVersion, AtMs: r.cfg.Now.UnixMilli(),
		Commands: []*fsmpb.Command{{Op: &fsmpb.Command_SetRules{SetRules: &fsmpb.SetRules{Rules: rules}}}},
	}
	data, err := entry.MarshalVT()
	if err != nil {
		return err
	}
	for _, s := range r.shards {
		if _, err := s.Apply(data, false); err != nil {
			return err
		}
	}
	return nil
}

// policyOf returns the policy of a queue in a state, which may be changed. It makes one if the queue has none.
func policyOf(state *clusterpb.ControlState, namespace, queue string) (*fsmpb.QueuePolicy, error) {
	at, found := slices.BinarySearchFunc(state.Queues, [2]string{namespace, queue},
		func(p *fsmpb.QueuePolicy, name [2]string) int {
			return cmp.Or(strings.Compare(p.Namespace, name[0]), strings.Compare(p.Queue, name[1]))
		})
	if found {
		return state.Queues[at], nil
	}
	if len(state.Queues) >= control.MaxQueues {
		return nil, fmt.Errorf("queue %q cannot be paused: %d queues have a policy, as many as may; restore with "+
			"--overdue dead or fire", queue, control.MaxQueues)
	}
	policy := &fsmpb.QueuePolicy{Namespace: namespace, Queue: queue}
	state.Queues = slices.Insert(state.Queues, at, policy)
	return policy, nil
}

// shape makes the control state that of a cluster of this node, with the queues and the replication factor of the old
// one. The node registers itself when it starts. Builds that cannot read rebuilt shards are kept out.
func (r *restoring) shape() {
	old := r.state
	r.state = &clusterpb.ControlState{
		ClusterId: r.report.ClusterID, CommandVersion: fsm.CommandVersion, Version: fsm.CommandVersion,
		Queues: old.Queues, Calendars: old.Calendars, QueuesVersion: old.QueuesVersion, Replication: old.Replication,
		LastSlotMove: old.LastSlotMove, // the shards may remember moves
		// The callers of the old cluster are those of the new one, and a restore opens nothing that was closed.
		ApiKeys: old.ApiKeys, KeysInForce: old.KeysInForce, Namespaces: old.Namespaces, AccessVersion: old.AccessVersion,
		ClusterKey: old.ClusterKey, ReceiptKey: old.ReceiptKey,
	}
	for i, slots := range r.ranges {
		id := uint32(i + 1)
		r.state.Slots = append(r.state.Slots, &clusterpb.SlotRange{First: slots.First, End: slots.End, Shard: id})
		r.state.Shards = append(r.state.Shards, &clusterpb.Shard{
			Id: id, Replicas: []string{r.report.NodeID}, Preferred: r.report.NodeID,
		})
	}
}
