package cluster

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/doctor"
	"github.com/belfryhq/belfry/cluster/seal"
	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Doctor returns the troubles of the cluster as far as this node knows, the gravest first. It works without a quorum
// and on a node that takes no part, and takes about half a second if nodes do not answer.
func (n *Node) Doctor(ctx context.Context) []doctor.Finding {
	return doctor.Examine(n.examiner.snapshot(ctx))
}

// examiner examines the cluster as far as this node knows.
type examiner struct {
	n      *Node
	opened time.Time // when this node began to hear the others
}

// vitals describes this node for people.
func (o ownState) vitals() *clusterpb.Vitals {
	space, reserve := o.n.disk.Room()
	used, limit := o.n.memory.Used()
	attempts, strangers := o.crowdLoad()
	v := &clusterpb.Vitals{
		Attempts: int64(attempts), Strangers: int64(strangers),
		Build: o.n.cfg.Build, CommandVersion: fsm.CommandVersion, Waits: o.n.Barred(),
		DiskFree: space.Free, DiskTotal: space.Total, DiskReserve: reserve, MemoryUsed: used, MemoryLimit: limit,
		Backup: o.n.backups.last(), ClusterKeys: o.n.cfg.Secrets.Ring().IDs(), DataDir: o.dataDir(),
	}
	if err := o.n.Ready(); err != nil {
		v.NotReady = err.Error()
	}
	if o.n.keys != nil {
		v.KeysEndMs = o.n.keys.Credentials().Ends().UnixMilli()
	}
	if o.n.cfg.API != nil {
		addAPI(v, o.n.cfg.API)
	}
	for _, id := range o.n.known() {
		if id != o.n.ID() && o.n.health.Alive(id) {
			v.Hears = append(v.Hears, id)
		}
	}
	return v
}

// dataDir returns the absolute path of the data folder.
func (o ownState) dataDir() string {
	path, err := filepath.Abs(o.n.cfg.DataDir)
	if err != nil {
		return o.n.cfg.DataDir
	}
	return path
}

// maxFault bounds the reason of a fault, in bytes. The answer of an issuer or a receiver may be a part of it.
const maxFault = 300

// oneLine returns a reason of a fault in one line of at most maxFault bytes.
func oneLine(fault string) string {
	line := strings.Join(strings.Fields(strings.ToValidUTF8(fault, "")), " ")
	if len(line) > maxFault {
		line = strings.ToValidUTF8(line[:maxFault], "") + "…"
	}
	return line
}

// addAPI adds the faults of the API, and the end of its certificate.
func addAPI(v *clusterpb.Vitals, api API) {
	if end := api.KeysEnd(); !end.IsZero() {
		v.HttpKeysEndMs = end.UnixMilli()
	}
	if err := api.AuditFault(); err != nil {
		v.AuditFault = err.Error()
	}
	read, fault := api.IssuerFault()
	if fault == nil {
		return
	}
	v.IssuerFault = oneLine(fault.Error())
	if !read.IsZero() {
		v.IssuerKeysMs = read.UnixMilli()
	}
}

