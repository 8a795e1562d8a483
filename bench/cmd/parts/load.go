package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/deploy/local"
)

const callers = 64

// load schedules tasks with ids of 24 bytes.
type load struct {
	stand   *stand
	payload string
	next    atomic.Int64
	target  string // URL; empty: consumers pull the tasks
	queue   string
	due     time.Time // zero: in a day
}

func (l *load) task() (id string, body map[string]any) {
	body = map[string]any{"payload": l.payload, "delay": "24h"}
	if !l.due.IsZero() {
		delete(body, "delay")
		body["fire_at"] = l.due.Format(time.RFC3339Nano)
	}
	if l.target != "" {
		body["target"] = map[string]any{"url": l.target}
	}
	if l.queue != "" {
		body["queue"] = l.queue
	}
	return fmt.Sprintf("order-%018d", l.next.Add(1)), body
}

// puts sends one PUT a task, from a number of concurrent callers.
func (l *load) puts(to local.Node, tasks, callers int) (int, int, error) {
	var left atomic.Int64
	left.Store(int64(tasks))
	err := all(callers, func() error {
		for left.Add(-1) >= 0 {
			id, body := l.task()
			err := l.call("PUT", to, "/v1/tasks/"+id, "application/json", id, encode(body))
			if err != nil {
				return err
			}
		}
		return nil
	})
	return tasks, tasks, err
}

// batches schedules the tasks in requests of a hundred lines.
func (l *load) batches(to local.Node, tasks int) (int, int, error) {
	const lines = 100
	var left atomic.Int64
	left.Store(int64(tasks / lines))
	err := all(8, func() error {
		for left.Add(-1) >= 0 {
			var body bytes.Buffer
			for range lines {
				id, task := l.task()
				task["op"], task["id"], task["key"] = "schedule", id, id
				body.Write(encode(task))
				body.WriteByte('\n')
			}
			if err := l.call("POST", to, "/v1/batch", "application/x-ndjson", "", body.Bytes()); err != nil {
				return err
			}
		}
		return nil
	})
	return tasks / lines * lines, tasks / lines, err
}

func all(n int, do func() error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = do() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// call repeats a call that failed with a 5xx status: a busy machine may lose its leader.
func (l *load) call(method string, to local.Node, path, kind, key string, body []byte) error {
	const patience, pause = 30 * time.Second, 100 * time.Millisecond
	for began := time.Now(); ; <-time.After(pause) {
		err := l.callOnce(method, to, path, kind, key, body)
		if !errors.Is(err, errAgain) || time.Since(began) > patience {
			return err
		}
	}
}

var errAgain = errors.New("not known to be done")

func (l *load) callOnce(method string, to local.Node, path, kind, key string, body []byte) error {
	request, err := http.NewRequest(method, "http://"+to.HTTPAddr+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", kind)
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	answer, err := l.stand.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // the body was only read
	text, err := io.ReadAll(answer.Body)
	switch {
	case err == nil && answer.StatusCode/100 == 5:
		return fmt.Errorf("%w: %s %s: %s: %s", errAgain, method, path, answer.Status, text)
	case err == nil && answer.StatusCode/100 != 2:
		return fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	return err
}

// receive answers webhooks. It closes done after the given number of tasks.
func receive(ctx context.Context, tasks int) (url string, done <-chan struct{}, stop func() error, err error) {
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, nil, err
	}
	var got atomic.Int64
	all := make(chan struct{})
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err == nil && got.Add(1) == int64(tasks) {
				close(all)
			}
		})}
	go func() { _ = server.Serve(listen) }() // until stop closes the server
	return "http://" + listen.Addr().String() + "/fire", all, server.Close, nil
}

// consume leases and acknowledges up to a hundred tasks a call through a node, until the given number is done.
func (l *load) consume(to local.Node, tasks int) (int, int, error) {
	var done atomic.Int64
	err := all(4, func() error {
		for done.Load() < int64(tasks) {
			n, err := l.leaseOnce(to)
			if err != nil {
				return err
			}
			done.Add(int64(n))
		}
		return nil
	})
	return tasks, tasks / 100, err
}

func (l *load) leaseOnce(to local.Node) (int, error) {
	url := "http://" + to.HTTPAddr + "/v1/queues/" + l.queue
	answer, err := l.stand.http.Post(url+"/lease", "application/json",
		strings.NewReader(`{"max": 100, "wait": "1s", "lease": "60s"}`))
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }() // the body was only read
	var leased struct{ Tasks []struct{ Receipt string } }
	if err := json.NewDecoder(answer.Body).Decode(&leased); err != nil || len(leased.Tasks) == 0 {
		return 0, err
	}
	receipts := make([]string, 0, len(leased.Tasks))
	for _, t := range leased.Tasks {
		receipts = append(receipts, t.Receipt)
	}
	return len(receipts), l.call("POST", to, "/v1/queues/"+l.queue+"/settle", "application/json", "",
		encode(map[string]any{"ack": receipts}))
}
