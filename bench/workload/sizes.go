package workload

import "time"

// Sizes are the sizes of all workloads. The command bench has a flag for each, with the help as its text.
type Sizes struct {
	Payload     int `json:"payload" help:"bytes of a payload"`
	Callers     int `json:"callers" help:"concurrent callers"`
	ManyCallers int `json:"many_callers" help:"concurrent callers, in the workload with many"`
	Batch       int `json:"batch" help:"tasks in a batch"`
	Consumers   int `json:"consumers" help:"concurrent consumers"`

	ScheduleFor   time.Duration `json:"schedule_for_ns" help:"how long to schedule"`
	ScheduleTasks int           `json:"schedule_tasks" help:"tasks to schedule at most"`

	SteadyRate int           `json:"steady_rate" help:"tasks scheduled and fired a second in the steady workload"`
	SteadyFor  time.Duration `json:"steady_for_ns" help:"how long the steady workload schedules"`

	LatenessTasks int           `json:"lateness_tasks" help:"tasks whose lateness is measured"`
	LatenessOver  time.Duration `json:"lateness_over_ns" help:"the time within which they are due"`
	WebhookTasks  int           `json:"webhook_tasks" help:"tasks whose lateness as webhooks is measured"`
	WebhookOver   time.Duration `json:"webhook_over_ns" help:"the time within which they are due"`
	BadTasks      int           `json:"bad_tasks" help:"tasks for the path that fails"`
	BadFirst      time.Duration `json:"bad_first_ns" help:"time from those on until the first healthy task is scheduled"`
	HealthyTasks  int           `json:"healthy_tasks" help:"tasks for the other path"`
	HealthyOver   time.Duration `json:"healthy_over_ns" help:"the time within which they are due"`
	Patience      time.Duration `json:"patience_ns" help:"how long to wait for tasks that are overdue; longer than leases"`

	BurstTasks  int `json:"burst_tasks" help:"tasks due in one millisecond"`
	CancelTasks int `json:"cancel_tasks" help:"tasks to cancel"`

	TouchIDs   int           `json:"touch_ids" help:"ids that send heartbeats"`
	TouchDelay time.Duration `json:"touch_delay_ns" help:"how long after a heartbeat its task is due"`
	TouchFor   time.Duration `json:"touch_for_ns" help:"how long heartbeats are sent; at least twice --touch-delay"`

	MemoryTasks  int           `json:"memory_tasks" help:"pending tasks whose memory is measured"`
	MemoryMany   int           `json:"memory_many" help:"pending tasks in memory-many, where snapshots are written"`
	SmallPayload int           `json:"small_payload" help:"bytes of the payloads of memory-small"`
	Settle       time.Duration `json:"settle_ns" help:"quiet time before memory or idle cost is read"`

	RepeatSchedules int           `json:"repeat_schedules" help:"repeating schedules"`
	RepeatEvery     time.Duration `json:"repeat_every_ns" help:"interval of each repeating schedule"`
	RepeatFor       time.Duration `json:"repeat_for_ns" help:"the time within which the measured occurrences are due"`

	RestartTasks int `json:"restart_tasks" help:"tasks that must survive a kill of everything"`

	FailoverRate   int           `json:"failover_rate" help:"tasks due a second while the leader is taken away"`
	FailoverWrites int           `json:"failover_writes" help:"tasks scheduled a second meanwhile"`
	FailoverFor    time.Duration `json:"failover_for_ns" help:"how long; the leader goes after a third of it"`

	IdleFor time.Duration `json:"idle_for_ns" help:"how long to measure a service without work"`

	// Sizes of the workload tails.
	TailsRate      int           `json:"tails_rate" help:"schedules a second; 0: half of the capacity"`
	TailsPending   int           `json:"tails_pending" help:"tasks that are scheduled beforehand"`
	TailsFor       time.Duration `json:"tails_for_ns" help:"how long each of its parts takes"`
	TailsRewrite   int           `json:"tails_rewrite" help:"bytes a second that are replaced for the log to grow"`
	TailsCascade   int           `json:"tails_cascade" help:"tasks that lie in one slot of a wheel"`
	TailsSpan      time.Duration `json:"tails_span_ns" help:"span of the slot, which begins at a multiple of it"`
	TailsConsumers int           `json:"tails_consumers" help:"consumers that come and go"`
	TailsParts     []string      `json:"tails_parts" help:"only these: quiet, snapshots, cascade, storm, moves"`

	// Sizes of the workload neighbours.
	NeighbourRate    int           `json:"neighbour_rate" help:"tasks that the neighbour of a storm schedules a second"`
	NeighbourFor     time.Duration `json:"neighbour_for_ns" help:"how long, alone and beside a storm"`
	NeighbourTurns   int           `json:"neighbour_turns" help:"how often each storm comes"`
	NeighbourStorms  []string      `json:"neighbour_storms" help:"only these: batches, calls, due, silent"`
	StormConnections int           `json:"storm_connections" help:"connections of a storm"`
	StormBatch       int           `json:"storm_batch" help:"tasks in a batch of a storm"`
	StormDue         int           `json:"storm_due" help:"tasks of a storm that are due at one instant"`
	StormSilent      int           `json:"storm_silent" help:"tasks of a storm for a receiver that never answers"`
	StormQuota       int           `json:"storm_quota" help:"schedules a second that the storm may make; 0: no limit"`

	Pending []int `json:"pending" help:"numbers of pending tasks of the growth workload, rising"`
	Probe   int   `json:"probe" help:"tasks by which it measures at each of them"`
	Queues  []int `json:"queues" help:"numbers of queues of the growth-queues workload, rising"`
}

