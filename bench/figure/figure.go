// Package figure has the words that the workloads and the report share: which figures a workload gives, and what was
// measured of one subject in one round. It knows neither how figures come about nor what is made of them.
package figure

import "time"

// Kind is a figure that a workload gives.
type Kind struct {
	Key    string `json:"key"`   // "rate"
	Title  string `json:"title"` // "acknowledged a second"
	Unit   string `json:"unit"`  // "/s", "ms", "µs", "MB", "B", "%"; empty: a count
	Higher bool   `json:"higher_is_better"`
}

// Measured is what one workload measured of one subject in one round.
type Measured struct {
	Workload string             `json:"workload"` // its name
	Subject  string             `json:"subject"`  // its name
	Round    int                `json:"round"`    // from 1
	Values   map[string]float64 `json:"values,omitempty"`
	Usage    Usage              `json:"usage"`
	Cannot   string             `json:"cannot,omitempty"` // what the subject cannot do, so that nothing was measured
	Failed   string             `json:"failed,omitempty"` // why nothing was measured
	Said     []string           `json:"said,omitempty"`   // what the workload did
}

// Usage is what the measured part of a workload used of the machine. Its zero value says that it is not known.
type Usage struct {
	Elapsed    time.Duration `json:"elapsed_ns"`
	LoadCPU    time.Duration `json:"load_cpu_ns"`    // of the process that calls and receives
	ServiceCPU time.Duration `json:"service_cpu_ns"` // of all processes of the service
}

// LoadShare is the load's part of the processor time that both used; false if it is not known.
func (u Usage) LoadShare() (float64, bool) {
	both := u.LoadCPU + u.ServiceCPU
	if both <= 0 {
		return 0, false
	}
	return float64(u.LoadCPU) / float64(both), true
}
