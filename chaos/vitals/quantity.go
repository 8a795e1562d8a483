package vitals

// Quantity is a resource of a node, with the bound of its trend. A quantity with neither Slip nor Rate is not judged.
type Quantity struct {
	Name string  `json:"name"`
	Unit string  `json:"unit"`
	Slip float64 `json:"slip"` // least bound on the growth of the trend in a run
	Rate float64 `json:"rate"` // bound as a part of the median, if that is more
}

// Quantities returns all quantities that a watch records. Two causes of growth are part of the warm-up or within the
// bounds: tombstones, which nodes keep for ten minutes, and logs, which are cut only after each snapshot.
func Quantities() []Quantity {
	return []Quantity{
		{Name: memory, Unit: "MiB", Slip: 12, Rate: 0.08},
		{Name: heap, Unit: "MiB", Slip: 8, Rate: 0.08},
		{Name: descriptors, Slip: 12, Rate: 0.05},
		{Name: goroutines, Slip: 30, Rate: 0.05},
		{Name: threads, Slip: 3, Rate: 0.05},
		{Name: disk, Unit: "MiB", Slip: 24, Rate: 0.1},
		{Name: processor, Unit: "cores"},
	}
}

const (
	memory      = "memory"
	heap        = "heap"
	descriptors = "descriptors"
	goroutines  = "goroutines"
	threads     = "threads"
	disk        = "disk"
	processor   = "processor"
)

func (q Quantity) judged() bool { return q.Slip > 0 || q.Rate > 0 }

// bound returns the largest growth of the trend that still counts as flat.
func (q Quantity) bound(median float64) float64 { return max(q.Slip, q.Rate*median) }
