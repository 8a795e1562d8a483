package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/belfryhq/belfry/client"
)

// A program that may have scheduled its task before, in a run that crashed say, schedules it once.
func ExampleIfAbsent() {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { // in place of a real one
		w.WriteHeader(http.StatusPreconditionFailed)
		_, _ = io.WriteString(w, `{"type": "urn:belfry:problem:precondition-failed", "title": "The condition does not hold.", "status": 412,
			"task": {"id": "order-1042-close", "state": "delivered"}}`)
	}))
	defer node.Close()
	c, err := client.New(client.Config{Addrs: []string{node.URL}, SingleCalls: true})
	if err != nil {
		panic(err)
	}

	task := client.Task{ID: "order-1042-close", Delay: 30 * time.Minute}
	_, err = c.Schedule(context.Background(), task, client.IfAbsent())
	var refusal *client.Error
	switch {
	case err == nil:
		fmt.Println("scheduled")
	case errors.Is(err, client.ErrPrecondition) && errors.As(err, &refusal) && refusal.Task != nil:
		fmt.Println("there already:", refusal.Task.State)
	default:
		panic(err)
	}
	// Output: there already: delivered
}
