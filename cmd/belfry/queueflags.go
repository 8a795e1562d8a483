package main

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
)

func newQueueSet() *cobra.Command {
	var f queueFlags
	var secrets secretFlags
	var reset bool
	cmd := cli.Verb(&cobra.Command{
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
	}, func(c *cli.Call) (*client.Queue, error) {
		q := &client.Queue{Name: c.Args[0]}
		if !reset {
			switch found, err := c.Client.Queue(c.Context(), q.Name); {
			case err == nil:
				q = found
			case !errors.Is(err, client.ErrNotFound):
				return nil, err
			}
		}
		err := f.apply(c.Given, q)
		if err == nil { // else no secret is made
			err = secrets.apply(q)
		}
		if err != nil {
			return nil, cli.WrongUsage(err)
		}
		return c.Client.PutQueue(c.Context(), *q)
	}, fillQueue)
	flags := cmd.Flags()
	f.addFlags(flags)
	secrets.addFlags(flags)
	flags.BoolVar(&reset, "reset", false, "begin with the defaults instead of the policy in force")
	return cmd
}

func newQueuePatch() *cobra.Command {
	var f queueFlags
	cmd := cli.Verb(&cobra.Command{
		Use:   "patch NAME",
		Short: "Change a queue's policy in one step",
		Long: `Change the given fields of a queue's policy, in one step. The others stay as
they are.

Patches that are made at the same time are all in force afterwards. A queue
without a policy gets one.

An empty value, or 0, sets a field back to its default, as in queue set.
Headers are merged with those there are; one without a value is removed.`,
		Example: `  belfry queue patch orders --max-in-flight 20 --keep-done 1d
  belfry queue patch orders --max-in-flight 0`,
	}, func(c *cli.Call) (*client.Queue, error) {
		patch, err := f.patch(c.Given)
		if err != nil {
			return nil, cli.WrongUsage(err)
		}
		return c.Client.PatchQueue(c.Context(), c.Args[0], patch)
	}, fillQueue)
	f.addFlags(cmd.Flags())
	return cmd
}

// queueFlags describe a queue's policy on the command line, apart from secrets. Only given flags change anything.
type queueFlags struct {
	deliveryFlags
	maxInFlight, batchMax int
	maxPerSecond          float64
	paused                bool
	keepDone, keepDead    string
	window                string
	groups                groupFlags
}

