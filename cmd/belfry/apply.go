package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/manifest"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
	"github.com/belfryhq/belfry/fsm/task"
)

// The actions of a plan.
const (
	makes   = "create"
	changes = "change"
	keeps   = "keep"
	deletes = "delete"
)

// step is one thing of a plan, as programs see it.
type step struct {
	Kind      manifest.Kind `json:"kind"`
	Namespace string        `json:"namespace,omitempty"`
	Name      string        `json:"name"`
	Action    string        `json:"action"`
	Changes   []fieldChange `json:"changes,omitempty"`

	do func(context.Context) error // nil: there is nothing to do
}

// fieldChange is a field whose value changes. A nil value is that of an absent field.
type fieldChange struct {
	Field string          `json:"field"`
	From  json.RawMessage `json:"from"`
	To    json.RawMessage `json:"to"`
}

func newApply() *cobra.Command {
	a := &applier{}
	cmd := cli.Asking(cli.PlainVerb(&cobra.Command{
		Use:   "apply",
		Short: "Make the cluster's settings be those of files",
		Long: `Make namespaces, calendars, queues, schedules and keys be as documents describe
them, in this order. A document is YAML or JSON; a file may have several:

  kind: queue
  name: orders
  namespace: shop
  spec: {max_in_flight: 20}

The spec is the body of the call that makes the thing, and is the whole of its
settings: an absent field has its default. What is equal already is left alone,
so the command may be repeated. Nothing is changed unless all documents are
well-formed.

A credential that reads back as *** keeps its value if the document has ***. One
that the document gives cannot be compared, and is set each time. A key is known
by its name; its text is written to NAME.key in the folder of --keys, and a key
of other grants is refused, since keys do not change.

--prune deletes what has no document, of one kind, in the namespace of the call:
schedules:prefix=shop-, schedules:label=team:a, queues:prefix=shop-,
calendars:prefix=shop-. Namespaces and keys are never pruned.`,
		Example: `  belfry apply -f belfry/ --dry-run
  belfry apply -f queues.yaml -f schedules.yaml
  belfry apply -f belfry/ --prune schedules:label=origin:git --yes`,
	}, a.run))
	flags := cmd.Flags()
	flags.StringArrayVarP(&a.files, "file", "f", nil,
		"`file` of documents, or a folder of .yaml, .yml and .json files; - is the standard input; repeatable")
	flags.BoolVar(&a.dryRun, "dry-run", false, "show what would change, and change nothing")
	flags.StringArrayVar(&a.prune, "prune", nil, "delete those of a `selector` without a document; repeatable")
	flags.StringVar(&a.keys, "keys", "", "existing `folder` for the texts of new keys")
	return cmd
}

// applier makes and carries out a plan.
type applier struct {
	files, prune []string
	dryRun       bool
	keys         string

	c       *cli.Call
	clients map[string]*client.Client // by namespace; "" is that of the call
	known   []client.APIKey           // nil until a document describes a key
}

func (a *applier) run(c *cli.Call) error {
	a.c, a.clients = c, map[string]*client.Client{"": c.Client}
	if len(a.files) == 0 {
		return cli.WrongUsage(errors.New("give --file"))
	}
	selectors, err := readSelectors(a.prune)
	if err != nil {
		return cli.WrongUsage(err)
	}
	documents, err := a.read()
	if err != nil {
		return err
	}
	defer a.close()
	plan, err := a.plan(c.Context(), documents)
	if err != nil {
		return err
	}
	pruned, err := a.planPrune(c.Context(), selectors, documents)
	if err != nil {
		return err
	}
	plan = append(plan, pruned...)
	if a.dryRun {
		return output.ShowEach(c.Out, plan, fillApplied)
	}
	if len(pruned) > 0 {
		question := cli.Question{Effect: "deletes " + output.Many(len(pruned), "thing") + ": " +
			strings.Join(texts(pruned, step.title), ", ")}
		if err := c.Ask(func() (cli.Question, error) { return question, nil }); err != nil {
			return err
		}
	}
	for i := range plan {
		if plan[i].do == nil {
			continue
		}
		if err := plan[i].do(c.Context()); err != nil {
			return errors.Join(fmt.Errorf("%s: %w; what is listed was done before, and the rest was not", plan[i].title(), err),
				output.ShowEach(c.Out, plan[:i], fillApplied))
		}
	}
	return output.ShowEach(c.Out, plan, fillApplied)
}

// close closes the clients of other namespaces.
func (a *applier) close() {
	for namespace, conn := range a.clients {
		if namespace != "" {
			conn.Close()
		}
	}
}

