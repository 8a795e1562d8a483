package history_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"

	"github.com/belfryhq/belfry/history"
	"github.com/belfryhq/belfry/history/historypb"
)

// A replica appends the events of the entries that it applies. A reader follows a namespace.
func Example() {
	dir, err := os.MkdirTemp("", "history")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := history.Open(history.Config{Dir: dir, Bytes: 1 << 30})
	if err != nil {
		log.Fatal(err)
	}
	shard, err := store.Shard(3)
	if err != nil {
		log.Fatal(err)
	}
	shard.Gap(1, 40) // the replica begins with a snapshot of entry 40
	shard.Append(41, slices.Values([]*history.Event{
		{Namespace: "acme", Task: "order-1", Type: historypb.Type_TYPE_FIRED, Attempt: 1},
		{Namespace: "acme", Task: "order-2", Type: historypb.Type_TYPE_CANCELLED},
	}))

	page, err := store.Read(context.Background(), 3, "acme", history.Position{}, history.Filter{}, 100)
	var gone *history.GoneError
	if errors.As(err, &gone) {
		log.Fatal("begin after ", gone.After)
	} else if err != nil {
		log.Fatal(err)
	}
	for _, g := range page.Gaps {
		fmt.Println("missing:", g.First, "to", g.Last)
	}
	for _, e := range page.Events {
		fmt.Println(e.Position(), e.Type, e.Task)
	}
	if err := store.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// missing: 1.0 to 40.4294967295
	// 41.0 TYPE_FIRED order-1
	// 41.1 TYPE_CANCELLED order-2
}
