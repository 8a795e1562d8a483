package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/instant"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newKey() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "key",
		Short: "Make, list, rotate and revoke API keys",
		Example: `  belfry key create shop --role schedule --namespace orders > shop.key
  belfry key list`,
	}, append([]*cobra.Command{newKeyCreate(), newKeyNewRoot()},
		cli.WithoutNamespace(newKeyList(), newKeyShow(), newKeyRotate(), newKeyRevoke())...)...)
}

// grantFlags describe the grants of a new key.
type grantFlags struct {
	roles, queues, ids []string
	expires            string
	limits             quotaFlags
	times              cli.Times
}

func newKeyCreate() *cobra.Command {
	var f grantFlags
	cmd := cli.PlainVerb(&cobra.Command{
		Use:   "create NAME",
		Short: "Make an API key; its text is printed once",
		Long: `Make an API key. Its text is printed once, alone on the standard output: the
cluster keeps only a hash of it. A file that takes the output becomes readable
by its owner alone.

The first key of a cluster without other credentials must be an admin of all
namespaces, without an end: --role admin --namespace '*'. From then on every
call needs a key.

The key has each role in each namespace. The roles are read; schedule; consume;
operate; and admin, which includes all. Each includes read. The namespace '*' is
every one, and the calls about the whole cluster need it.

With --queue or --id the key reaches only these queues and ids. An entry that
ends in * is a prefix. The limits hold for the calls with this key, beside those
of its namespace.`,
		Example: `  belfry key create shop --role schedule --namespace orders > shop.key
  belfry key create worker --role consume,schedule --namespace orders \
    --queue 'mails*' --id 'order-*' --expires 90d > worker.key
  belfry key create oncall --role operate --namespace '*' > oncall.key`,
	}, func(c *cli.Call) error {
		r, err := f.request(c.Args[0], c.Connection.Namespace)
		if err != nil {
			return cli.WrongUsage(err)
		}
		if err := cli.OpenForSecret(c.Out.Out); err != nil {
			return err
		}
		made, err := c.Client.CreateKey(c.Context(), r)
		if err != nil {
			return err
		}
		if err := printKey(c, made, ""); err != nil {
			return endLost(c, made, err)
		}
		return nil
	})
	cli.OfCluster(cmd) // the namespaces are those of the key
	flags := cmd.Flags()
	flags.Lookup("namespace").Usage = "`names` of the key's namespaces; '*': all (default \"default\"); also set by " +
		"BELFRY_NAMESPACE"
	flags.StringSliceVar(&f.roles, "role", nil, "`roles` of the key: read, schedule, consume, operate or admin")
	flags.StringSliceVar(&f.queues, "queue", nil, "only these `queues`")
	flags.StringSliceVar(&f.ids, "id", nil, "only tasks with these `ids`")
	f.limits.addCallFlags(flags)
	f.times.AddFlags(cmd)
	flags.StringVar(&f.expires, "expires", "", "end of the key: a `duration` or an instant (default: never)")
	cli.CompleteWords(cmd, "role", "read", "schedule", "consume", "operate", "admin")
	return cmd
}

// request returns the request for a key with each role in each namespace.
func (f *grantFlags) request(name, namespaces string) (client.KeyRequest, error) {
	r := client.KeyRequest{Name: name}
	if len(f.roles) == 0 {
		return r, errors.New("--role is needed: read, schedule, consume, operate or admin")
	}
	for _, namespace := range strings.Split(cmp.Or(namespaces, "default"), ",") {
		for _, role := range f.roles {
			if _, err := access.ParseRole(role); err != nil {
				return r, fmt.Errorf("--role: %w", err)
			}
			r.Grants = append(r.Grants, client.Grant{
				Role: client.Role(role), Namespace: strings.TrimSpace(namespace), Queues: f.queues, IDs: f.ids,
			})
		}
	}
	var err error
	if r.Quotas, err = f.limits.read(); err != nil || f.expires == "" {
		return r, err
	}
	return r, f.times.AtOrAfter(&r.ExpiresAt, "expires", f.expires)
}

// madeKey is a new key in JSON, with its text.
type madeKey struct {
	client.APIKey
	Key           string `json:"key"`
	OutlivesMaker bool   `json:"outlives_maker,omitempty"`
}

