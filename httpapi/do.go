package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

const (
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// doPatiently carries out commands. It repeats those that were refused for overload, with a growing pause, until none
// is refused or the client is gone. Backend's rules for such refusals keep the order about one id, and allow a command
// to be passed twice.
func (s *Server) doPatiently(ctx context.Context, cmds []*fsmpb.Command) ([]task.Reply, error) {
	replies, err := s.doOnce(ctx, cmds)
	for pause := firstPause; err == nil; pause = min(2*pause, lastPause) {
		refused := overloadedAmong(replies)
		if len(refused) == 0 {
			return replies, nil
		}
		s.metrics.retries.Inc()
		if err = wait(ctx, pause/2+rand.N(pause)); err == nil {
			err = s.again(ctx, cmds, replies, refused)
		}
	}
	return nil, err
}

// doOnce carries out commands within the time for a call. It does not call the backend for an empty list.
func (s *Server) doOnce(ctx context.Context, cmds []*fsmpb.Command) ([]task.Reply, error) {
	if len(cmds) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	replies := s.cfg.Backend.Do(ctx, cmds)
	if len(replies) != len(cmds) {
		return nil, fmt.Errorf("the backend gave %d replies to %d commands", len(replies), len(cmds))
	}
	return replies, nil
}

func overloadedAmong(replies []task.Reply) []int {
	var refused []int
	for i, r := range replies {
		if r.Err != nil && errors.Is(r.Err, task.ErrOverloaded) {
			refused = append(refused, i)
		}
	}
	return refused
}

// again carries out the refused commands and replaces their replies.
func (s *Server) again(ctx context.Context, cmds []*fsmpb.Command, replies []task.Reply, refused []int) error {
	part := make([]*fsmpb.Command, len(refused))
	for i, at := range refused {
		part[i] = cmds[at]
	}
	fresh, err := s.doOnce(ctx, part)
	if err != nil {
		return err
	}
	for i, at := range refused {
		replies[at] = fresh[i]
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
