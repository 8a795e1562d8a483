package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/client"
)

// taskFlags are a task on the command line.
type taskFlags struct {
	in, at, jitter          string
	payload, payloadFile    string
	contentType             string
	url, queue              string
	headers, labels         []string
	attemptTimeout, expires string
	minBackoff, maxBackoff  string
	maxAttempts             int
	delays                  []string
}

func (f *taskFlags) addFlags(flags *pflag.FlagSet) {
	f.addPatchable(flags)
	flags.StringVar(&f.jitter, "jitter", "", "due up to so much later, by a part that only the id decides: spreads many")
	flags.StringVar(&f.queue, "queue", "", "whose policy applies (default \"default\")")
	flags.StringVar(&f.expires, "expires-after", "", "give up if not begun so long after it was due")
}

// patchable are the flags of addPatchable.
var patchable = []string{
	"in", "at", "payload", "payload-file", "content-type", "url", "header", "label", "attempt-timeout", "max-attempts",
	"min-backoff", "max-backoff", "retry-delays",
}

const retryDelaysUsage = "waits after the failed attempts, as in 4m,10m,1h, in place of a backoff"

// addPatchable adds the flags for what can be changed of a task that waits.
func (f *taskFlags) addPatchable(flags *pflag.FlagSet) {
	flags.StringVar(&f.in, "in", "", "due after so long: 500ms, 30m, 7d, PT30M")
	flags.StringVar(&f.at, "at", "", "due at this instant: 2026-11-21T10:00:00Z")
	flags.StringVar(&f.payload, "payload", "", "what to deliver; JSON unless --content-type says otherwise")
	flags.StringVar(&f.payloadFile, "payload-file", "", "deliver this file; - is the standard input")
	flags.StringVar(&f.contentType, "content-type", "", "of the payload (default application/json)")
	flags.StringVar(&f.url, "url", "", "deliver there by POST (default: where the queue says; else it is pulled)")
	flags.StringArrayVar(&f.headers, "header", nil, "send this header too, as in 'X-Shop: 1'; repeatable")
	flags.StringArrayVar(&f.labels, "label", nil, "label the task, as in tenant=acme or tenant:acme; repeatable")
	flags.StringVar(&f.attemptTimeout, "attempt-timeout", "", "how long an attempt may take")
	flags.IntVar(&f.maxAttempts, "max-attempts", 0, "how often to try")
	flags.StringVar(&f.minBackoff, "min-backoff", "", "wait at least so long between attempts")
	flags.StringVar(&f.maxBackoff, "max-backoff", "", "wait at most so long between attempts")
	flags.StringSliceVar(&f.delays, "retry-delays", nil, retryDelaysUsage)
}

// task is the task that the flags say.
func (f *taskFlags) task(id string, stdin io.Reader) (client.Task, error) {
	t, err := f.parse(id, stdin)
	if t.Retry.IsZero() {
		t.Retry = nil
	}
	if t.Target.URL == "" {
		if t.Target.Headers != nil || t.Target.Timeout != 0 {
			err = errors.Join(err, errors.New("--header and --attempt-timeout need --url"))
		}
		t.Target = nil
	}
	return t, err
}

// parse reads all flags. Target and Retry are there even if the flags say nothing of them.
func (f *taskFlags) parse(id string, stdin io.Reader) (client.Task, error) {
	t := client.Task{
		ID: id, Queue: f.queue, ContentType: f.contentType, Target: &client.Target{URL: f.url},
		Retry: &client.Retry{MaxAttempts: f.maxAttempts},
	}
	if f.in != "" && f.at != "" || f.payload != "" && f.payloadFile != "" {
		return t, errors.New("give one of --in and --at, and one of --payload and --payload-file")
	}
	return t, errors.Join(
		f.setPayload(&t, stdin),
		parseAt(&t.FireAt, "at", f.at),
		parseInto(&t.Delay, "in", f.in),
		parseInto(&t.Jitter, "jitter", f.jitter),
		parseInto(&t.ExpiresAfter, "expires-after", f.expires),
		parseInto(&t.Target.Timeout, "attempt-timeout", f.attemptTimeout),
		parseInto(&t.Retry.MinBackoff, "min-backoff", f.minBackoff),
		parseInto(&t.Retry.MaxBackoff, "max-backoff", f.maxBackoff),
		parseEach(&t.Retry.Delays, "retry-delays", f.delays),
		headers(&t.Target.Headers, f.headers),
		labelsInto(&t.Labels, f.labels),
	)
}

func (f *taskFlags) setPayload(t *client.Task, stdin io.Reader) error {
	data := []byte(f.payload)
	var err error
	switch f.payloadFile {
	case "":
	case "-":
		data, err = io.ReadAll(stdin)
	default:
		data, err = os.ReadFile(f.payloadFile)
	}
	if err != nil {
		return fmt.Errorf("--payload-file: %w", err)
	}
	switch {
	case len(data) == 0:
	case json.Valid(data):
		t.Payload = data
	case f.contentType == "":
		return errors.New("the payload is not JSON; other bytes need a --content-type")
	default:
		t.PayloadBytes = data
	}
	return nil
}

func labels(m map[string]string) string {
	var b []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		b = append(b, name+"="+m[name])
	}
	return strings.Join(b, " ")
}