// in returns the client of a namespace.
func (a *applier) in(namespace string) (*client.Client, error) {
	if conn, ok := a.clients[namespace]; ok {
		return conn, nil
	}
	conn, err := a.c.Connection.Open(func(cfg *client.Config) { cfg.Namespace = namespace })
	if err == nil {
		a.clients[namespace] = conn
	}
	return conn, err
}

// read returns all documents, in the order in which they are applied. The error joins those of all faulty ones.
func (a *applier) read() (all []*manifest.Document, err error) {
	var faults []error
	for _, name := range a.files {
		paths, err := filesOf(name)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			in, err := input(a.c, path)
			if err != nil {
				return nil, err
			}
			documents, err := manifest.Read(cmp.Or(strings.TrimPrefix(path, "-"), "standard input"), in)
			faults, all = append(faults, err, in.Close()), append(all, documents...)
		}
	}
	seen := map[string]bool{}
	for _, d := range all {
		id := fmt.Sprintf("%s\x00%s\x00%s", d.Kind, d.Namespace, d.Name)
		if seen[id] {
			faults = append(faults, d.Fault("", fmt.Sprintf("describes %s %s a second time", d.Kind, d.Name)))
		}
		seen[id] = true
	}
	slices.SortStableFunc(all, func(x, y *manifest.Document) int {
		return cmp.Compare(slices.Index(manifest.Kinds, x.Kind), slices.Index(manifest.Kinds, y.Kind))
	})
	return all, errors.Join(faults...)
}

// filesOf returns a file itself, or the files of documents in a folder and those below it, by name.
func filesOf(name string) (paths []string, err error) {
	if name == "-" {
		return []string{name}, nil
	}
	err = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		isDocument := slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path))
		if err == nil && !entry.IsDir() && (isDocument || path == name) {
			paths = append(paths, path)
		}
		return err
	})
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("folder %s has no .yaml, .yml or .json file", name)
	}
	return paths, err
}

// plan compares all documents with the cluster. The error joins those of all documents that cannot be applied.
func (a *applier) plan(ctx context.Context, documents []*manifest.Document) (plan []step, err error) {
	var faults []error
	for _, d := range documents {
		conn, err := a.in(d.Namespace)
		if err != nil {
			return nil, err
		}
		s, err := planners[d.Kind](a, ctx, conn, d)
		var wrong *manifest.Error
		switch {
		case err != nil && !errors.As(err, &wrong):
			return nil, fmt.Errorf("%s: %w", step{Kind: d.Kind, Namespace: d.Namespace, Name: d.Name}.title(), err)
		case err != nil:
			faults = append(faults, err)
		}
		s.Kind, s.Namespace, s.Name = d.Kind, d.Namespace, d.Name
		plan = append(plan, s)
	}
	return plan, errors.Join(faults...)
}

// planners compare a document with the thing of its kind and name.
var planners = map[manifest.Kind]func(
	*applier, context.Context, *client.Client, *manifest.Document,
) (step, error){
	manifest.Namespace: (*applier).planNamespace, manifest.Calendar: (*applier).planCalendar,
	manifest.Queue: (*applier).planQueue, manifest.Schedule: (*applier).planSchedule, manifest.Key: (*applier).planKey,
}

func (a *applier) planNamespace(ctx context.Context, conn *client.Client, d *manifest.Document) (step, error) {
	var wanted client.Quotas
	if err := json.Unmarshal(d.Spec, &wanted); err != nil {
		return step{}, d.Refusal(err)
	}
	stored, err := found(conn.Namespace(ctx, d.Name))
	if err != nil {
		return step{}, err
	}
	var now any
	if stored != nil {
		now = stored.Quotas
	}
	return compared(d, now, wanted, func(ctx context.Context) error {
		_, err := conn.PutNamespace(ctx, d.Name, wanted)
		return err
	})
}

func (a *applier) planCalendar(ctx context.Context, conn *client.Client, d *manifest.Document) (step, error) {
	var wanted client.Calendar
	if err := json.Unmarshal(d.Spec, &wanted); err != nil {
		return step{}, d.Refusal(err)
	}
	stored, err := found(conn.Calendar(ctx, d.Name))
	if err != nil {
		return step{}, err
	}
	wanted.Name = d.Name
	return compared(d, orNil(stored), wanted, func(ctx context.Context) error {
		_, err := conn.PutCalendar(ctx, wanted)
		return err
	})
}