func (f *queueFlags) addFlags(flags *pflag.FlagSet) {
	f.deliveryFlags.addFlags(flags, "deliver tasks without a target to this `url`; empty: consumers pull them")
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

// flagNames returns the names of the flags that a method adds, which sets the fields of its receiver to their defaults.
func flagNames(add func(*pflag.FlagSet)) (names []string) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	add(flags)
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// setGiven sets a field if its flag is given.
func setGiven[T any](given func(flag string) bool, field *T, flag string, value T) {
	if given(flag) {
		*field = value
	}
}

// apply changes the given parts of a policy.
func (f *queueFlags) apply(given func(flag string) bool, q *client.Queue) error {
	setGiven(given, &q.MaxInFlight, "max-in-flight", f.maxInFlight)
	setGiven(given, &q.MaxPerSecond, "max-per-second", f.maxPerSecond)
	setGiven(given, &q.BatchMax, "batch-max", f.batchMax)
	setGiven(given, &q.Paused, "paused", f.paused)
	window, err := readWindow(f.window)
	setGiven(given, &q.Window, "window", window)
	setGiven(given, &q.KeepDone, "keep-done", 0)
	setGiven(given, &q.KeepDead, "keep-dead", 0)
	setGiven(given, &q.OnDelivered, "on-delivered", nil)
	setGiven(given, &q.OnDead, "on-dead", nil)
	return errors.Join(
		cli.ParseInto(&q.KeepDone, "keep-done", f.keepDone),
		cli.ParseInto(&q.KeepDead, "keep-dead", f.keepDead),
		err,
		f.readFollowUps(&q.OnDelivered, &q.OnDead),
		f.groups.apply(given, q),
		f.setDelivery(given, q),
	)
}

// setDelivery changes the given parts of the target and of the rule for attempts.
func (f *queueFlags) setDelivery(given func(flag string) bool, q *client.Queue) error {
	target, retry := cmp.Or(q.Target, &client.Target{}), cmp.Or(q.Retry, &client.Retry{})
	setGiven(given, &target.URL, "url", f.url)
	setGiven(given, &target.Method, "method", f.method)
	setGiven(given, &target.Headers, "header", nil)
	if slices.ContainsFunc(authNames, given) {
		target.Auth = nil
	}
	setGiven(given, &target.Timeout, "attempt-timeout", 0)
	setGiven(given, &retry.MaxAttempts, "max-attempts", f.maxAttempts)
	setGiven(given, &retry.Delays, "retry-delays", nil)
	setGiven(given, &retry.MinBackoff, "min-backoff", 0)
	setGiven(given, &retry.MaxBackoff, "max-backoff", 0)
	if q.Target, q.Retry = target, retry; target.URL == "" {
		q.Target = nil
	}
	var err error
	if q.Target == nil && slices.ContainsFunc(targetNames[1:], given) {
		err = errNoURL
	}
	err = errors.Join(err, f.read(target, retry))
	if retry.IsZero() {
		q.Retry = nil
	}
	return err
}

// patch returns the change that the given flags describe.
func (f *queueFlags) patch(given func(flag string) bool) (client.QueuePatch, error) {
	p := client.QueuePatch{MaxInFlight: f.maxInFlight, MaxPerSecond: f.maxPerSecond, BatchMax: f.batchMax}
	if !slices.ContainsFunc(flagNames(new(queueFlags).addFlags), given) {
		return p, errors.New("give what to change, as in --max-in-flight 20; see belfry queue patch --help")
	}
	setGiven(given, &p.Paused, "paused", &f.paused)
	target, retry := client.Target{URL: f.url, Method: f.method}, client.Retry{MaxAttempts: f.maxAttempts}
	window, err := readWindow(f.window)
	p.Window = window
	err = errors.Join(
		err,
		f.groups.patch(given, &p),
		f.readFollowUps(&p.OnDelivered, &p.OnDead),
		cli.ParseInto(&p.KeepDone, "keep-done", f.keepDone),
		cli.ParseInto(&p.KeepDead, "keep-dead", f.keepDead),
		f.read(&target, &retry),
	)
	if f.url != "" || f.method != "" || target.Auth != nil || target.Headers != nil || target.Timeout != 0 {
		p.Target = &target
	}
	if !retry.IsZero() {
		p.Retry = &retry
	}
	for _, field := range []struct {
		flag, name string
		isDefault  bool
	}{
		{"url", "target", f.url == ""},
		{"method", "target.method", f.method == ""},
		{"jwt-audience", "target.auth", target.Auth == nil},
		{"client-certificate", "target.auth", target.Auth == nil},
		{"attempt-timeout", "target.timeout", target.Timeout == 0},
		{"max-attempts", "retry.max_attempts", retry.MaxAttempts == 0},
		{"min-backoff", "retry.min_backoff", retry.MinBackoff == 0},
		{"max-backoff", "retry.max_backoff", retry.MaxBackoff == 0},
		{"retry-delays", "retry.delays", len(retry.Delays) == 0},
		{"max-in-flight", "max_in_flight", p.MaxInFlight == 0},
		{"max-per-second", "max_per_second", p.MaxPerSecond == 0},
		{"batch-max", "batch_max", p.BatchMax == 0},
		{"keep-done", "keep_done", p.KeepDone == 0},
		{"keep-dead", "keep_dead", p.KeepDead == 0},
		{"window", "window", p.Window == nil},
		{"group-in-flight", "group_in_flight", p.GroupInFlight == 0},
		{"group-per-second", "group_per_second", p.GroupPerSecond == 0},
		{"on-delivered", "on_delivered", p.OnDelivered == nil},
		{"on-dead", "on_dead", p.OnDead == nil},
	} {
		if given(field.flag) && field.isDefault {
			p.Clear = append(p.Clear, field.name)
		}
	}
	return p, err
}

// groupFlags describe how a queue treats groups.
type groupFlags struct {
	inFlight   int
	perSecond  float64
	fifo, fair bool
	weights    map[string]string
	clear      bool // of all weights
}

func (f *groupFlags) addFlags(flags *pflag.FlagSet) {
	flags.IntVar(&f.inFlight, "group-in-flight", 0, "most attempts and leases of one group under way")
	flags.Float64Var(&f.perSecond, "group-per-second", 0, "most attempts and leases of one group that begin a second")
	flags.BoolVar(&f.fifo, "fifo", false, "one task of a group at a time, in the order of due times")
	flags.BoolVar(&f.fair, "fair", false, "groups take turns by weight")
	flags.Var((*weightsValue)(f), "group-weight",
		"`weight` of a group in a fair queue, as in acme=3; 0 removes it; empty: removes all; repeatable")
}

// apply changes the given parts of a policy.
func (f *groupFlags) apply(given func(flag string) bool, q *client.Queue) error {
	setGiven(given, &q.GroupInFlight, "group-in-flight", f.inFlight)
	setGiven(given, &q.GroupPerSecond, "group-per-second", f.perSecond)
	setGiven(given, &q.FIFO, "fifo", f.fifo)
	setGiven(given, &q.Fair, "fair", f.fair)
	weights, err := f.readWeights()
	if f.clear {
		q.GroupWeights = nil
	}
	for name, n := range weights {
		if q.GroupWeights == nil {
			q.GroupWeights = map[string]int{}
		}
		q.GroupWeights[name] = n
		if n == 0 {
			delete(q.GroupWeights, name)
		}
	}
	return err
}

// patch adds the given parts to a patch.
func (f *groupFlags) patch(given func(flag string) bool, p *client.QueuePatch) (err error) {
	p.GroupInFlight, p.GroupPerSecond = f.inFlight, f.perSecond
	setGiven(given, &p.FIFO, "fifo", &f.fifo)
	setGiven(given, &p.Fair, "fair", &f.fair)
	p.GroupWeights, err = f.readWeights()
	switch {
	case !f.clear:
	case len(f.weights) > 0:
		err = errors.New("an empty --group-weight removes all weights; belfry queue set replaces them in one call")
	default:
		p.Clear = append(p.Clear, "group_weights")
	}
	return err
}

// weightsValue is the value of --group-weight.
type weightsValue groupFlags

func (v *weightsValue) String() string { return "" }
func (v *weightsValue) Type() string   { return "weight" }

func (v *weightsValue) Set(text string) error {
	if text == "" {
		v.clear, v.weights = true, nil
		return nil
	}
	for _, pair := range strings.Split(text, ",") {
		name, weight, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return fmt.Errorf("%q is not name=weight", pair)
		}
		if v.weights == nil {
			v.weights = map[string]string{}
		}
		v.weights[name] = weight
	}
	return nil
}

