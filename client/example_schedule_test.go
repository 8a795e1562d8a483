package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/client"
)

// A report is made at nine on every working day, by the clock of Berlin.
func ExampleClient_PutSchedule() {
	c, ctx := newClient(), context.Background()
	defer c.Close()

	schedule, err := c.PutSchedule(ctx, client.Schedule{
		ID: "daily-report",
		Repeat: client.Repeat{
			Cron:     []string{"0 9 * * MON-FRI"},
			TimeZone: "Europe/Berlin",
			Except:   []string{"2030-12-24/2031-01-01"},
		},
		Misfire: client.MisfireLatest,   // after an outage of days, one report is enough
		Overlap: client.OverlapQueueOne, // a report that takes long does not run twice at once
		Task: client.Task{
			Queue:   "reports",
			Payload: json.RawMessage(`{"kind": "daily"}`),
			Target:  &client.Target{URL: "https://shop.example/report"},
		},
	})
	if err != nil {
		panic(err)
	}
	occurrences, err := c.Occurrences(ctx, schedule.ID, 3, 0)
	if err != nil {
		panic(err)
	}
	for _, next := range occurrences.Next {
		fmt.Println(next.Number, next.Local.Format("15:04"))
	}
	// Output:
	// 1 09:00
	// 2 09:00
	// 3 09:00
}

// A schedule is paused during a migration. Afterwards it makes up for the instants in the pause.
func ExampleClient_Backfill() {
	c, ctx := newClient(), context.Background()
	defer c.Close()
	begin := time.Now().Add(-150 * time.Minute)
	_, err := c.PutSchedule(ctx, client.Schedule{
		ID:     "hourly-sync",
		Repeat: client.Repeat{Every: time.Hour, Anchor: begin.Add(15 * time.Minute)},
		Task:   client.Task{Queue: "syncs"},
	})
	if err != nil {
		panic(err)
	}

	schedule, err := c.PauseSchedule(ctx, "hourly-sync", "the migration of the stock is under way")
	if err != nil {
		panic(err)
	}
	fmt.Println("paused:", schedule.Paused)
	if _, err := c.ResumeSchedule(ctx, "hourly-sync", ""); err != nil {
		panic(err)
	}
	schedule, err = c.Backfill(ctx, "hourly-sync", begin, time.Now())
	if err != nil {
		panic(err)
	}
	fmt.Println("running:", schedule.Running, "waiting:", schedule.Waiting)
	// Output:
	// paused: true
	// running: [1] waiting: [2 3]
}
