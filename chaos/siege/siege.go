package siege

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/belfryhq/belfry/chaos/faults"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/chaos/vitals"
	"github.com/belfryhq/belfry/chaos/workload"
)

// siege is a siege under way.
type siege struct {
	cfg      Config
	kinds    []faults.Kind // kinds that can strike on this stage
	stand    *stand.Stand
	receiver *workload.Receiver
	deaths   *deaths
	report   *Report

	rested    int // acknowledged tasks of former rounds
	strangers int // attempts of former rounds' tasks that came until the last verdict
}

// Run lays siege. When ctx ends, Run completes the round under way and begins no other. An error means that the stand
// failed. The report then covers the rounds before; it is nil only if the siege did not begin.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	kinds, err := chosen(cfg.Faults)
	if err != nil {
		return nil, err
	}
	s := &siege{cfg: cfg, report: newReport(cfg)}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := s.open(ctx, kinds); err != nil {
		return nil, errors.Join(err, s.close())
	}
	watch := vitals.Begin(s.stand.Cluster, cfg.lookEvery())
	err = s.rounds(ctx)
	s.report.watched(s.stand.Names(), watch)
	s.report.finish()
	if ctx.Err() != nil {
		s.report.Thorough = false // the siege was cut short
	}
	return s.report, errors.Join(err, s.close(), s.epilogue())
}

// epilogue adds forbidden events of the nodes to the report: those between the last verdict and the nodes' stop.
func (s *siege) epilogue() error {
	for _, d := range s.deaths.take() {
		s.report.After = append(s.report.After, d.how+"; the end of its log:\n"+s.stand.Logs.Tail(d.node))
	}
	alarms, err := s.stand.Logs.Alarms()
	s.report.Errors += alarms.Errors
	s.report.After = append(s.report.After, alarms.Worse...)
	return err
}

func (s *siege) close() error {
	var err error
	if s.receiver != nil {
		err = s.receiver.Close()
	}
	if s.stand != nil {
		err = errors.Join(err, s.stand.Close())
	}
	if s.deaths != nil {
		s.deaths.close()
	}
	return err
}

// rounds plays the rounds one after the other.
func (s *siege) rounds(ctx context.Context) error {
	if s.cfg.Round > 0 {
		return s.next(ctx, s.cfg.Round)
	}
	began := time.Now()
	for n := 1; s.cfg.Rounds == 0 || n <= s.cfg.Rounds; n++ {
		if ctx.Err() != nil || s.cfg.For > 0 && time.Since(began) >= s.cfg.For {
			return nil
		}
		if err := s.next(ctx, n); err != nil {
			return err
		}
		if rounds := s.report.Rounds; s.cfg.Stop != nil && s.cfg.Stop(rounds[len(rounds)-1]) {
			return nil
		}
	}
	return nil
}

// next plays round n and adds it to the report.
func (s *siege) next(ctx context.Context, n int) error {
	r, err := s.play(ctx, n)
	if err != nil {
		return fmt.Errorf("round %d: %w", n, err)
	}
	s.report.add(r)
	_, err = fmt.Fprintln(s.cfg.Progress, r)
	return err
}
