package wheel_test

import (
	"fmt"

	"github.com/belfryhq/belfry/wheel"
)

// records is the caller's memory. A handle is the index of a record.
type records []struct {
	node wheel.Node
	name string
}

func (r records) Read(h wheel.Handle) *wheel.Node  { return &r[h].node }
func (r records) Write(h wheel.Handle) *wheel.Node { return &r[h].node }

// The caller owns the records, and hands in the instants: Unix milliseconds.
func Example() {
	r := records{{name: "none"}, {name: "close"}, {name: "rate"}, {name: "offline"}}
	w := wheel.New(r, 1_000)
	w.Insert(1, 31_000, 1)
	w.Insert(2, 172_801_000, 2)
	w.Insert(3, 31_000, 3)

	next, _ := w.Next()
	fmt.Println("sleep until", next)
	fired, _ := w.Advance(next, 100, nil)
	for _, h := range fired {
		fmt.Println("due:", r[h].name)
	}
	fmt.Println("left:", w.Len())
	// Output:
	// sleep until 31000
	// due: close
	// due: offline
	// left: 1
}

// A record whose delay starts again keeps its handle.
func ExampleWheel_Reschedule() {
	r := records{{}, {name: "offline"}}
	w := wheel.New(r, 0)
	w.Insert(1, 30_000, 1)
	w.Reschedule(1, 45_000, 2)

	next, ok := w.Next()
	fmt.Println(next, ok)
	// Output: 45000 true
}
