package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/internal/contract"
)

// taskFlags describe a task on the command line.
type taskFlags struct {
	deliveryFlags
	times                cli.Times
	delay, at, jitter    string
	payload, payloadFile string
	contentType          string
	labels               []string
	queue, expires       string
	window, group        string
	priority             int
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
var patchable = append([]string{"in", "at", "payload", "payload-file", "content-type", "label"}, deliveryNames...)

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
	flags.StringArrayVarP(&f.labels, "label", "l", nil,
		"`label` of the task, as in tenant=acme or tenant:acme; repeatable")
	f.deliveryFlags.addFlags(flags, "deliver to this `url` (default: the queue's target; without one, consumers pull)")
}

// deliveryFlags describe the receiver and the attempts of a task, or of the tasks of a queue.
type deliveryFlags struct {
	url, method            string
	headers                []string
	attemptTimeout         string
	maxAttempts            int
	minBackoff, maxBackoff string
	delays                 []string
	onDelivered, onDead    string

	audience, claims, algorithm, certificate string
}

// Names of the flags of a delivery.
var (
	authNames     = []string{"jwt-audience", "jwt-claims", "jwt-algorithm", "client-certificate"}
	targetNames   = append([]string{"url", "method", "header", "attempt-timeout"}, authNames...)
	deliveryNames = append([]string{
		"max-attempts", "min-backoff", "max-backoff", "retry-delays", "on-delivered", "on-dead",
	}, targetNames...)
)

func (f *deliveryFlags) addFlags(flags *pflag.FlagSet, url string) {
	flags.StringVarP(&f.url, "url", "u", "", url)
	flags.StringVar(&f.method, "method", "", "send webhooks by this `method`: POST, PUT, PATCH, DELETE or GET")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "also send this `header`, as in 'X-Shop: 1'; repeatable")
	flags.StringVar(&f.audience, "jwt-audience", "", "send a token that the cluster signs, with this claim `aud`")
	flags.StringVar(&f.claims, "jwt-claims", "", "`json` object with further claims of the token")
	flags.StringVar(&f.algorithm, "jwt-algorithm", "", "`name` of the token's algorithm: EdDSA (the default) or RS256")
	flags.StringVar(&f.certificate, "client-certificate", "",
		"show the receiver the nodes' certificate of this `name`, from their --receiver-certs")
	flags.StringVar(&f.attemptTimeout, "attempt-timeout", "", "longest `duration` of an attempt")
	flags.IntVar(&f.maxAttempts, "max-attempts", 0, "most attempts in all")
	flags.StringVar(&f.minBackoff, "min-backoff", "", "shortest `duration` between attempts")
	flags.StringVar(&f.maxBackoff, "max-backoff", "", "longest `duration` between attempts")
	flags.StringSliceVar(&f.delays, "retry-delays", nil,
		"`durations` to wait after the failed attempts, as in 4m,10m,1h, in place of a backoff")
	flags.StringVar(&f.onDelivered, "on-delivered", "",
		"task that follows a delivery, as `json` of the API: '{\"delay\": \"1h\", …}'")
	flags.StringVar(&f.onDead, "on-dead", "", "task that follows a dead letter, as `json` of the API")
}

// readFollowUps reads the follow-ups. Empty texts change nothing.
func (f *deliveryFlags) readFollowUps(onDelivered, onDead **client.FollowUp) error {
	return errors.Join(
		readFollowUp(onDelivered, "on-delivered", f.onDelivered), readFollowUp(onDead, "on-dead", f.onDead))
}

func readFollowUp(place **client.FollowUp, flag, text string) error {
	if text == "" {
		return nil
	}
	next, r := new(client.FollowUp), contract.NewReader([]byte(text))
	var seen contract.Set
	err := r.Root(&contract.FollowUpObject, &seen, r.SkipMember) // a misspelt member would be left out
	if err == nil {
		err = json.Unmarshal([]byte(text), next)
	}
	if err != nil {
		return fmt.Errorf("--%s is no follow-up: %w", flag, err)
	}
	*place = next
	return nil
}

