package beanstalkd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/beanstalkd/go-beanstalk"
	"golang.org/x/sync/errgroup"

	"github.com/belfryhq/belfry/bench/peers/installed"
	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/deploy/local"
)

const program = "beanstalkd"

// Subject returns beanstalkd with an fsync for each write.
func Subject() subject.Subject {
	return subject.Subject{
		Name: "beanstalkd -f0", Promise: subject.Promise{Nodes: 1, Fsync: subject.FsyncEachWrite},
		Need: func() error { return installed.Debian(program) }, Start: start,
	}
}

func start(ctx context.Context, dir string) (subject.Service, error) {
	addrs, err := local.FreeAddrs(1)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addrs[0])
	if err != nil {
		return nil, err
	}
	process, err := subject.Run(ctx, subject.Command{
		Args: []string{program, "-l", host, "-p", port, "-b", dir, "-f0"}, Dir: dir, Ready: subject.Answers(addrs[0]),
	})
	if err != nil {
		return nil, err
	}
	return &service{Process: process, addr: addrs[0], jobs: &sync.Map{}}, nil
}

type service struct {
	*subject.Process
	addr string
	jobs *sync.Map // the server's job numbers, by task id
}

func (s *service) Caller(context.Context) (subject.Caller, error) {
	conn, err := beanstalk.Dial("tcp", s.addr)
	if err != nil {
		return nil, err
	}
	return &caller{conn, s.addr, s.jobs}, nil
}

const (
	priority  = 1024        // the middle of the range, by the protocol's documentation
	timeToRun = time.Minute // from reserving a job until it is ready again unless it is deleted

	consumers   = 16 // connections that reserve
	reserveWait = time.Second
)

type caller struct {
	conn *beanstalk.Conn
	addr string
	jobs *sync.Map
}

// Schedule puts a job whose body is the task's id, a line break and the payload.
func (c *caller) Schedule(_ context.Context, task subject.Task) error {
	body := make([]byte, 0, len(task.ID)+1+len(task.Payload))
	body = append(append(append(body, task.ID...), '\n'), task.Payload...)
	job, err := c.conn.Put(body, priority, wholeSeconds(time.Until(task.Due)), timeToRun)
	if err == nil {
		c.jobs.Store(task.ID, job)
	}
	return err
}

func wholeSeconds(d time.Duration) time.Duration {
	return max(0, (d + time.Second - 1).Truncate(time.Second))
}

func (c *caller) ScheduleBatch(ctx context.Context, tasks []subject.Task) error {
	var all errgroup.Group
	for _, task := range tasks {
		all.Go(func() error { return c.Schedule(ctx, task) })
	}
	return all.Wait()
}

func (c *caller) Cancel(_ context.Context, id string) error {
	job, ok := c.jobs.LoadAndDelete(id)
	if !ok {
		return fmt.Errorf("task %s is not there", id)
	}
	return c.conn.Delete(job.(uint64))
}

func (c *caller) CancelBatch(ctx context.Context, ids []string) error {
	var all errgroup.Group
	for _, id := range ids {
		all.Go(func() error { return c.Cancel(ctx, id) })
	}
	return all.Wait()
}

// Consume reserves and deletes jobs on several connections.
func (c *caller) Consume(ctx context.Context, got func(id string, at time.Time)) error {
	all, ctx := errgroup.WithContext(ctx)
	for range consumers {
		all.Go(func() error {
			conn, err := beanstalk.Dial("tcp", c.addr)
			if err != nil {
				return err
			}
			return errors.Join(c.reserve(ctx, conn, got), conn.Close())
		})
	}
	return all.Wait()
}

func (c *caller) reserve(ctx context.Context, conn *beanstalk.Conn, got func(id string, at time.Time)) error {
	for ctx.Err() == nil {
		job, body, err := conn.Reserve(reserveWait)
		if errors.Is(err, beanstalk.ErrTimeout) {
			continue
		}
		if err != nil {
			return err
		}
		at := time.Now()
		id, _, ok := bytes.Cut(body, []byte{'\n'})
		if !ok {
			return fmt.Errorf("job %d is no task: %.40q", job, body)
		}
		got(string(id), at)
		c.jobs.Delete(string(id))
		if err := conn.Delete(job); err != nil {
			return err
		}
	}
	return nil
}

func (c *caller) Close() error { return c.conn.Close() }
