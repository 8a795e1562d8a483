package workload

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

// The paths of the receiver in the workload.
const (
	healthyPath = "healthy"
	badPath     = "bad"
)

// badPathWebhook measures the lateness of tasks for one path of a receiver while another path refuses, fails or hangs.
func badPathWebhook(s Sizes) Workload {
	f := firing{tasks: s.HealthyTasks, over: s.HealthyOver, push: true}
	title := fmt.Sprintf("webhooks, %.0f a second beside %d tasks at a bad path", perSecond(f.tasks, f.over), s.BadTasks)
	return Workload{
		Name: "bad-path-webhook", Title: title, Figures: latenessFigures(),
		run: func(ctx context.Context, r *run) error { return playBadPath(ctx, r, f) },
	}
}

func playBadPath(ctx context.Context, r *run, f firing) error {
	out := &fired{ledger: newLedger(newIDs(), f.tasks)}
	pusher, err := able[subject.Pusher](r.service, "send webhooks")
	if err != nil {
		return err
	}
	url, stop, err := listen(ctx, out.got)
	if err != nil {
		return err
	}
	if err = failFirst(ctx, r, pusher, url+badPath); err == nil {
		err = pusher.PushTo(url + healthyPath)
	}
	if err == nil {
		err = r.fireTo(ctx, f, out)
	}
	if err = errors.Join(err, stop()); err == nil {
		r.setLateness(out)
	}
	return err
}

// failFirst schedules the tasks for the bad path, due at once, and waits until they have failed.
func failFirst(ctx context.Context, r *run, pusher subject.Pusher, url string) error {
	load, err := r.loader(ctx)
	if err != nil {
		return err
	}
	if err := pusher.PushTo(url); err != nil {
		return err
	}
	ids, due, payload := newIDs(), time.Now().Truncate(time.Millisecond), newPayload(r.sizes.Payload)
	if _, err := load.load(ctx, r.sizes.BadTasks, func(i int) subject.Task {
		return subject.Task{ID: ids.id(i), Due: due, Payload: payload}
	}); err != nil {
		return fmt.Errorf("scheduling for the bad path: %w", err)
	}
	return loop.SleepUntil(ctx, due.Add(r.sizes.BadFirst))
}

// answerBadly refuses, fails or never answers, by the last digit of the task's id.
func answerBadly(w http.ResponseWriter, r *http.Request) {
	statuses := []int{http.StatusUnprocessableEntity, http.StatusNotFound, http.StatusInternalServerError}
	id := r.Header.Get("Ce-Subject")
	if id == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if n := int(id[len(id)-1]) % (len(statuses) + 1); n < len(statuses) {
		w.WriteHeader(statuses[n])
		return
	}
	<-r.Context().Done()
}