// followUp describes a follow-up by its JSON.
func followUp(f *client.FollowUp) string {
	if f == nil {
		return ""
	}
	text, err := json.Marshal(f)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// auth returns the proof that the flags describe, or nil for none.
func (f *deliveryFlags) auth() (*client.Auth, error) {
	a := &client.Auth{ClientCertificate: f.certificate}
	switch {
	case f.audience != "":
		a.JWT = &client.JWT{Audience: f.audience, Claims: json.RawMessage(f.claims), Algorithm: f.algorithm}
	case f.claims != "" || f.algorithm != "":
		return nil, errors.New("--jwt-claims and --jwt-algorithm need --jwt-audience")
	case f.certificate == "":
		return nil, nil
	}
	if f.claims != "" && !json.Valid([]byte(f.claims)) {
		return nil, errors.New("--jwt-claims is not JSON")
	}
	return a, nil
}

// read reads the flags that hold text into a target and a rule for attempts. Empty ones change nothing.
func (f *deliveryFlags) read(target *client.Target, retry *client.Retry) error {
	auth, err := f.auth()
	if auth != nil {
		target.Auth = auth
	}
	return errors.Join(
		err,
		cli.ParseInto(&target.Timeout, "attempt-timeout", f.attemptTimeout),
		cli.ParseInto(&retry.MinBackoff, "min-backoff", f.minBackoff),
		cli.ParseInto(&retry.MaxBackoff, "max-backoff", f.maxBackoff),
		cli.ParseEach(&retry.Delays, "retry-delays", f.delays),
		cli.Headers(&target.Headers, f.headers),
	)
}

// task returns the task that the flags describe.
func (f *taskFlags) task(id string, stdin io.Reader) (client.Task, error) {
	t, err := f.parse(id, stdin)
	if t.Retry.IsZero() {
		t.Retry = nil
	}
	if t.Target.URL == "" {
		if t.Target.Headers != nil || t.Target.Timeout != 0 || t.Target.Method != "" || t.Target.Auth != nil {
			err = errors.Join(err, errNoURL)
		}
		t.Target = nil
	}
	return t, err
}

var (
	errNoURL   = errors.New("--method, --header, --attempt-timeout, --jwt-audience and --client-certificate need --url")
	errNoDelay = errors.New("--in must be more than 0; belfry task fire makes a task due now")
)

// parse reads all flags. Target and Retry of the task are never nil.
func (f *taskFlags) parse(id string, stdin io.Reader) (client.Task, error) {
	t := client.Task{
		ID: id, Queue: f.queue, Group: f.group, Priority: f.priority, ContentType: f.contentType,
		Target: &client.Target{URL: f.url, Method: f.method},
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
		f.read(t.Target, t.Retry),
		f.readFollowUps(&t.OnDelivered, &t.OnDead),
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

// patch returns the change that the given flags describe, which sets the cleared fields back.
func (f *taskFlags) patch(c *cli.Call, cleared []string) (client.Patch, error) {
	given := c.Given
	t, err := f.parse("", c.In())
	if err != nil {
		return client.Patch{}, err
	}
	switch {
	case given("in") && t.Delay == 0:
		return client.Patch{}, errNoDelay
	case t.PayloadBytes != nil:
		return client.Patch{}, errors.New("the payload is not JSON; schedule the task anew to deliver other bytes")
	case !slices.ContainsFunc(patchable, given) && len(cleared) == 0:
		return client.Patch{}, errors.New("give what to change, as in --in 2h; see belfry task patch --help")
	}
	p := client.Patch{
		FireAt: t.FireAt, Delay: t.Delay, Payload: t.Payload, ContentType: t.ContentType, Labels: t.Labels,
		OnDelivered: t.OnDelivered, OnDead: t.OnDead, Clear: cleared,
	}
	if slices.ContainsFunc(targetNames, given) {
		p.Target = t.Target
	}
	if !t.Retry.IsZero() {
		p.Retry = t.Retry
	}
	return p, nil
}

// move reads the new time of a task.
func (f *taskFlags) move() (p client.Patch, err error) {
	if !exactlyOne(f.delay, f.at) {
		return p, errors.New("give one of --in and --at")
	}
	err = errors.Join(cli.ParseInto(&p.Delay, "in", f.delay), f.times.Due(&p.FireAt, "at", f.at))
	if err == nil && f.at == "" && p.Delay == 0 {
		err = errNoDelay
	}
	return p, err
}

// exactlyOne reports whether one of the texts is not empty.
func exactlyOne(texts ...string) bool {
	n := 0
	for _, text := range texts {
		if text != "" {
			n++
		}
	}
	return n == 1
}

func labels(m map[string]string) string { return strings.Join(listed(m, "%s=%s"), " ") }

const windowUsage = "begin attempts only in these `hours`, as in \"MON-SAT 09:00-20:00 Europe/Berlin\""

// readWindow reads a window of words: daily ranges, days, a time zone, and calendar=NAME. No words are no window.
func readWindow(text string) (*client.Window, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	w := &client.Window{}
	for _, word := range strings.Fields(text) {
		place := &w.Days
		switch name, isCalendar := strings.CutPrefix(word, "calendar="); {
		case isCalendar:
			place, word = &w.Calendar, name
		case strings.Contains(word, ":"):
			w.Daily = append(w.Daily, word)
			continue
		case strings.Contains(word, "/"), word == "UTC":
			place = &w.TimeZone
		}
		if *place != "" {
			return nil, fmt.Errorf("--window %q has %q beside %q: give hours like 09:00-17:00, and days, a time "+
				"zone and a calendar once", text, word, *place)
		}
		*place = word
	}
	return w, nil
}

// window describes a window in the form of the flag.
func window(w *client.Window) string {
	if w == nil {
		return ""
	}
	words := []string{w.Days, strings.Join(w.Daily, " "), w.TimeZone}
	if w.Calendar != "" {
		words = append(words, "calendar="+w.Calendar)
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}
