package view

// Wheel counts the tasks that wait in the timing wheels of the shards.
type Wheel struct {
	Now       Instant   `json:"now"`     // by the clock of the shards' leaders
	Waiting   uint64    `json:"waiting"` // scheduled and retrying tasks
	DueWithin DueWithin `json:"due_within"`
	Steps     DueSteps  `json:"steps"`
	Rows      []Ring    `json:"rows"`           // the finest first
	Beside    uint64    `json:"beside"`         // tasks in no ring, most of them due next
	Missing   []uint32  `json:"missing_shards"` // shards that are not counted, since their leaders did not answer
}

// DueWithin counts the tasks that come due within spans of time, overdue ones included. A longer span has the tasks of
// the shorter ones.
type DueWithin struct {
	Second    uint64 `json:"1s"`
	Seconds10 uint64 `json:"10s"`
	Minute    uint64 `json:"1m"`
	Minutes10 uint64 `json:"10m"`
	Hour      uint64 `json:"1h"`
}

// DueSteps counts tasks by due time, in steps of equal length.
type DueSteps struct {
	From   Instant  `json:"from"`    // begin of the first step
	StepMs int64    `json:"step_ms"` // length of a step in milliseconds
	Tasks  []uint64 `json:"tasks"`
}

// Ring counts the tasks in the slots of one ring of the wheel.
type Ring struct {
	Level  int      `json:"level"`
	From   Instant  `json:"from"`    // begin of the first slot
	SlotMs int64    `json:"slot_ms"` // span of a slot in milliseconds
	Tasks  []uint64 `json:"tasks"`
}

// Activity counts events, and attempts by lateness, in steps of a few seconds.
type Activity struct {
	Since        Instant        `json:"since"` // earlier events are not counted
	StepMs       int64          `json:"step_ms"`
	LateWithinMs []int64        `json:"late_within_ms"` // upper bounds of the classes of lateness but the last
	Steps        []ActivityStep `json:"steps"`          // those with an event
	Missing      []uint32       `json:"missing_shards"` // shards that are not counted, since their leaders did not answer
}

// ActivityStep counts the events of one step.
type ActivityStep struct {
	At        Instant  `json:"at"` // begin of the step
	Scheduled uint64   `json:"scheduled"`
	Fired     uint64   `json:"fired"` // attempts, leases among them
	Delivered uint64   `json:"delivered"`
	Failed    uint64   `json:"failed"` // attempts
	Dead      uint64   `json:"dead"`
	Cancelled uint64   `json:"cancelled"`
	Skipped   uint64   `json:"skipped"` // occurrences that did not run
	Late      []uint64 `json:"late"`    // attempts by class of lateness; the last class has no upper bound
	Held      []uint64 `json:"held"`    // attempts that a limit, a pause, a window, a receiver or a consumer held
}

// Advanced is the clock of a node in dev mode after an advance.
type Advanced struct {
	Now   Instant `json:"now"`
	Begun int     `json:"begun"` // attempts and leases that began meanwhile
}
