package main

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
)

// queueFlags describe a queue's policy on the command line. Only given flags change anything.
type queueFlags struct {
	url                     string
	headers                 []string
	attemptTimeout          string
	maxAttempts             int
	delays                  []string
	minBackoff, maxBackoff  string
	maxInFlight, batchMax   int
	maxPerSecond            float64
	paused, reset           bool
	keepDone, keepDead      string
	window                  string
	groups                  groupFlags
	secretFiles, secretEnvs []string
	generate                string
	newestOnly              bool
}

func newQueueSet() *cobra.Command {
	var caller caller
	var f queueFlags
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Set a queue's policy",
		Long: `Set the given fields of a queue's policy. The others stay as they are, unless
--reset is given.

An empty value, or 0, sets a field back to its default: --url "" lets consumers
pull the queue, --max-in-flight 0 removes the limit. Use queue patch if other
callers change the policy at the same time.

Secrets are never given as flags. --generate-secret makes a secret and writes it
into a new file for the receiver. The queue signs with the new and the previous
secret until --newest-secret-only removes the previous one.`,
		Example: `  belfry queue set orders --url https://shop.example/hook --max-in-flight 20 \
    --generate-secret orders.secret
  belfry queue set orders --header 'X-Shop: 1' --attempt-timeout 30s`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return caller.queueCall(cmd, func(conn *client.Client) (*client.Queue, error) {
				q, err := f.current(cmd, conn, args[0])
				if err != nil {
					return nil, err
				}
				if err := f.apply(cmd.Flags().Changed, q); err != nil {
					return nil, cli.WrongUsage(err)
				}
				return conn.PutQueue(cmd.Context(), *q)
			})
		},
	}
	caller.addFlags(cmd)
	f.addFlags(cmd.Flags())
	return cmd
}

func (f *queueFlags) addFlags(flags *pflag.FlagSet) {
	f.addPatchable(flags)
	flags.StringArrayVar(&f.secretFiles, "secret-file", nil,
		"sign with the secret in this `file`; given twice, the newest comes first")
	flags.StringArrayVar(&f.secretEnvs, "secret-env", nil,
		"sign with the secret in this environment `variable`; repeatable")
	flags.StringVar(&f.generate, "generate-secret", "", "make a new secret and write it into this new `file`")
	flags.BoolVar(&f.newestOnly, "newest-secret-only", false, "forget the older secret: the receiver has changed over")
	flags.BoolVar(&f.reset, "reset", false, "begin with the defaults instead of the policy in force")
}

// queuePatchable are the names of the flags that addPatchable adds.
var queuePatchable = []string{
	"url", "header", "attempt-timeout", "max-attempts", "min-backoff", "max-backoff", "retry-delays", "max-in-flight",
	"max-per-second", "batch-max", "paused", "keep-done", "keep-dead", "window", "group-in-flight", "fifo", "fair",
	"group-weight",
}

// addPatchable adds the flags for the fields that one step can change: all but secrets.
func (f *queueFlags) addPatchable(flags *pflag.FlagSet) {
	flags.StringVarP(&f.url, "url", "u", "", "deliver tasks without a target to this `url`; empty: consumers pull them")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, headerUsage)
	flags.StringVar(&f.attemptTimeout, "attempt-timeout", "", attemptTimeoutUsage)
	flags.IntVar(&f.maxAttempts, "max-attempts", 0, maxAttemptsUsage)
	flags.StringVar(&f.minBackoff, "min-backoff", "", minBackoffUsage)
	flags.StringVar(&f.maxBackoff, "max-backoff", "", maxBackoffUsage)
	flags.StringSliceVar(&f.delays, "retry-delays", nil, retryDelaysUsage)
	flags.IntVar(&f.maxInFlight, "max-in-flight", 0, "most attempts and leases under way in the whole cluster")
	flags.Float64Var(&f.maxPerSecond, "max-per-second", 0,
		"most attempts begun and leases given a second in the whole cluster")
	flags.IntVar(&f.batchMax, "batch-max", 0, "most tasks in one request")
	flags.BoolVar(&f.paused, "paused", false, "begin nothing; attempts and leases under way go on")
	flags.StringVar(&f.keepDone, "keep-done", "", "`duration` for which finished tasks can be read")
	flags.StringVar(&f.keepDead, "keep-dead", "", "`duration` for which dead letters are kept")
	flags.StringVar(&f.window, "window", "", windowUsage)
	f.groups.addFlags(flags)
}

