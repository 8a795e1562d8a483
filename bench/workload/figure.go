package workload

import "time"

// Figure describes a figure of a workload.
type Figure struct {
	Key    string `json:"key"`   // "rate"
	Title  string `json:"title"` // such as "acknowledged a second"
	Unit   string `json:"unit"`  // "/s", "ms", "µs", "MB", "B", "%"; empty: a count
	Higher bool   `json:"higher_is_better"`
}

// Measured holds the figures of one workload with one subject in one round.
type Measured struct {
	Workload string             `json:"workload"` // name of the workload
	Subject  string             `json:"subject"`  // name of the subject
	Round    int                `json:"round"`    // from 1
	Values   map[string]float64 `json:"values,omitempty"`
	Usage    Usage              `json:"usage"`
	Cannot   string             `json:"cannot,omitempty"` // ability that the subject lacks
	Failed   string             `json:"failed,omitempty"` // why the figures are missing
	Said     []string           `json:"said,omitempty"`   // progress messages of the workload
}

// Usage is the resource usage during the measured part of a workload. The zero value means unknown.
type Usage struct {
	Elapsed    time.Duration `json:"elapsed_ns"`
	LoadCPU    time.Duration `json:"load_cpu_ns"`    // of the process that calls and receives
	ServiceCPU time.Duration `json:"service_cpu_ns"` // of all processes of the service
}

// LoadShare returns the load's share of the processor time of load and service; false if it is unknown.
func (u Usage) LoadShare() (float64, bool) {
	both := u.LoadCPU + u.ServiceCPU
	if both <= 0 {
		return 0, false
	}
	return float64(u.LoadCPU) / float64(both), true
}
