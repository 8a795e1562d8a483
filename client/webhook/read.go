package webhook

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const batchType = "application/cloudevents-batch+json"

// read reads the events of a request with a verified signature.
func (d *Delivery) read(header http.Header) error {
	if kind, _, err := mime.ParseMediaType(header.Get("Content-Type")); err == nil && kind == batchType {
		d.Batch = true
		return d.readBatch()
	}
	e, err := eventOf(header.Get("ce-id"), header.Get("ce-subject"), header.Get("ce-source"), header.Get("ce-time"),
		header.Get("belfry-attempt"), header.Get("belfry-fence"))
	if err != nil {
		return err
	}
	if e.Task, err = url.PathUnescape(e.Task); err != nil { // CloudEvents' header encoding
		return fmt.Errorf("%w: ce-subject is not percent-encoded as it should be", ErrMalformed)
	}
	d.Events = []Event{e}
	return nil
}

func (d *Delivery) readBatch() error {
	var events []struct {
		ID, Source, Subject, Time string
		Attempt                   json.Number `json:"belfryattempt"`
		Fence                     string      `json:"belfryfence"`
	}
	if err := json.Unmarshal(d.Body, &events); err != nil {
		return fmt.Errorf("%w: the batch is not an array of events", ErrMalformed)
	}
	for i, event := range events {
		e, err := eventOf(event.ID, event.Subject, event.Source, event.Time, event.Attempt.String(), event.Fence)
		if err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
		d.Events = append(d.Events, e)
	}
	return nil
}

func eventOf(id, task, source, due, attempt, fence string) (Event, error) {
	e := Event{ID: id, Task: task, Source: source}
	if id == "" || task == "" {
		return e, fmt.Errorf("%w: it has no id, or no subject", ErrMalformed)
	}
	var err error
	if e.Fence, err = strconv.ParseUint(fence, 10, 64); err != nil {
		return e, fmt.Errorf("%w: the fence is absent, or is not a number", ErrMalformed)
	}
	if e.Attempt, err = strconv.Atoi(attempt); err != nil {
		return e, fmt.Errorf("%w: the attempt is absent, or is not a number", ErrMalformed)
	}
	if e.Due, err = time.Parse(time.RFC3339, due); err != nil {
		return e, fmt.Errorf("%w: the due time is absent, or is not an instant", ErrMalformed)
	}
	return e, nil
}