// current returns the policy that the flags change.
func (f *queueFlags) current(cmd *cobra.Command, conn *client.Client, name string) (*client.Queue, error) {
	if f.reset {
		return &client.Queue{Name: name}, nil
	}
	q, err := conn.Queue(cmd.Context(), name)
	if errors.Is(err, client.ErrNotFound) {
		return &client.Queue{Name: name}, nil
	}
	return q, err
}

func (f *queueFlags) apply(given func(flag string) bool, q *client.Queue) error {
	if given("max-in-flight") {
		q.MaxInFlight = f.maxInFlight
	}
	if given("max-per-second") {
		q.MaxPerSecond = f.maxPerSecond
	}
	if given("batch-max") {
		q.BatchMax = f.batchMax
	}
	if given("paused") {
		q.Paused = f.paused
	}
	err := errors.Join(
		setSpan(given, &q.KeepDone, "keep-done", f.keepDone),
		setSpan(given, &q.KeepDead, "keep-dead", f.keepDead),
		f.setWindow(given, q),
		f.groups.apply(given, q),
		f.setTarget(given, q),
		f.setRetry(given, q),
	)
	if err != nil {
		return err // before a secret is made
	}
	return f.setSecrets(q)
}

// setSpan sets a duration whose flag is given; an empty text means none.
func setSpan(given func(string) bool, d *time.Duration, flag, text string) error {
	if !given(flag) {
		return nil
	}
	*d = 0
	return cli.ParseInto(d, flag, text)
}

func (f *queueFlags) setWindow(given func(string) bool, q *client.Queue) (err error) {
	if given("window") {
		q.Window, err = readWindow(f.window)
	}
	return err
}

func (f *queueFlags) setTarget(given func(string) bool, q *client.Queue) error {
	if given("url") {
		switch {
		case f.url == "":
			q.Target = nil
		case q.Target == nil:
			q.Target = &client.Target{URL: f.url}
		default:
			q.Target.URL = f.url
		}
	}
	if !given("header") && !given("attempt-timeout") {
		return nil
	}
	if q.Target == nil {
		return errors.New("--header and --attempt-timeout need --url")
	}
	if given("header") {
		q.Target.Headers = nil
	}
	return errors.Join(
		cli.Headers(&q.Target.Headers, f.headers),
		setSpan(given, &q.Target.Timeout, "attempt-timeout", f.attemptTimeout),
	)
}

func (f *queueFlags) setRetry(given func(string) bool, q *client.Queue) error {
	r := client.Retry{}
	if q.Retry != nil {
		r = *q.Retry
	}
	if given("max-attempts") {
		r.MaxAttempts = f.maxAttempts
	}
	if given("retry-delays") {
		r.Delays = nil
	}
	err := errors.Join(
		cli.ParseEach(&r.Delays, "retry-delays", f.delays),
		setSpan(given, &r.MinBackoff, "min-backoff", f.minBackoff),
		setSpan(given, &r.MaxBackoff, "max-backoff", f.maxBackoff),
	)
	q.Retry = &r
	if r.IsZero() {
		q.Retry = nil
	}
	return err
}

// setSecrets replaces the secrets, or puts a new one before them.
func (f *queueFlags) setSecrets(q *client.Queue) error {
	var secrets []string
	for _, path := range f.secretFiles {
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("--secret-file: %w", err)
		}
		secrets = append(secrets, strings.Fields(string(data))...)
	}
	for _, name := range f.secretEnvs {
		value, ok := os.LookupEnv(name)
		if !ok {
			return fmt.Errorf("--secret-env: %s is not set", name)
		}
		secrets = append(secrets, strings.Fields(value)...)
	}
	if len(f.secretFiles)+len(f.secretEnvs) > 0 {
		q.Secrets = secrets
	}
	if f.newestOnly && len(q.Secrets) > 1 {
		q.Secrets = q.Secrets[:1]
	}
	if f.generate == "" {
		return nil
	}
	fresh, err := generateSecret(f.generate)
	q.Secrets = append([]string{fresh}, q.Secrets[:min(len(q.Secrets), 1)]...)
	return err
}

const secretBytes = 32

// generateSecret makes a signing secret and writes it into a new file that only its owner can read. The file is on disk
// before the queue has the secret: a receiver without the file could check no signature.
func generateSecret(path string) (secret string, err error) {
	var key [secretBytes]byte
	_, _ = rand.Read(key[:]) // never fails: crypto/rand ends the process instead
	secret = "whsec_" + base64.StdEncoding.EncodeToString(key[:])
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("--generate-secret: %w", err)
	}
	_, err = f.WriteString(secret + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", fmt.Errorf("--generate-secret: %w", err)
	}
	return secret, nil
}