func (a *applier) planQueue(ctx context.Context, conn *client.Client, d *manifest.Document) (step, error) {
	var wanted client.Queue
	if err := json.Unmarshal(d.Spec, &wanted); err != nil {
		return step{}, d.Refusal(err)
	}
	stored, err := found(conn.Queue(ctx, d.Name))
	if err != nil {
		return step{}, err
	}
	wanted.Name = d.Name
	var target *client.Target
	if stored != nil {
		stored.Counts, stored.Broken, target = nil, nil, stored.Target
	}
	if err := checkMasked(d, "target", wanted.Target, target); err != nil {
		return step{}, err
	}
	return compared(d, orNil(stored), wanted, func(ctx context.Context) error {
		_, err := conn.PutQueue(ctx, wanted)
		return err
	})
}

func (a *applier) planSchedule(ctx context.Context, conn *client.Client, d *manifest.Document) (step, error) {
	var wanted client.Schedule
	if err := json.Unmarshal(d.Spec, &wanted); err != nil {
		return step{}, d.Refusal(err)
	}
	rule := wanted.Repeat
	rule.Calendar = "" // the plan may make it
	_, err := conn.PreviewSchedule(ctx, rule, 1)
	var refusal *client.Error
	switch {
	case err == nil || errors.Is(err, client.ErrNotFound): // the namespace may be one that the plan makes
	case errors.As(err, &refusal) && refusal.Field != "":
		detail := refusal.Detail
		if refusal.Limit != "" {
			detail += " (limit " + refusal.Limit + ")"
		}
		return step{}, d.Fault(refusal.Field, detail)
	default:
		return step{}, err
	}
	stored, err := found(conn.GetSchedule(ctx, d.Name))
	if err != nil {
		return step{}, err
	}
	wanted.ID = d.Name
	sent, condition, target := wanted, client.IfAbsent(), (*client.Target)(nil)
	if stored != nil {
		condition, target = client.IfRevision(stored.Revision), stored.Task.Target
		if wanted.Repeat.Every == stored.Repeat.Every && wanted.Repeat.Anchor.IsZero() {
			wanted.Repeat.Anchor = stored.Repeat.Anchor // the service keeps it
		}
		wanted.Task.ContentType = cmp.Or(wanted.Task.ContentType, stored.Task.ContentType)
	}
	if err := checkMasked(d, "task.target", wanted.Task.Target, target); err != nil {
		return step{}, err
	}
	wanted.Misfire = cmp.Or(wanted.Misfire, client.MisfireLatest)
	wanted.Overlap = cmp.Or(wanted.Overlap, client.OverlapSkip)
	wanted.Repeat.TimeZone = cmp.Or(wanted.Repeat.TimeZone, "UTC")
	wanted.Task.Queue = cmp.Or(wanted.Task.Queue, "default")
	return compared(d, orNil(stored), wanted, func(ctx context.Context) error {
		_, err := conn.PutSchedule(ctx, sent, condition)
		return err
	})
}

func (a *applier) planKey(ctx context.Context, conn *client.Client, d *manifest.Document) (s step, err error) {
	var wanted client.APIKey
	if err := json.Unmarshal(d.Spec, &wanted); err != nil {
		return s, d.Refusal(err)
	}
	if a.known == nil {
		if a.known, err = conn.Keys(ctx); err != nil {
			return s, err
		}
		a.known = slices.Grow(a.known, 1)
	}
	stored := slices.DeleteFunc(slices.Clone(a.known), func(k client.APIKey) bool { return k.Name != d.Name })
	switch {
	case len(stored) > 1:
		return s, d.Fault("", fmt.Sprintf("describes one key, and %d have the name %s", len(stored), d.Name))
	case len(stored) == 0 && len(wanted.Grants) == 0:
		return s, d.Fault("grants", "is absent or empty")
	case len(stored) == 0:
		return a.newKey(conn, d, &wanted)
	}
	if s, err = compared(d, stored[0], wanted, nil); s.Action == changes {
		err = d.Fault(s.Changes[0].Field, "differs from the key of this name, and a key does not change: revoke it, or "+
			"describe one of another name")
	}
	return s, err
}

