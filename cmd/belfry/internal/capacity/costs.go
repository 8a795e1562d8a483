package capacity

// Cost is one measured number.
type Cost struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	What  string  `json:"what"`
	How   string  `json:"how"` // the command that measures the cost again
	On    string  `json:"on"`
}

// Costs holds all costs, indexed by costID.
type Costs [costCount]Cost

// value returns the value of a cost.
func (c *Costs) value(id costID) float64 { return c[id].Value }

// costID names a cost. "A task" has a queue, a target that other tasks share, a delay, and an id of at most 24 bytes.
// The bytes of the payload, of longer ids and of labels are added.
type costID int

const (
	// Memory of one replica.
	taskMemory costID = iota
	keyMemory
	labelMemory
	longIDMemory
	blobRounding
	tombstoneMemory
	groupMemory
	nodeMemory
	garbage
	// Disk and network.
	scheduleLog
	fireLog
	entryLog
	taskSnapshot
	labelBytes
	entryNetwork
	beatNetwork
	pingNetwork
	requestNetwork
	lineNetwork
	webhookNetwork
	pullNetwork
	// Processor.
	requestCPU
	lineCPU
	scheduleLeadCPU
	scheduleFollowCPU
	entryLeadCPU
	entryFollowCPU
	webhookCPU
	pullLeadCPU
	pullServeCPU
	fireFollowCPU
	snapshotCPU
	idleCPU
	beatCPU
	pingCPU
	restoreCPU
	// Limits of one shard or one disk.
	commitSeconds
	shardCommands
	snapshotRate

	costCount
)

// These name the command and the circumstances of a measurement. To measure a cost again, run its command and write
// the result down.
const (
	byTest  = "go test ./cmd/belfry/internal/capacity -run TestBytes -v"
	byParts = "go build -o bin/ ./cmd/belfry && go run -C bench ./cmd/parts --belfry ../bin/belfry"
	byPages = byParts + " --memory"
	// To measure writing, read its ms/write. To measure reading, time a look through the folder of a node with many
	// tasks. To measure the pace, divide the bytes of a large snapshot by belfry_shard_snapshot_duration_seconds of a node
	// under load.
	byMemory = "go test ./fsm -run - -bench Memory"
	byVerify = "time belfry verify DATA"
	byMetric = "curl -s localhost:8400/metrics | grep snapshot_duration_seconds"
	exact    = "counted, not timed: the same on every machine; 2026-11-21"
	inPages  = "resident pages, of a group's heap all of it; hardly depends on the machine; 2026-11-22"
	byBusy   = "2 cores of an AMD EPYC (virtual), busy with other work: to be measured again; 2026-11-21"
	fitted   = "fitted: idle nodes of 1 and 12 shards take 0.7 and 2.7 % of a core, three at 300 tasks/s 20 %; 2026-11-21"
	guessed  = "a guess on the safe side, not measured yet; 2026-11-21"
)

