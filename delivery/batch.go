package delivery

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
)

// DeliverBatch makes one attempt of each task in a single request, and returns the outcomes in the order of batch.
//
// The tasks must be of one queue and have equal targets: the request uses the first task's target and secrets. The
// request's timeout is the shortest of the batch. The other rules are those of Deliver. A batch of one is sent as a
// batch too, so that a receiver of batches gets nothing else. The caller must bound the size of a batch: all of it is
// in memory, and receivers have limits.
func (w *Webhook) DeliverBatch(ctx context.Context, batch []task.Attempt) []task.Outcome {
	if len(batch) == 0 {
		return nil
	}
	begun := w.cfg.Now()
	verdicts := w.attemptBatch(ctx, batch, begun)
	took := w.cfg.Now().Sub(begun)
	w.metrics.request(took)
	outcomes := make([]task.Outcome, len(batch))
	for i, v := range verdicts {
		w.ended(ctx, batch[i], v, took)
		outcomes[i] = v.told(batch[i])
	}
	return outcomes
}

// attemptBatch runs the attempts of a batch within the shortest of their timeouts.
func (w *Webhook) attemptBatch(parent context.Context, batch []task.Attempt, begun time.Time) []verdict {
	var verdicts []verdict
	build := func(ctx context.Context) (*http.Request, error) { return w.batchRequest(ctx, batch, begun) }
	all := w.exchange(parent, batch[0].Task, shortest(batch), build, func(x *exchange, resp *http.Response) verdict {
		if !isSuccess(resp.StatusCode) {
			return x.answered(resp, w.cfg.Now(), false)
		}
		var all verdict
		all, verdicts = x.answeredBatch(resp, batch)
		return all
	})
	if verdicts == nil {
		verdicts = slices.Repeat([]verdict{all}, len(batch))
	}
	return verdicts
}

// shortest returns the shortest timeout of the batch, so that the request outlasts no attempt's lease.
func shortest(batch []task.Attempt) time.Duration {
	shortest := task.MaxTimeout
	for _, a := range batch {
		if a.Timeout <= 0 {
			a.Timeout = task.DefaultTimeout
		}
		shortest = min(shortest, a.Timeout)
	}
	return shortest
}

// batchRequest makes the HTTP request of a batch. Its errors are texts for last_error; no retry helps.
func (w *Webhook) batchRequest(ctx context.Context, batch []task.Attempt, now time.Time) (*http.Request, error) {
	target, body := batch[0].Task.GetSpec().GetTarget(), events(batch)
	req, err := newRequest(ctx, target, body)
	if err != nil {
		return nil, err
	}
	h := newHeaderSet(5 + len(target.Headers))
	h.sender(w.cfg.Version, target)
	id := batchID(batch)
	h.webhook(id, now, body, batch[0].Secrets)
	h.set("content-type", batchType)
	req.Header = h.header
	return req, w.authorize(req, batch[0].Task, id, now)
}

// batchID returns the webhook-id of a batch: a hash of its tasks' webhook-ids, whatever their order.
func batchID(batch []task.Attempt) string {
	ids := make([]string, len(batch))
	for i, a := range batch {
		ids[i] = a.Task.WebhookId
	}
	slices.Sort(ids)
	hash := sha256.New()
	for _, id := range ids {
		_, _ = io.WriteString(hash, id+"\n") // never fails
	}
	id := base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(hash.Sum(nil)[:16])
	return "batch_" + strings.ToLower(id)
}