// Full returns the sizes of the published figures. Only 10 million pending tasks are left out, which not every machine
// can hold.
func Full() Sizes {
	return Sizes{
		Payload: 200, Callers: 64, ManyCallers: 512, Batch: 100, Consumers: 4,
		ScheduleFor: 10 * time.Second, ScheduleTasks: 3_000_000,
		SteadyRate: 10_000, SteadyFor: 15 * time.Second,
		LatenessTasks: 100_000, LatenessOver: 10 * time.Second,
		WebhookTasks: 50_000, WebhookOver: 10 * time.Second, Patience: time.Minute,
		BadTasks: 1000, BadFirst: 5 * time.Second, HealthyTasks: 1000, HealthyOver: 20 * time.Second,
		BurstTasks: 50_000, CancelTasks: 50_000,
		TouchIDs: 10_000, TouchDelay: 5 * time.Second, TouchFor: 20 * time.Second,
		MemoryTasks: 1_000_000, MemoryMany: 1_000_000, SmallPayload: 100, Settle: 10 * time.Second,
		RepeatSchedules: 1_000_000, RepeatEvery: 250 * time.Second, RepeatFor: 250 * time.Second,
		RestartTasks: 100_000,
		FailoverRate: 2000, FailoverWrites: 500, FailoverFor: 12 * time.Second,
		IdleFor:      30 * time.Second,
		TailsPending: 1_000_000, TailsFor: 20 * time.Second, TailsRewrite: 24 << 20,
		TailsCascade: 200_000, TailsSpan: 1 << 18 * time.Millisecond, TailsConsumers: 100,
		NeighbourRate: 200, NeighbourFor: 8 * time.Second, NeighbourTurns: 3,
		StormConnections: 64, StormBatch: 1000, StormDue: 200_000, StormSilent: 20_000,
		Pending: []int{10_000, 100_000, 1_000_000}, Probe: 20_000, Queues: []int{1, 10, 100},
	}
}

// Quick returns sizes for a check of a minute or two. The figures of such a run mean little.
func Quick() Sizes {
	s := Full()
	s.Callers, s.ManyCallers = 16, 64
	s.ScheduleFor, s.ScheduleTasks = time.Second, 20_000
	s.SteadyRate, s.SteadyFor = 500, 2*time.Second
	s.LatenessTasks, s.LatenessOver = 2000, time.Second
	s.WebhookTasks, s.WebhookOver = 1000, time.Second
	s.BadTasks, s.BadFirst, s.HealthyTasks, s.HealthyOver = 200, time.Second, 100, 2*time.Second
	s.BurstTasks, s.CancelTasks = 2000, 2000
	s.TouchIDs, s.TouchDelay, s.TouchFor = 200, time.Second, 2*time.Second
	s.MemoryTasks, s.MemoryMany, s.Settle = 20_000, 20_000, time.Second
	s.RepeatSchedules, s.RepeatEvery, s.RepeatFor = 1000, 3*time.Second, 6*time.Second
	s.RestartTasks = 2000
	s.FailoverRate, s.FailoverWrites, s.FailoverFor = 200, 50, 5*time.Second
	s.IdleFor = 2 * time.Second
	s.TailsRate, s.TailsPending, s.TailsFor = 500, 5000, 3*time.Second
	s.TailsRewrite, s.TailsCascade, s.TailsSpan, s.TailsConsumers = 1<<20, 2000, 1<<12*time.Millisecond, 10
	s.NeighbourRate, s.NeighbourFor, s.NeighbourTurns = 50, time.Second, 1
	s.StormConnections, s.StormBatch, s.StormDue, s.StormSilent = 8, 100, 2000, 200
	s.Pending, s.Probe, s.Queues = []int{1000, 5000}, 1000, []int{1, 10}
	return s
}
