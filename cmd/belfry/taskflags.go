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

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
)

// taskFlags describe a task on the command line.
type taskFlags struct {
	times                   cli.Times
	delay, at, jitter       string
	payload, payloadFile    string
	contentType             string
	url, queue              string
	headers, labels         []string
	attemptTimeout, expires string
	window, group           string
	priority                int
	minBackoff, maxBackoff  string
	maxAttempts             int
	delays                  []string
}

func (f *taskFlags) addFlags(cmd *cobra.Command) {
	f.addPatchable(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.jitter, "jitter", "",
		"add a delay of up to this `duration`, which depends on the id, to spread many tasks")
	f.addFixed(flags)
}

// addTemplate adds the flags for the task of a schedule, whose time comes from the rule.
func (f *taskFlags) addTemplate(flags *pflag.FlagSet) {
	f.addContent(flags)
	f.addFixed(flags)
}

// addFixed adds the flags for the fields that belfry task patch leaves.
func (f *taskFlags) addFixed(flags *pflag.FlagSet) {
	flags.StringVarP(&f.queue, "queue", "q", "", "`queue` whose policy applies (default \"default\")")
	flags.StringVar(&f.expires, "expires-after", "",
		"give up if no attempt has begun this `duration` after the task was due")
	flags.StringVar(&f.window, "window", "", windowUsage)
	flags.StringVar(&f.group, "group", "", "`group` whose attempts the queue limits or keeps in order")
	flags.IntVar(&f.priority, "priority", 0, "1 to 5, the first first (default 3)")
}

// patchable are the names of the flags that addPatchable adds.
var patchable = []string{
	"in", "at", "payload", "payload-file", "content-type", "url", "header", "label", "attempt-timeout", "max-attempts",
	"min-backoff", "max-backoff", "retry-delays",
}

// Usages of flags that tasks and queues share.
const (
	headerUsage         = "also send this `header`, as in 'X-Shop: 1'; repeatable"
	attemptTimeoutUsage = "longest `duration` of an attempt"
	maxAttemptsUsage    = "most attempts in all"
	minBackoffUsage     = "shortest `duration` between attempts"
	maxBackoffUsage     = "longest `duration` between attempts"
	retryDelaysUsage    = "`durations` to wait after the failed attempts, as in 4m,10m,1h, in place of a backoff"
)

// addPatchable adds the flags for the fields of a waiting task that can be changed.
func (f *taskFlags) addPatchable(cmd *cobra.Command) {
	f.addTime(cmd)
	f.addContent(cmd.Flags())
}

// addTime adds the flags for the time at which a task is due.
func (f *taskFlags) addTime(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.delay, "in", "d", "", "due after this `duration`: 500ms, 30m, 7d, PT30M")
	flags.StringVar(&f.at, "at", "", "due at this `instant`: \"tomorrow 9:00\", 2030-01-21T10:00:00Z")
	f.times.AddFlags(cmd)
	cli.HiddenName(cmd, "delay", "in")
}

// addContent adds the flags for what is delivered, to which receiver, and how often it is tried.
func (f *taskFlags) addContent(flags *pflag.FlagSet) {
	flags.StringVarP(&f.payload, "payload", "p", "", "`text` to deliver; JSON unless --content-type says otherwise")
	flags.StringVarP(&f.payloadFile, "payload-file", "f", "", "deliver this `file`; - is the standard input")
	flags.StringVar(&f.contentType, "content-type", "", "media `type` of the payload (default application/json)")
	flags.StringVarP(&f.url, "url", "u", "",
		"deliver to this `url` (default: the queue's target; without one, consumers pull)")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, headerUsage)
	flags.StringArrayVarP(&f.labels, "label", "l", nil,
		"`label` of the task, as in tenant=acme or tenant:acme; repeatable")
	flags.StringVar(&f.attemptTimeout, "attempt-timeout", "", attemptTimeoutUsage)
	flags.IntVar(&f.maxAttempts, "max-attempts", 0, maxAttemptsUsage)
	flags.StringVar(&f.minBackoff, "min-backoff", "", minBackoffUsage)
	flags.StringVar(&f.maxBackoff, "max-backoff", "", maxBackoffUsage)
	flags.StringSliceVar(&f.delays, "retry-delays", nil, retryDelaysUsage)
}

// task returns the task that the flags describe.
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

// parse reads all flags. Target and Retry of the task are never nil.
func (f *taskFlags) parse(id string, stdin io.Reader) (client.Task, error) {
	t := client.Task{
		ID: id, Queue: f.queue, Group: f.group, Priority: f.priority, ContentType: f.contentType,
		Target: &client.Target{URL: f.url},
		Retry:  &client.Retry{MaxAttempts: f.maxAttempts},
	}
	if f.delay != "" && f.at != "" || f.payload != "" && f.payloadFile != "" {
		return t, errors.New("give one of --in and --at, and one of --payload and --payload-file")
	}
	window, err := readWindow(f.window)
	t.Window = window
	return t, errors.Join(
		err,
		f.setPayload(&t, stdin),
		f.times.Due(&t.FireAt, "at", f.at),
		cli.ParseInto(&t.Delay, "in", f.delay),
		cli.ParseInto(&t.Jitter, "jitter", f.jitter),
		cli.ParseInto(&t.ExpiresAfter, "expires-after", f.expires),
		cli.ParseInto(&t.Target.Timeout, "attempt-timeout", f.attemptTimeout),
		cli.ParseInto(&t.Retry.MinBackoff, "min-backoff", f.minBackoff),
		cli.ParseInto(&t.Retry.MaxBackoff, "max-backoff", f.maxBackoff),
		cli.ParseEach(&t.Retry.Delays, "retry-delays", f.delays),
		cli.Headers(&t.Target.Headers, f.headers),
		cli.Labels(&t.Labels, f.labels),
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
		return errors.New("the payload is not JSON; --content-type text/plain delivers it as it is")
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
