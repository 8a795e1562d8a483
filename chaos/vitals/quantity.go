package vitals

// Quantity is something that is watched.
type Quantity struct {
	Name string  `json:"name"`
	Unit string  `json:"unit"`
	Slip float64 `json:"slip"` // by how much its trend may grow in a run and still be flat, at least
	Rate float64 `json:"rate"` // or by this part of its median, if that is more; 0 and no Slip: it is not judged
}

// Quantities are all that is watched. Tombstones make memory grow for the ten minutes that they are kept, and a log is
// cut only after each snapshot: both belong to the warm-up, or are within the bounds.
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

// bound is by how much it may grow.
func (q Quantity) bound(median float64) float64 { return max(q.Slip, q.Rate*median) }