// known returns the ids of the nodes in the control group's map and in its group. A node without a quorum may know
// them by the group alone, since the map is not read again before a leader is there.
func (n *Node) known() []string {
	ids := append(n.directory.Nodes(), n.ID())
	if g := n.control.Group(); g != nil {
		ids = append(ids, g.Voters()...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// snapshot asks every node about itself, and the shards' leaders about the queues.
func (e *examiner) snapshot(ctx context.Context) *doctor.Snapshot {
	state := e.n.control.State()
	ids := e.n.known()
	queues := make(chan []doctor.Queue, 1)
	go func() { queues <- e.queuesNow(ctx, state) }()
	reports, failed := e.n.viewer.askAll(ctx, ids)
	s := &doctor.Snapshot{
		Self: e.n.ID(), InCluster: e.n.ClusterID() != "", Waits: e.n.Barred(), CommandVersion: control.InForce(state),
		MaxClockOffset: e.n.clocks.MaxOffset(), DataDir: ownState{e.n}.dataDir(),
	}
	for _, id := range ids {
		s.Nodes = append(s.Nodes, e.describe(id, state, reports[id], failed[id]))
	}
	if e.n.control.Group() != nil {
		s.Groups = append(s.Groups, e.controlGroup(ids, reports))
	}
	for _, shard := range state.Shards {
		s.Groups = append(s.Groups, e.shardGroup(shard, reports))
	}
	e.addShape(s, state, shapeOf(reports))
	s.Secrets, s.APIKeys = secretsOf(state), apiKeys(state, e.n.cfg.Clock())
	s.Backup = newestBackup(state.Backups, reports, e.n.cfg.Clock())
	s.Queues = <-queues
	return s
}

// apiKeys returns the keys of callers that have not expired.
func apiKeys(state *clusterpb.ControlState, now time.Time) (keys []doctor.APIKey) {
	for _, k := range state.ApiKeys {
		if k.ExpiresMs == 0 || k.ExpiresMs > now.UnixMilli() {
			used := time.UnixMilli(max(k.UsedMs, k.CreatedMs))
			keys = append(keys, doctor.APIKey{ID: k.Id, Unused: now.Sub(used)})
		}
	}
	return keys
}

// addShape adds the moves, and the absences that the leader of the control group reports.
func (e *examiner) addShape(s *doctor.Snapshot, state *clusterpb.ControlState, shape *clusterpb.Shape) {
	s.ReplaceAfter = time.Duration(shape.GetReplaceAfterMs()) * time.Millisecond
	for i := range s.Nodes {
		one := &s.Nodes[i]
		one.Missed = time.Duration(shape.GetAwayMs()[one.ID]) * time.Millisecond
		one.Leaves = state.Orders[one.ID] != clusterpb.NodeOrder_NODE_ORDER_WORK
	}
	names := namesOf(state)
	for _, m := range slotMovesOf(state, shape, names) {
		wait := shape.GetSlotsWait()[m.Number]
		s.SlotMoves = append(s.SlotMoves, doctor.SlotMove{
			From: m.From, To: m.To, Slots: m.Slots, GivenUp: m.Tries, CallsWait: wait.GetCallsWait(),
			Still: time.Duration(wait.GetStillMs()) * time.Millisecond, Reason: m.Waits,
		})
	}
	for _, shard := range state.Shards {
		if stuck := shape.GetStuckMs()[shard.Id]; stuck > 0 {
			s.Moves = append(s.Moves, doctor.Move{
				Shard: shard.Id, From: shard.Replicas, To: shard.Target, Blocked: shape.Shards[shard.Id],
				For: time.Duration(stuck) * time.Millisecond,
			})
		}
	}
}

// describe returns a node's own description, as far as it answers, and this node's knowledge of it.
func (e *examiner) describe(
	id string, state *clusterpb.ControlState, r *clusterpb.StatusReply, failed error,
) doctor.Node {
	entry := control.Node(state, id)
	d := doctor.Node{
		ID: id, Name: cmp.Or(entry.GetName(), e.n.directory.Name(id), id), URL: control.URL(entry), Peer: entry.GetPeerAddr(),
		Zone:           entry.GetZone(),
		CommandVersion: entry.GetCommandVersion(), Answers: r != nil || e.n.health.Alive(id),
	}
	if id == e.n.ID() {
		d.Name, d.URL, d.Peer, d.ClockKnown = e.n.cfg.Name, control.URL(e.n.entry()), e.n.entry().PeerAddr, true
	} else {
		d.Clock, _, d.ClockKnown = e.n.clocks.Offset(id)
	}
	if r == nil {
		e.describeSilent(&d, failed)
		return d
	}
	v := r.GetVitals()
	d.Waits, d.Hears, d.Build, d.NotReady = v.GetWaits(), v.GetHears(), v.GetBuild(), v.GetNotReady()
	d.DiskFree, d.DiskTotal, d.DiskReserve = v.GetDiskFree(), v.GetDiskTotal(), v.GetDiskReserve()
	d.DiskLow, d.MemoryFull = r.GetHealth().GetDiskLow(), r.GetHealth().GetMemoryFull()
	d.AuditFault, d.ClusterKeys, d.DataDir = v.GetAuditFault(), v.GetClusterKeys(), v.GetDataDir()
	d.MemoryUsed, d.MemoryLimit = v.GetMemoryUsed(), v.GetMemoryLimit()
	d.Attempts, d.Strangers = v.GetAttempts(), v.GetStrangers()
	if d.IssuerFault = v.GetIssuerFault(); v.GetIssuerKeysMs() != 0 {
		d.IssuerKeys = max(time.Since(time.UnixMilli(v.GetIssuerKeysMs())), time.Millisecond)
	}
	d.KeysEnd, d.HTTPKeysEnd = untilEnd(v.GetKeysEndMs()), untilEnd(v.GetHttpKeysEndMs())
	return d
}

// crowdLoad returns the number of attempts under way here, and the number from which on strangers wait.
func (o ownState) crowdLoad() (attempts, strangers int) {
	if o.n.crowd == nil { // the node is being opened
		return 0, 0
	}
	return o.n.crowd.Load()
}

// untilEnd returns the time until the end of a certificate, or 0 if there is none.
func untilEnd(endMs int64) time.Duration {
	if endMs == 0 {
		return 0
	}
	return time.Until(time.UnixMilli(endMs))
}

func (e *examiner) describeSilent(d *doctor.Node, failed error) {
	d.Refused = refusalIn(failed)
	silence, heard := e.n.health.Silence(d.ID)
	if !heard {
		silence = time.Since(e.opened)
	}
	d.Silent, d.Unheard = silence, !heard
}

// controlGroup describes the control group by the newest report of its replicas.
func (e *examiner) controlGroup(ids []string, reports statuses) doctor.Group {
	return e.newGroup(&clusterpb.Shard{Id: control.Number, Replicas: ids}, reports, e.n.control.Group().Voters())
}

func (e *examiner) shardGroup(s *clusterpb.Shard, reports statuses) doctor.Group {
	g := e.newGroup(s, reports, s.Replicas)
	for i := range g.Replicas {
		r := &g.Replicas[i]
		r.Diverged = r.Diverged || e.n.health.Diverged(s.Id, r.Node)
	}
	return g
}

// newGroup takes the leader and the voters from the report with the highest term. voters are the voters without any
// report. A replica on a node that is alive, and too slow to report, counts as present.
func (e *examiner) newGroup(s *clusterpb.Shard, reports statuses, voters []string) doctor.Group {
	g := doctor.Group{Shard: s.Id, Preferred: s.Preferred}
	term := uint64(0)
	for _, node := range s.Replicas {
		r := reports.replica(node, s.Id)
		if r != nil && (r.Term > term || r.Term == term && g.Leader == "") {
			term, g.Leader = r.Term, r.Leader
			if len(r.Voters) > 0 {
				voters = r.Voters
			}
		}
		g.Replicas = append(g.Replicas, doctor.Replica{
			Node: node, Applied: r.GetApplied(), Diverged: r.GetDiverged(),
			Present: r != nil && r.State != "shutdown" || reports[node] == nil && e.n.health.Alive(node),
		})
	}
	if !e.n.health.Alive(g.Leader) {
		g.Leader = "" // a leader that does not answer is a memory
	}
	for i := range g.Replicas {
		g.Replicas[i].Voter = slices.Contains(voters, g.Replicas[i].Node)
	}
	return g
}

// Secrets counts the queues whose policies have secrets, by their cluster key.
func (n *Node) Secrets() doctor.Secrets { return secretsOf(n.control.State()) }

func secretsOf(state *clusterpb.ControlState) doctor.Secrets {
	s := doctor.Secrets{Key: state.ClusterKey, Sealed: map[string]int{}}
	for _, p := range state.Queues {
		switch {
		case p.Sealed != nil:
			s.Sealed[p.Sealed.Key]++
		case seal.HasPlain(p):
			s.Plain++
		}
	}
	for _, k := range state.JwtKeys {
		s.Tokens = append(s.Tokens, k.GetSealed().GetKey())
	}
	return s
}

// newestBackup joins the record of the scheduled backups with the nodes' memories of all backups.
func newestBackup(record *clusterpb.Backups, reports statuses, now time.Time) doctor.Backup {
	last := record.GetLastFailed()
	failed := &clusterpb.BackupOutcome{FailedMs: last.GetSeenMs(), Error: last.GetError()}
	whole := record.GetLastKept().GetSeenMs()
	for _, r := range reports {
		outcome := r.GetVitals().GetBackup()
		whole = max(whole, outcome.GetWholeMs())
		if outcome.GetFailedMs() > failed.GetFailedMs() {
			failed = outcome
		}
	}
	var b doctor.Backup
	if failed.GetFailedMs() > whole {
		b.Failed = failed.Error
	}
	if whole > 0 {
		b.Since = now.Sub(time.UnixMilli(whole))
	}
	return b
}

// queuesNow returns the state of the queues of all namespaces, as far as the shards answer in time.
func (e *examiner) queuesNow(ctx context.Context, state *clusterpb.ControlState) []doctor.Queue {
	if len(state.Shards) == 0 || e.n.Barred() != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, viewPatience)
	defer cancel()
	now, _ := e.n.Now()
	names := []string{task.DefaultNamespace}
	for _, other := range e.n.tenants.Namespaces() {
		if other.Name != task.DefaultNamespace {
			names = append(names, other.Name)
		}
	}
	var all []doctor.Queue
	for _, namespace := range names {
		queues, err := e.n.Queues(ctx, namespace)
		if err != nil {
			e.n.cfg.Logger.Debug("the queues are not known", "namespace", namespace, "err", err)
			return all
		}
		for _, q := range queues {
			d := describeQueue(namespace, q, now)
			if !d.Paused && len(d.Broken) == 0 && (d.Late() && !d.Pulled || d.Fails()) {
				d.Failure = e.failure(ctx, namespace, d.Name, fsmpb.State_STATE_RETRYING, fsmpb.State_STATE_READY)
			}
			if d.Dies() {
				d.Death = e.failure(ctx, namespace, d.Name, fsmpb.State_STATE_DEAD)
			}
			all = append(all, d)
		}
	}
	return all
}

// failure returns the last error of a task in one of the states, or nothing if the search would take long.
func (e *examiner) failure(ctx context.Context, namespace, queue string, states ...fsmpb.State) string {
	q := &fsmpb.ListQuery{Namespace: namespace, Queue: queue, States: states}
	for range failurePages {
		page, err := e.n.router.List(ctx, q, true)
		if err != nil {
			return ""
		}
		for _, t := range page.Tasks {
			if t.LastError != "" {
				return oneLine(t.LastError)
			}
		}
		if !page.More {
			return ""
		}
		q.Slot, q.AfterId = page.Slot, page.AfterId
	}
	return ""
}

// failurePages is the largest number of pages of a list in which failure looks for a task.
const failurePages = 64

// receiverOf returns the URL of a broken receiver, without a query, which may have secrets.
func receiverOf(p *fsmpb.QueuePolicy, b *fsmpb.Broken) string {
	if b.Receiver == "" {
		url, _, _ := strings.Cut(p.GetTarget().GetUrl(), "?")
		return url
	}
	return b.Receiver + b.Path
}

// limitOf describes the limits of a queue on its attempts and leases.
func limitOf(p *fsmpb.QueuePolicy) string {
	var limits []string
	if p.GetMaxInFlight() > 0 {
		limits = append(limits, fmt.Sprint(p.GetMaxInFlight(), " in flight"))
	}
	if p.GetMaxPerSecond() > 0 {
		limits = append(limits, fmt.Sprint(p.GetMaxPerSecond(), " a second"))
	}
	return strings.Join(limits, " and ")
}

func describeQueue(namespace string, q task.Queue, now time.Time) doctor.Queue {
	p, c := q.Policy, q.Counts
	d := doctor.Queue{
		Name: c.Queue, Paused: p.GetPaused(), Limited: c.AtLimit, Limit: limitOf(p), Pulled: c.OldestPulled,
		Grouped: task.LimitsGroups(p),
		Ready:   c.Ready, Leased: c.Leased, Retrying: c.Retrying, Dead: c.Dead, Delivered: c.Delivered,
		KeepDone: cmp.Or(time.Duration(p.GetKeepDoneMs())*time.Millisecond, task.DefaultKeepDone),
	}
	if namespace != task.DefaultNamespace {
		d.Namespace = namespace
	}
	for _, b := range c.Broken {
		d.Broken = append(d.Broken, doctor.Broken{
			Name: receiverOf(p, b), For: max(now.Sub(time.UnixMilli(b.SinceMs)), 0), LastError: oneLine(b.LastError),
			Waiting: b.Waiting,
		})
	}
	if c.OldestOverdueMs > 0 {
		d.Overdue = max(now.Sub(time.UnixMilli(c.OldestOverdueMs)), 0)
	}
	return d
}
