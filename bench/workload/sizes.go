package workload

import "time"

// Sizes are the sizes of all workloads.
type Sizes struct {
	Payload     int `json:"payload"`      // bytes
	Callers     int `json:"callers"`      // concurrent
	ManyCallers int `json:"many_callers"` // concurrent, in the workload with many
	Batch       int `json:"batch"`        // tasks a call
	Consumers   int `json:"consumers"`

	ScheduleFor   time.Duration `json:"schedule_for_ns"`
	ScheduleTasks int           `json:"schedule_tasks"` // at most

	SteadyRate int           `json:"steady_rate"` // tasks a second, each due a second later
	SteadyFor  time.Duration `json:"steady_for_ns"`

	LatenessTasks int           `json:"lateness_tasks"`
	LatenessOver  time.Duration `json:"lateness_over_ns"` // due within
	WebhookTasks  int           `json:"webhook_tasks"`
	WebhookOver   time.Duration `json:"webhook_over_ns"` // due within
	BadTasks      int           `json:"bad_tasks"`       // for the path that fails
	BadFirst      time.Duration `json:"bad_first_ns"`    // from those on until the first healthy task is scheduled
	HealthyTasks  int           `json:"healthy_tasks"`   // for another path
	HealthyOver   time.Duration `json:"healthy_over_ns"` // due within
	Patience      time.Duration `json:"patience_ns"`     // wait for overdue tasks; longer than leases

	BurstTasks  int `json:"burst_tasks"` // due in one millisecond
	CancelTasks int `json:"cancel_tasks"`

	TouchIDs   int           `json:"touch_ids"`
	TouchDelay time.Duration `json:"touch_delay_ns"` // from a touch to the due instant
	TouchFor   time.Duration `json:"touch_for_ns"`   // at least twice TouchDelay

	MemoryTasks  int           `json:"memory_tasks"`
	MemoryMany   int           `json:"memory_many"`   // tasks, some of which are replaced
	SmallPayload int           `json:"small_payload"` // bytes, in the workload with small tasks
	Settle       time.Duration `json:"settle_ns"`     // wait before reading memory or idle cost

	RepeatSchedules int           `json:"repeat_schedules"`
	RepeatEvery     time.Duration `json:"repeat_every_ns"` // interval of each schedule
	RepeatFor       time.Duration `json:"repeat_for_ns"`   // time in which the measured occurrences are due

	RestartTasks int `json:"restart_tasks"`

	FailoverRate   int           `json:"failover_rate"`   // tasks due a second
	FailoverWrites int           `json:"failover_writes"` // tasks scheduled a second
	FailoverFor    time.Duration `json:"failover_for_ns"`

	IdleFor time.Duration `json:"idle_for_ns"`

	// Sizes of the workload tails.
	TailsRate      int           `json:"tails_rate"`    // tasks scheduled a second; 0: half of the highest rate
	TailsPending   int           `json:"tails_pending"` // tasks scheduled beforehand
	TailsFor       time.Duration `json:"tails_for_ns"`  // duration of each part
	TailsRewrite   int           `json:"tails_rewrite"` // bytes replaced a second, to grow the log
	TailsCascade   int           `json:"tails_cascade"` // tasks
	TailsSpan      time.Duration `json:"tails_span_ns"` // time in which they are due; it begins at a multiple of itself
	TailsConsumers int           `json:"tails_consumers"`
	TailsParts     []string      `json:"tails_parts"` // parts to run; none: all

	// Sizes of the workload neighbours.
	NeighbourRate    int           `json:"neighbour_rate"`   // tasks a second
	NeighbourFor     time.Duration `json:"neighbour_for_ns"` // of each measurement
	NeighbourTurns   int           `json:"neighbour_turns"`  // of each storm
	NeighbourStorms  []string      `json:"neighbour_storms"` // to run; none: all
	StormConnections int           `json:"storm_connections"`
	StormBatch       int           `json:"storm_batch"`  // tasks a call
	StormDue         int           `json:"storm_due"`    // tasks due at one instant
	StormSilent      int           `json:"storm_silent"` // tasks for a receiver that never answers
	StormQuota       int           `json:"storm_quota"`  // schedules a second that its tenant may make; 0: no limit

	Pending []int `json:"pending"` // numbers of pending tasks at which growth measures, in order
	Probe   int   `json:"probe"`   // tasks scheduled and fired at each size
	Queues  []int `json:"queues"`  // numbers of queues at which growth-queues measures
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