// Measured returns the costs that plans are made with. They are written down only here.
func Measured() Costs {
	return Costs{
		taskMemory: {"task_memory", 114, "bytes",
			"a pending task: record, places in the indexes of ids and due times, head of its blob",
			byTest, exact},
		keyMemory: {"key_memory", 16, "bytes",
			"the idempotency key of the call, as our clients send it",
			byTest, exact},
		labelMemory: {"label_memory", 37, "bytes",
			"a label of 17 bytes that no other task has: its place in the index, name and value",
			byTest, exact},
		longIDMemory: {"long_id_memory", 9, "bytes",
			"an id of more than 24 bytes, beside its bytes",
			byTest, exact},
		blobRounding: {"blob_rounding", 1.04, "times",
			"payload, and ids of more than 24 bytes, rounded up to slots",
			byTest, exact},
		tombstoneMemory: {"tombstone_memory", 227, "bytes",
			"a delivered task that is kept for keep_done",
			byTest, exact},
		groupMemory: {"group_memory", 1.6e6, "bytes",
			"a replica that was in use, beside tasks and log cache: goroutines, buffers of connections",
			byPages, inPages},
		nodeMemory: {"node_memory", 35e6, "bytes",
			"a node without replicas and load",
			byPages, inPages},
		garbage: {"garbage", 1.04, "times",
			"of the live heap, what the collector lets gather, and holes",
			byParts, guessed},

		scheduleLog: {"schedule_log", 87, "bytes",
			"a schedule in the log, beside id and payload",
			byTest, exact},
		fireLog: {"fire_log", 50, "bytes",
			"the settle of a task, beside its id; the Advance is in the entry",
			byTest, exact},
		entryLog: {"entry_log", 102, "bytes",
			"an entry on disk, beside its commands: an Advance, raft's head, checksum",
			byTest, exact},
		taskSnapshot: {"task_snapshot", 134, "bytes",
			"a task in a snapshot, beside id and payload",
			byTest, exact},
		labelBytes: {"label_bytes", 23, "bytes",
			"a label of 17 bytes in the log, in a snapshot and on its way",
			byTest, exact},
		entryNetwork: {"entry_network", 520, "bytes",
			"an entry on its way to a follower and the answer, beside its commands",
			byTest, exact},
		beatNetwork: {"beat_network", 391, "bytes",
			"a heartbeat and its answer, with the heads of TCP and IP",
			byTest, exact},
		pingNetwork: {"ping_network", 900, "bytes",
			"a question for the time and its answer, over gRPC and TLS",
			byParts, guessed},
		requestNetwork: {"request_network", 700, "bytes",
			"an HTTP request for one task and its answer, beside id and payload",
			byParts, guessed},
		lineNetwork: {"line_network", 150, "bytes",
			"a line of a batch and its answer, beside id and payload",
			byParts, guessed},
		webhookNetwork: {"webhook_network", 1100, "bytes",
			"a webhook and its answer, beside the payload",
			byParts, guessed},
		pullNetwork: {"pull_network", 900, "bytes",
			"a task on its way to a consumer, and its receipt back, beside the payload",
			byParts, guessed},

		requestCPU: {"request_cpu", 94, "µs",
			"an HTTP request, at the node that takes it",
			byParts, byBusy},
		lineCPU: {"line_cpu", 73, "µs",
			"a schedule there: parsing, forwarding, answering",
			byParts, byBusy},
		scheduleLeadCPU: {"schedule_lead_cpu", 83, "µs",
			"a schedule at its leader",
			byParts, byBusy},
		scheduleFollowCPU: {"schedule_follow_cpu", 8, "µs",
			"a schedule at a follower",
			byParts, byBusy},
		entryLeadCPU: {"entry_lead_cpu", 240, "µs",
			"an entry at its leader",
			byParts, fitted},
		entryFollowCPU: {"entry_follow_cpu", 130, "µs",
			"an entry at a follower",
			byParts, fitted},
		webhookCPU: {"webhook_cpu", 133, "µs",
			"a fire by webhook at the leader, its settle included",
			byParts, byBusy},
		pullLeadCPU: {"pull_lead_cpu", 44, "µs",
			"a fire to a consumer at the leader, its settle included",
			byParts, byBusy},
		pullServeCPU: {"pull_serve_cpu", 23, "µs",
			"the same at the node that serves the consumer",
			byParts, byBusy},
		fireFollowCPU: {"fire_follow_cpu", 18, "µs",
			"a fire at a follower: Advance and settle",
			byParts, byBusy},
		snapshotCPU: {"snapshot_cpu", 8000, "µs/MB",
			"writing a snapshot",
			byMemory, guessed},
		idleCPU: {"idle_cpu", 5000, "µs/s",
			"a node that does nothing, beside heartbeats and pings",
			byParts, fitted},
		beatCPU: {"beat_cpu", 125, "µs",
			"a heartbeat, or an empty append, at each of its two ends",
			byParts, fitted},
		pingCPU: {"ping_cpu", 150, "µs",
			"a gRPC question and answer at each of its two ends",
			byParts, fitted},
		restoreCPU: {"restore_cpu", 2, "µs",
			"a task that is read from a snapshot when a node starts",
			byVerify, guessed},

		commitSeconds: {"commit_seconds", 0.001, "s",
			"an entry from its proposal until it is applied, unloaded",
			"go test ./shard -bench Do/replicas=3/callers=1/batch=1$", guessed},
		shardCommands: {"shard_commands", 40000, "1/s",
			"commands that one shard commits, one a call",
			"go test ./shard -bench Do/replicas=3/callers=512/batch=1$", guessed},
		snapshotRate: {"snapshot_rate", 30e6, "bytes/s",
			"snapshots written at the pace that leaves the disk to the log",
			byMetric, guessed},
	}
}