// newKey returns the step that makes a key. Its text goes to a file that its owner alone can read.
func (a *applier) newKey(conn *client.Client, d *manifest.Document, wanted *client.APIKey) (step, error) {
	if a.keys == "" && !a.dryRun {
		return step{}, d.Fault("", "describes a key that does not exist; give --keys with a folder for its text")
	}
	if name := d.Name + ".key"; !filepath.IsLocal(name) || filepath.Base(name) != name {
		return step{}, d.Fault("", fmt.Sprintf("describes key %q, whose name is none of a file", d.Name))
	}
	r := client.KeyRequest{Name: d.Name, Grants: wanted.Grants}
	if wanted.ExpiresAt != nil {
		r.ExpiresAt = *wanted.ExpiresAt
	}
	if wanted.Quotas != nil {
		r.Quotas = *wanted.Quotas
	}
	return compared(d, nil, *wanted, func(ctx context.Context) error {
		file, err := os.OpenFile(filepath.Join(a.keys, d.Name+".key"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		made, err := conn.CreateKey(ctx, r)
		if err != nil {
			return errors.Join(err, file.Close(), os.Remove(file.Name()))
		}
		_, err = fmt.Fprintln(file, made.Key.Text())
		if err = errors.Join(err, cli.SyncSecret(file), file.Close()); err != nil {
			return endLost(a.c, made, err)
		}
		return nil
	})
}

// found returns nil for a thing that is not there.
func found[T any](thing *T, err error) (*T, error) {
	if errors.Is(err, client.ErrNotFound) {
		return nil, nil
	}
	return thing, err
}

func orNil[T any](thing *T) any {
	if thing == nil {
		return nil
	}
	return *thing
}

// checkMasked refuses a document that keeps a credential which the cluster does not have.
func checkMasked(d *manifest.Document, field string, wanted, stored *client.Target) error {
	if wanted == nil {
		return nil
	}
	for name, value := range wanted.Headers {
		lower := strings.ToLower(name)
		if value == task.Masked && task.IsCredential(lower) && (stored == nil || stored.Headers[lower] == "") {
			return d.Fault(field+".headers."+name, "is ***, which keeps a stored value, and there is none")
		}
	}
	return nil
}

// compared returns the step from what is stored, nil for nothing, to what is wanted.
func compared(d *manifest.Document, stored, wanted any, do func(context.Context) error) (step, error) {
	from, err := fieldsOf(d.Kind, stored)
	if err != nil {
		return step{}, err
	}
	to, err := fieldsOf(d.Kind, wanted)
	if err != nil {
		return step{}, d.Refusal(err)
	}
	s := step{Action: changes, do: do}
	for _, field := range slices.Sorted(maps.Keys(union(from, to))) {
		if !bytes.Equal(from[field], to[field]) {
			s.Changes = append(s.Changes, fieldChange{field, from[field], shown(field, to[field])})
		}
	}
	switch {
	case stored == nil:
		s.Action = makes
	case len(s.Changes) == 0:
		s.Action, s.do = keeps, nil
	}
	return s, nil
}

func union(a, b map[string]json.RawMessage) map[string]json.RawMessage {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

// shown hides the value of a secret.
func shown(field string, value json.RawMessage) json.RawMessage {
	_, header, isHeader := strings.Cut(field, ".headers.")
	hidden := isHeader && task.IsCredential(header) && string(value) != `"`+task.Masked+`"`
	if value != nil && (hidden || field == "signing.secrets" && bytes.Contains(value, []byte("whsec_"))) {
		return json.RawMessage(`"(the value of the document)"`)
	}
	return value
}

// fieldsOf returns the settings of a thing by their full names. Lists and payloads are one setting each.
func fieldsOf(kind manifest.Kind, thing any) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if thing == nil {
		return all, nil
	}
	text, err := json.Marshal(thing)
	if err != nil {
		return nil, err
	}
	var members map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&members); err != nil {
		return nil, err
	}
	settings := manifest.Fields(kind)
	maps.DeleteFunc(members, func(name string, _ any) bool { return !slices.Contains(settings, name) })
	return all, flatten(all, "", members)
}

// instants are the settings that may be written with any offset.
var instants = []string{"repeat.start", "repeat.end", "repeat.anchor", "expires_at"}

func flatten(all map[string]json.RawMessage, prefix string, members map[string]any) error {
	for name, value := range members {
		if strings.HasSuffix(prefix, "headers.") {
			name = strings.ToLower(name)
		}
		below, isObject := value.(map[string]any)
		if isObject && prefix+name != "task.payload" {
			if err := flatten(all, prefix+name+".", below); err != nil {
				return err
			}
			continue
		}
		if text, ok := value.(string); ok && slices.Contains(instants, prefix+name) {
			if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
				value = at.UTC()
			}
		}
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		if s := string(text); s == `""` || s == "false" || s == "0" || s == `"0s"` || s == "null" || s == "[]" {
			if prefix+name != "task.payload" {
				continue // a default
			}
		}
		all[prefix+name] = text
	}
	return nil
}

