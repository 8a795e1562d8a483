package receiver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// event is a CloudEvent of a batch, with the attributes that an Arrival needs.
type event struct {
	ID      string          `json:"id"`
	Source  string          `json:"source"`
	Subject string          `json:"subject"`
	Time    string          `json:"time"`
	Attempt int             `json:"belfryattempt"`
	Fence   string          `json:"belfryfence"`
	Data    json.RawMessage `json:"data"`
	Base64  []byte          `json:"data_base64"`

	Scheduled string `json:"belfryscheduled"`
}

func readBatch(at time.Time, h http.Header, body []byte) ([]Arrival, error) {
	var events []event
	if err := json.Unmarshal(body, &events); err != nil {
		return nil, fmt.Errorf("this is no batch of CloudEvents: %w", err)
	}
	arrivals := make([]Arrival, len(events))
	for i, e := range events {
		a := Arrival{
			At: at, TaskID: e.Subject, Source: e.Source, WebhookID: e.ID, Attempt: e.Attempt,
			Header: h, Body: e.Data, Request: body, Index: i, Of: len(events),
		}
		if e.Base64 != nil {
			a.Body = e.Base64
		}
		// A missing or malformed value leaves the field zero, as with a single attempt.
		a.Fence, _ = strconv.ParseUint(e.Fence, 10, 64)
		a.Due, _ = time.Parse(time.RFC3339Nano, e.Time)
		a.Clock, _ = time.Parse(time.RFC3339Nano, h.Get("Belfry-Clock"))
		a.Scheduled, _ = time.Parse(time.RFC3339Nano, e.Scheduled)
		arrivals[i] = a
	}
	return arrivals, nil
}

// answerEach answers a batch with one result for each attempt.
func answerEach(w http.ResponseWriter, arrivals []Arrival, statuses []int) {
	type result struct {
		ID     string `json:"id"`
		Status int    `json:"status"`
	}
	var reply struct {
		Results []result `json:"results"`
	}
	for i, a := range arrivals {
		reply.Results = append(reply.Results, result{a.WebhookID, statuses[i]})
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusMultiStatus)
	_ = json.NewEncoder(w).Encode(reply) // an error means that the sender has gone
}
