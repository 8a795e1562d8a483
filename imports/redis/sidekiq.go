package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/belfryhq/belfry/imports"
)

// Sidekiq opens the jobs of Sidekiq that are scheduled or wait for a retry.
func Sidekiq(ctx context.Context, o Options) (*Source, error) {
	s, err := open(ctx, o, sidekiq{})
	if err != nil {
		return nil, err
	}
	s.sets = []set{{key: "schedule"}, {key: "retry"}}
	return s, nil
}

// sidekiq is the format of Sidekiq.
type sidekiq struct{}

// sidekiqRetries is the number of retries of a job that only says that it has some.
const sidekiqRetries = 25

var errNoJob = errors.New("the member is no job: class or jid is missing")

func (sidekiq) records(_ *Source, entries []entry) ([]converted, error) {
	all := make([]converted, len(entries))
	for i, e := range entries {
		all[i].Text = e.member
		all[i].Err = all[i].setSidekiq(e)
		if all[i].Key == "" {
			all[i].Key = fmt.Sprintf("%s:%s", e.set.key, e.member[:min(len(e.member), 40)])
		}
	}
	return all, nil
}

// setSidekiq sets the key and the task by a job. The payload is the whole job, since its consumer needs its class and
// its arguments.
func (r *converted) setSidekiq(e entry) (err error) {
	var job struct {
		Class, Wrapped, JID, Queue string
		Retry                      json.RawMessage
		RetryCount                 *int `json:"retry_count"`
	}
	if err := json.Unmarshal([]byte(e.member), &job); err != nil {
		return fmt.Errorf("the job: %w", err)
	}
	if job.Class == "" || job.JID == "" {
		return errNoJob
	}
	r.Key = "sidekiq:" + job.JID
	if r.Task, err = dueTask(e, imports.Seconds); err != nil {
		return err
	}
	t := &r.Task
	t.Queue = job.Queue
	t.Labels = map[string]string{typeLabel: cmp.Or(job.Wrapped, job.Class)}
	retries := 0
	if json.Unmarshal(job.Retry, &retries) != nil && string(job.Retry) == "true" {
		retries = sidekiqRetries
	}
	made := 0
	if job.RetryCount != nil {
		made = *job.RetryCount + 1 // 0 after the first failure
	}
	t.Retry = retryOf(retries+1, made)
	t.Payload = []byte(e.member)
	return nil
}