// printKey prints the text of a new key alone, so that the output can be the file of the key, and all else beside it.
func printKey(c *cli.Call, made *client.NewAPIKey, note string) error {
	key := madeKey{made.APIKey, made.Key.Text(), made.OutlivesMaker}
	err := output.Show(c.Out, key, func(t *output.Table, key madeKey) { t.Row("%s", key.Key) })
	if err = errors.Join(err, cli.SyncSecret(c.Out.Out)); err != nil {
		return err
	}
	if made.OutlivesMaker {
		note += "It stays valid for longer than the key of this call. "
	}
	_, err = fmt.Fprintf(c.Stderr(), "key %s (%s): %s; %s\n%sIt is not shown again. %s\n", output.Text(made.ID),
		output.Text(made.Name), output.Text(grants(made.Grants)), expiry(&made.APIKey), note,
		"To end it: belfry key revoke "+output.Text(made.ID))
	return err
}

// endLost revokes a key whose text could not be written, and returns that error.
func endLost(c *cli.Call, made *client.NewAPIKey, lost error) error {
	if err := c.Client.RevokeKey(c.Context(), made.ID); err != nil {
		return fmt.Errorf("%w\nThe text of key %s is lost. To end the key: belfry key revoke %[2]s (%w)", lost, made.ID, err)
	}
	return fmt.Errorf("%w\nThe text of key %s is lost, so the key is revoked again", lost, made.ID)
}

// grants describes grants for people: "schedule, consume in orders (queues mails*)".
func grants(list []client.Grant) string {
	var places []string
	roles := map[string][]string{}
	for _, g := range list {
		place := "in " + g.Namespace
		if g.Namespace == client.AllNamespaces {
			place = "in all namespaces"
		}
		var limits []string
		if len(g.Queues) > 0 {
			limits = append(limits, "queues "+strings.Join(g.Queues, " "))
		}
		if len(g.IDs) > 0 {
			limits = append(limits, "ids "+strings.Join(g.IDs, " "))
		}
		if len(limits) > 0 {
			place += " (" + strings.Join(limits, ", ") + ")"
		}
		if roles[place] == nil {
			places = append(places, place)
		}
		roles[place] = append(roles[place], string(g.Role))
	}
	for i, place := range places {
		places[i] = strings.Join(roles[place], ", ") + " " + place
	}
	return strings.Join(places, "; ")
}

func expiry(key *client.APIKey) string {
	if key.ExpiresAt == nil {
		return "never expires"
	}
	return "expires " + instant.Stamp(*key.ExpiresAt)
}

func newKeyList() *cobra.Command {
	return cli.ListVerb(&cobra.Command{
		Use:   "list",
		Short: "List the API keys, with their grants and their last use",
		Example: `  belfry key list
  belfry key list --json | jq -r 'select(.last_used_at == null) | .id'`,
	}, func(c *cli.Call) ([]client.APIKey, error) { return c.Client.Keys(c.Context()) }, fillKeys)
}

func fillKeys(t *output.Table, keys []client.APIKey) {
	if len(keys) == 0 {
		t.Row("there is no key")
		return
	}
	t.Columns("ID", "NAME", "MAY", "EXPIRES", "LAST USED").Wide("CREATED", "LIMITS").Add()
	for i := range keys {
		k := &keys[i]
		t.Cells(k.ID, k.Name, grants(k.Grants), cmp.Or(hour(k.ExpiresAt), "never"), cmp.Or(hour(k.LastUsedAt), "never"),
			hour(&k.CreatedAt), callLimits(k.Quotas))
	}
}

// callLimits describes the quotas of the calls with a key.
func callLimits(q *client.Quotas) string {
	if q == nil {
		return ""
	}
	var parts []string
	for _, limit := range []struct {
		value float64
		unit  string
	}{
		{q.CallsPerSecond, "calls/s"}, {q.SchedulesPerSecond, "schedules/s"},
		{float64(q.MaxConsumers), "consumers"}, {float64(q.MaxPayload), "bytes a payload"},
	} {
		if limit.value > 0 {
			parts = append(parts, rate(limit.value)+" "+limit.unit)
		}
	}
	return strings.Join(parts, ", ")
}

// hour returns an instant to the minute, or "" for nil.
func hour(at *time.Time) string {
	if at == nil {
		return ""
	}
	return at.Local().Format("2006-01-02 15:04 MST")
}

func newKeyShow() *cobra.Command {
	return cli.Verb(&cobra.Command{
		Use:     "show ID",
		Short:   "Show an API key, without its text",
		Example: `  belfry key show x4kq2mzt7a`,
	}, func(c *cli.Call) (*client.APIKey, error) { return c.Client.Key(c.Context(), c.Args[0]) }, fillKey)
}

func fillKey(t *output.Table, k *client.APIKey) {
	t.Field("id", k.ID)
	t.Field("name", k.Name)
	for _, g := range k.Grants {
		t.Field("may", grants([]client.Grant{g}))
	}
	t.Time("created", k.CreatedAt)
	t.Field("expires", cmp.Or(hour(k.ExpiresAt), "never"))
	t.Field("last used", cmp.Or(hour(k.LastUsedAt), "never"))
	if k.Quotas != nil {
		fillCallQuotas(t, k.Quotas, nil)
	}
}