// selector selects things to prune.
type selector struct {
	kind   manifest.Kind
	prefix string
	labels map[string]string
}

// readSelectors reads the values of --prune: KINDs:prefix=TEXT, or schedules:label=NAME:VALUE.
func readSelectors(values []string) (all []selector, err error) {
	for _, value := range values {
		kinds, condition, _ := strings.Cut(value, ":")
		by, text, _ := strings.Cut(condition, "=")
		s := selector{kind: manifest.Kind(strings.TrimSuffix(kinds, "s"))}
		isKind := s.kind.HasNamespace() && strings.HasSuffix(kinds, "s")
		switch {
		case isKind && by == "prefix" && text != "":
			s.prefix = text
		case isKind && by == "label" && s.kind == manifest.Schedule:
			if err := cli.Labels(&s.labels, []string{text}); err != nil {
				return nil, fmt.Errorf("--prune: %w", err)
			}
		default:
			return nil, fmt.Errorf("--prune is %q, and not like schedules:label=team:a or queues:prefix=shop-, of "+
				"schedules, queues or calendars", value)
		}
		all = append(all, s)
	}
	return all, nil
}

// planPrune returns the deletions of all that a selector selects, in the namespace of the call, without a document.
func (a *applier) planPrune(
	ctx context.Context, selectors []selector, documents []*manifest.Document,
) (plan []step, err error) {
	described := map[string]bool{}
	for _, d := range documents {
		if d.Namespace == "" || d.Namespace == cmp.Or(a.c.Connection.Namespace, "default") {
			described[string(d.Kind)+"\x00"+d.Name] = true
		}
	}
	slices.SortStableFunc(selectors, func(x, y selector) int { // a schedule may use a calendar
		return cmp.Compare(slices.Index(manifest.Kinds, y.kind), slices.Index(manifest.Kinds, x.kind))
	})
	for _, s := range selectors {
		names, remove, err := a.selected(ctx, s)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			id := string(s.kind) + "\x00" + name
			if described[id] {
				continue
			}
			described[id] = true // by another selector, too
			plan = append(plan, step{
				Kind: s.kind, Name: name, Action: deletes, do: func(ctx context.Context) error { return remove(ctx, name) },
			})
		}
	}
	return plan, nil
}

// selected returns the names of the things that a selector selects, and the function that deletes one.
func (a *applier) selected(
	ctx context.Context, s selector,
) (names []string, remove func(context.Context, string) error, err error) {
	conn := a.c.Client
	switch s.kind {
	case manifest.Schedule:
		for schedule, err := range conn.Schedules(ctx, client.ScheduleFilter{Prefix: s.prefix, Labels: s.labels}) {
			if err != nil {
				return nil, nil, err
			}
			names = append(names, schedule.ID)
		}
		remove = func(ctx context.Context, id string) error { return conn.DeleteSchedule(ctx, id) }
	case manifest.Queue:
		for queue, err := range conn.Queues(ctx) {
			if err != nil {
				return nil, nil, err
			}
			names = append(names, queue.Name)
		}
		remove = conn.DeleteQueue
	default:
		list, err := conn.Calendars(ctx)
		if err != nil {
			return nil, nil, err
		}
		names = texts(list, func(c client.Calendar) string { return c.Name })
		remove = func(ctx context.Context, name string) error {
			_, err := conn.DeleteCalendar(ctx, name)
			return err
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, s.prefix) }), remove, nil
}

// title names the thing of a step: "queue orders in shop".
func (s step) title() string {
	text := string(s.Kind) + " " + s.Name
	if s.Namespace != "" {
		text += " in " + s.Namespace
	}
	return text
}

func fillApplied(t *output.Table, plan []step) {
	counts := map[string]int{}
	for _, s := range plan {
		counts[s.Action]++
		if s.Action != keeps {
			t.Row("%s %s", s.Action, s.title())
		}
		for _, c := range s.Changes {
			if s.Action == makes {
				t.Row("  %s: %s", c.Field, string(c.To))
			} else {
				t.Row("  %s: %s → %s", c.Field, orDefault(c.From), orDefault(c.To))
			}
		}
	}
	t.Row("%d to create, %d to change, %d to delete, %d equal", counts[makes], counts[changes], counts[deletes],
		counts[keeps])
}

func orDefault(value json.RawMessage) string {
	if value == nil {
		return "(default)"
	}
	return string(value)
}