func (f *groupFlags) readWeights() (map[string]int, error) {
	if len(f.weights) == 0 {
		return nil, nil
	}
	weights := map[string]int{}
	for name, text := range f.weights {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("--group-weight %s=%s: the weight is no whole number", name, text)
		}
		weights[name] = n
	}
	return weights, nil
}

// secretFlags describe the secrets with which a queue signs.
type secretFlags struct {
	files, variables []string
	generate         string
	newestOnly       bool
}

func (f *secretFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.files, "secret-file", nil,
		"sign with the secret in this `file`; given twice, the newest comes first")
	flags.StringArrayVar(&f.variables, "secret-env", nil,
		"sign with the secret in this environment `variable`; repeatable")
	flags.StringVar(&f.generate, "generate-secret", "", "make a new secret and write it into this new `file`")
	flags.BoolVar(&f.newestOnly, "newest-secret-only", false, "forget the older secret: the receiver has changed over")
}

// apply replaces the secrets, or puts a new one before them.
func (f *secretFlags) apply(q *client.Queue) error {
	var secrets []string
	for _, path := range f.files {
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("--secret-file: %w", err)
		}
		secrets = append(secrets, strings.Fields(string(data))...)
	}
	for _, name := range f.variables {
		value, ok := os.LookupEnv(name)
		if !ok {
			return fmt.Errorf("--secret-env: %s is not set", name)
		}
		secrets = append(secrets, strings.Fields(value)...)
	}
	if len(f.files)+len(f.variables) > 0 {
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