func newKeyRotate() *cobra.Command {
	var overlap time.Duration
	cmd := cli.PlainVerb(&cobra.Command{
		Use:   "rotate ID",
		Short: "Give an API key a new text; the old one stays valid for a while",
		Long: `Give an API key a new text, which is printed once, alone on the standard output.
The id, the name and the grants stay. The old text stays valid for --overlap.
--overlap 0s ends it at once, for a text that has leaked.`,
		Example: `  belfry key rotate x4kq2mzt7a > shop.key
  belfry key rotate x4kq2mzt7a --overlap 0s > shop.key`,
	}, func(c *cli.Call) error {
		if err := cli.OpenForSecret(c.Out.Out); err != nil {
			return err
		}
		made, err := c.Client.RotateKey(c.Context(), c.Args[0], overlap)
		if err != nil {
			return err
		}
		note := "The old text is valid no more. "
		if overlap > 0 {
			note = "The old text is valid until " + instant.Stamp(time.Now().Add(overlap)) + ". "
		}
		if err := printKey(c, made, note); err != nil {
			return fmt.Errorf("%w\nThe new text of key %s is lost. For another one: belfry key rotate %[2]s --overlap 0s", err,
				made.ID)
		}
		return nil
	})
	cmd.Flags().Var(cli.NewSpan(&overlap, 24*time.Hour), "overlap",
		"`duration` for which the old text stays valid: 0s to 30d")
	return cmd
}

func newKeyRevoke() *cobra.Command {
	return cli.Asking(cli.Verb(&cobra.Command{
		Use:   "revoke ID",
		Short: "End an API key for ever, on every node within a second",
		Example: `  belfry key revoke x4kq2mzt7a
  belfry key list --json | jq -r 'select(.name == "shop") | .id' |
    xargs -n 1 belfry key revoke --yes`,
	}, func(c *cli.Call) (map[string]string, error) {
		err := cli.AskAbout(c, c.Client.Key, keyQuestion)
		if err == nil {
			err = c.Client.RevokeKey(c.Context(), c.Args[0])
		}
		return map[string]string{"revoked": c.Args[0]}, err
	}, func(t *output.Table, answer map[string]string) { t.Row("key %s is revoked", answer["revoked"]) }))
}

// keyQuestion asks about the end of a key, with the last use of it.
func keyQuestion(k *client.APIKey) cli.Question {
	return cli.Question{
		Effect: fmt.Sprintf("ends key %s (%s) for ever, last used: %s", k.Name, k.ID, cmp.Or(hour(k.LastUsedAt), "never")),
		Kind:   "key", Name: k.Name,
	}
}

func newKeyNewRoot() *cobra.Command {
	return &cobra.Command{
		Use:   "new-root",
		Short: "Print a new root key, without a call to a node",
		Long: `Print a new root key, alone on the standard output, without a call to a node. A
file that takes the output becomes readable by its owner alone.

Nodes with "belfry serve --root-key-file" take the key of their file as an admin
of all namespaces, also without a quorum. Give every node the same file. Use the
root key to make an admin key, and keep it for emergencies.`,
		Example: `  belfry key new-root > root.key
  belfry key create me --role admin --namespace '*' --key-file root.key > me.key`,
		Annotations: map[string]string{cli.Offline: ""},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.OpenForSecret(cmd.OutOrStdout()); err != nil {
				return err
			}
			id, text := access.NewKey()
			_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
			if err = errors.Join(err, cli.SyncSecret(cmd.OutOrStdout())); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), `root key %s: an admin of all namespaces
Keep it in a file that only the nodes' user can read, and start each node with
  belfry serve --root-key-file FILE
`, id)
			return err
		},
	}
}

func newWhoAmI() *cobra.Command {
	return cli.Verb(&cobra.Command{
		Use:   "whoami",
		Short: "Show the identity that the cluster sees behind a call",
		Example: `  belfry whoami
  belfry whoami --key-file shop.key --json | jq -r '.grants[].role'`,
	}, func(c *cli.Call) (*client.Caller, error) { return c.Client.WhoAmI(c.Context()) }, fillCaller)
}

func fillCaller(t *output.Table, caller *client.Caller) {
	t.Field("kind", caller.Kind)
	t.Field("id", caller.ID)
	t.Field("name", caller.Name)
	t.Field("namespace", caller.Namespace)
	for _, g := range caller.Grants {
		t.Field("may", grants([]client.Grant{g}))
	}
}
