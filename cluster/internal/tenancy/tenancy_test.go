package tenancy_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/tenancy"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// book is a state that changes come to, one after the other.
type book struct {
	t     *testing.T
	state *clusterpb.ControlState
	now   time.Time
}

func newBook(t *testing.T) *book {
	return &book{t: t, state: &clusterpb.ControlState{}, now: start}
}

// try carries out a change on a copy of the state, twice: a repeat may change nothing.
func (b *book) try(change *clusterpb.ControlEntry) error {
	b.t.Helper()
	entry := proto.CloneOf(change)
	if err := tenancy.Prepare(entry, b.now); err != nil {
		return err
	}
	return b.apply(entry)
}

func (b *book) apply(entry *clusterpb.ControlEntry) error {
	b.t.Helper()
	var after [2]*clusterpb.ControlState
	for i, from := range []*clusterpb.ControlState{b.state, nil} {
		if i == 1 {
			from = after[0]
		}
		kept := proto.CloneOf(from)
		next, err := control.Apply(from, proto.CloneOf(entry))
		if err != nil {
			return err
		}
		if !proto.Equal(from, kept) {
			b.t.Fatal("the state that readers hold was changed")
		}
		after[i] = next
	}
	if !proto.Equal(after[0], after[1]) {
		b.t.Errorf("a repeat of %v changed %v to %v", entry, after[0], after[1])
	}
	b.state = after[0]
	return nil
}

func (b *book) do(change *clusterpb.ControlEntry) {
	b.t.Helper()
	if err := b.try(change); err != nil {
		b.t.Fatal(err)
	}
}

func hash(of string) []byte { return []byte(fmt.Sprintf("%-32s", of)) }

func newKey(id string, grants ...*clusterpb.KeyGrant) *clusterpb.ApiKey {
	if len(grants) == 0 {
		grants = []*clusterpb.KeyGrant{grant(access.AllNamespaces)}
	}
	return &clusterpb.ApiKey{
		Id: id, Name: "key " + id, Grants: grants, Secrets: []*clusterpb.KeySecret{{Hash: hash(id)}},
	}
}

func grant(namespace string) *clusterpb.KeyGrant {
	return &clusterpb.KeyGrant{Role: clusterpb.KeyRole_KEY_ROLE_READ, Namespace: namespace}
}

func add(key *clusterpb.ApiKey) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_AddKey{AddKey: &clusterpb.AddKey{Key: key}}}
}

func remove(id string) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_RemoveKey{RemoveKey: &clusterpb.RemoveKey{Id: id}}}
}

func rotate(id, secret string, overlap time.Duration) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_RotateKey{RotateKey: &clusterpb.RotateKey{
		Id: id, Hash: hash(secret), OverlapMs: overlap.Milliseconds(),
	}}}
}

func use(hour time.Time, ids ...string) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_UseKeys{UseKeys: &clusterpb.UseKeys{
		Ids: ids, HourMs: hour.UnixMilli(),
	}}}
}

func enforce() *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_EnforceKeys{EnforceKeys: &clusterpb.EnforceKeys{}}}
}

func set(name string, q *clusterpb.Quotas) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_SetNamespace{SetNamespace: &clusterpb.SetNamespace{
		Namespace: &clusterpb.Namespace{Name: name, Quotas: q},
	}}}
}

func del(name string) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_DeleteNamespace{DeleteNamespace: &clusterpb.DeleteNamespace{
		Name: name, Operation: "op-" + name, Total: 7,
	}}}
}

func end(name string) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_EndNamespace{EndNamespace: &clusterpb.EndNamespace{
		Name: name, AtMs: start.Add(time.Hour).UnixMilli(),
	}}}
}

func isField(err error, field string) bool {
	var broken *task.FieldError
	return errors.As(err, &broken) && broken.Field == field
}

func isRefusal(err error) bool {
	var refusal *tenancy.Refusal
	return errors.As(err, &refusal)
}

// TestLastKeyOpensNothing checks that no change takes back that keys are in force.
func TestLastKeyOpensNothing(t *testing.T) {
	b := newBook(t)
	b.do(set("shop", nil))
	if b.state.KeysInForce {
		t.Error("keys are in force without a key")
	}
	b.do(add(newKey("a", grant("shop"))))
	if key := tenancy.Key(b.state, "a"); !b.state.KeysInForce || key.GetCreatedMs() != start.UnixMilli() {
		t.Fatalf("after the first key: %v", b.state)
	}
	b.do(remove("a"))
	b.do(remove("never made"))
	if !b.state.KeysInForce || len(b.state.ApiKeys) != 0 {
		t.Errorf("after the removal of the last key: %v", b.state)
	}
	b.do(add(newKey("b", grant("shop"))))
	b.do(del("shop"))
	if err := b.apply(end("shop")); err != nil || len(b.state.ApiKeys) != 0 || !b.state.KeysInForce {
		t.Errorf("after the deletion of the last key's namespace: %v, %v", err, b.state)
	}
	other := newBook(t)
	other.do(enforce())
	if !other.state.KeysInForce || other.state.AccessVersion != 1 {
		t.Errorf("without any key: %v", other.state)
	}
}

func TestBadKeysNameTheirField(t *testing.T) {
	long := strings.Repeat("x", access.MaxKeyNameChars+1)
	many := make([]string, access.MaxPatterns+1)
	for i := range many {
		many[i] = "q"
	}
	for field, edit := range map[string]func(k *clusterpb.ApiKey){
		"name":                func(k *clusterpb.ApiKey) { k.Name = "" },
		"expires_at":          func(k *clusterpb.ApiKey) { k.ExpiresMs = start.UnixMilli() },
		"grants":              func(k *clusterpb.ApiKey) { k.Grants = nil },
		"grants[0].role":      func(k *clusterpb.ApiKey) { k.Grants[0].Role = 0 },
		"grants[0].namespace": func(k *clusterpb.ApiKey) { k.Grants[0].Namespace = "Shop" },
		"grants[0].queues":    func(k *clusterpb.ApiKey) { k.Grants[0].Queues = many },
		"grants[0].queues[1]": func(k *clusterpb.ApiKey) { k.Grants[0].Queues = []string{"ok*", "a b"} },
		"grants[0].ids[0]":    func(k *clusterpb.ApiKey) { k.Grants[0].Ids = []string{""} },
		"quotas.weight":       func(k *clusterpb.ApiKey) { k.Quotas = &clusterpb.Quotas{Weight: 1} },
		"quotas.calls_per_second": func(k *clusterpb.ApiKey) {
			k.Quotas = &clusterpb.Quotas{CallsPerSecond: math.NaN()}
		},
	} {
		b, key := newBook(t), newKey("a")
		edit(key)
		if err := b.try(add(key)); !isField(err, field) || b.state.KeysInForce {
			t.Errorf("%s: %v", field, err)
		}
	}
	for name, bad := range map[string]string{"long": long, "control": "a\nb", "no text": "\xff"} {
		key := newKey("a")
		key.Name = bad
		if err := newBook(t).try(add(key)); !isField(err, "name") {
			t.Errorf("%s: %v", name, err)
		}
	}
	key := newKey("a", grant("missing"))
	if err := newBook(t).try(add(key)); !isField(err, "grants[0].namespace") {
		t.Errorf("a namespace that does not exist: %v", err)
	}
	key.Secrets[0].Hash = []byte("short")
	if err := newBook(t).try(add(key)); !errors.Is(err, task.ErrNotProposed) {
		t.Errorf("a hash of five bytes: %v", err)
	}
}

func TestTooManyKeys(t *testing.T) {
	b := newBook(t)
	for i := range tenancy.MaxKeys {
		b.state.ApiKeys = append(b.state.ApiKeys, &clusterpb.ApiKey{Id: fmt.Sprintf("k%04d", i)})
	}
	b.state.ApiKeys[7].ExpiresMs = start.UnixMilli()
	if err := b.try(add(newKey("z"))); !isField(err, "keys") {
		t.Fatalf("one key too many: %v", err)
	}
	b.now = start.Add(tenancy.KeepExpired)
	b.do(add(newKey("z")))
	if tenancy.Key(b.state, "k0007") != nil || tenancy.Key(b.state, "z") == nil ||
		len(b.state.ApiKeys) != tenancy.MaxKeys {
		t.Error("the key that expired long before has not made room")
	}
}

// TestKeysLeaveRoom checks that the keys of one namespace take at most half of the places beside another namespace, and
// all of them without one.
func TestKeysLeaveRoom(t *testing.T) {
	b := newBook(t)
	of := func(id string, namespaces ...string) *clusterpb.ControlEntry {
		key := &clusterpb.ApiKey{Id: id}
		for _, ns := range namespaces {
			key.Grants = append(key.Grants, &clusterpb.KeyGrant{Namespace: ns})
		}
		return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_AddKey{AddKey: &clusterpb.AddKey{Key: key}}}
	}
	for i := range tenancy.MaxKeys / 2 {
		b.state.ApiKeys = append(b.state.ApiKeys, of(fmt.Sprintf("k%04d", i), "default").GetAddKey().Key)
	}
	if err := tenancy.CheckShare(b.state, of("z", "default")); err != nil {
		t.Errorf("the only namespace: %v", err)
	}
	b.state.Namespaces = []*clusterpb.Namespace{{Name: "shop"}}
	err := tenancy.CheckShare(b.state, of("z", "default"))
	if !isField(err, "keys") || !strings.Contains(err.Error(), "500 of one namespace") {
		t.Errorf("one key too many: %v", err)
	}
	for _, other := range []*clusterpb.ControlEntry{
		of("k0003", "default"), of("z", "shop"), of("z", "*"), of("z", "default", "shop"),
		{Op: &clusterpb.ControlEntry_RemoveKey{RemoveKey: &clusterpb.RemoveKey{Id: "k0003"}}},
	} {
		if err := tenancy.CheckShare(b.state, other); err != nil {
			t.Errorf("%v: %v", other, err)
		}
	}
}

func TestAnotherKeyOfTheSameID(t *testing.T) {
	b := newBook(t)
	b.do(add(newKey("a")))
	other := newKey("a")
	other.Secrets[0].Hash = hash("other")
	if err := b.try(add(other)); !isRefusal(err) {
		t.Errorf("a second key with the id: %v", err)
	}
}

// TestRotation checks which secrets are valid, and until when.
func TestRotation(t *testing.T) {
	b := newBook(t)
	b.do(add(newKey("a")))
	expect := func(when string, want ...int64) {
		t.Helper()
		var got []int64
		for _, s := range tenancy.Key(b.state, "a").Secrets {
			got = append(got, s.ExpiresMs)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: the secrets expire at %v, want %v", when, got, want)
		}
	}
	b.do(rotate("a", "second", time.Hour))
	expect("rotated", start.Add(time.Hour).UnixMilli(), 0)
	if err := b.try(rotate("a", "third", time.Hour)); !isField(err, "overlap") {
		t.Errorf("a third valid secret: %v", err)
	}
	b.do(rotate("a", "third", 0))
	expect("after a leak", 0)
	b.do(rotate("a", "fourth", time.Hour))
	b.now = start.Add(time.Hour)
	b.do(rotate("a", "fifth", time.Minute))
	expect("after the first overlap", b.now.Add(time.Minute).UnixMilli(), 0)
	for _, overlap := range []time.Duration{-1 * time.Millisecond, access.MaxOverlap + time.Millisecond} {
		if err := b.try(rotate("a", "sixth", overlap)); !isField(err, "overlap") {
			t.Errorf("an overlap of %v: %v", overlap, err)
		}
	}
	version := b.state.AccessVersion
	b.do(rotate("none", "x", 0))
	if b.state.AccessVersion != version {
		t.Error("the rotation of a key that is not there changed something")
	}
	short := newKey("b")
	short.ExpiresMs = b.now.Add(time.Minute).UnixMilli()
	b.do(add(short))
	b.now = b.now.Add(time.Minute)
	if err := b.try(rotate("b", "x", 0)); !isRefusal(err) {
		t.Errorf("the rotation of an expired key: %v", err)
	}
}

func TestUsesAreKeptToTheHour(t *testing.T) {
	b, hour := newBook(t), start.Truncate(time.Hour)
	b.do(add(newKey("a")))
	b.do(add(newKey("b")))
	version := b.state.AccessVersion
	b.do(use(hour, "a", "gone"))
	b.do(use(hour.Add(-time.Hour), "a"))
	a, other := tenancy.Key(b.state, "a"), tenancy.Key(b.state, "b")
	if a.UsedMs != hour.UnixMilli() || other.UsedMs != 0 || b.state.AccessVersion != version+1 {
		t.Errorf("after a use: %v", b.state)
	}
	for _, bad := range []time.Time{hour.Add(time.Minute), hour.Add(time.Hour)} {
		if err := b.try(use(bad, "a")); !errors.Is(err, task.ErrNotProposed) {
			t.Errorf("a use at %v: %v", bad, err)
		}
	}
}

func TestNamespaces(t *testing.T) {
	b := newBook(t)
	if d := tenancy.Find(b.state, ""); d.GetName() != task.DefaultNamespace || len(tenancy.List(b.state)) != 1 {
		t.Errorf("the default namespace of an empty state is %v", d)
	}
	b.do(set("shop", nil))
	b.do(set(task.DefaultNamespace, &clusterpb.Quotas{Weight: 3}))
	b.now = start.Add(time.Minute)
	b.do(set("shop", &clusterpb.Quotas{MaxQueues: 2}))
	shop := tenancy.Find(b.state, "shop")
	if shop.CreatedMs != start.UnixMilli() || shop.Quotas.GetMaxQueues() != 2 {
		t.Errorf("after a change of its quotas: %v", shop)
	}
	if all := tenancy.List(b.state); len(all) != 2 || all[0].Quotas.GetWeight() != 3 || all[0].CreatedMs != 0 {
		t.Errorf("all: %v", all)
	}
	for _, bad := range []string{"", "Shop", "-a", "a/b", "*", strings.Repeat("a", 64)} {
		if err := b.try(set(bad, nil)); !isField(err, "namespace") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := b.try(del(task.DefaultNamespace)); !isRefusal(err) {
		t.Errorf("the default namespace is deleted: %v", err)
	}
	if err := b.apply(end("shop")); !isRefusal(err) {
		t.Errorf("the end of a deletion that has not begun: %v", err)
	}
	for i := range tenancy.MaxNamespaces {
		b.state.Namespaces = append(b.state.Namespaces, &clusterpb.Namespace{Name: fmt.Sprintf("t%04d", i)})
	}
	if err := b.try(set("zoo", nil)); !isField(err, "namespaces") {
		t.Errorf("one namespace too many: %v", err)
	}
}

// TestDeletion deletes a namespace with policies and keys.
func TestDeletion(t *testing.T) {
	b := newBook(t)
	b.do(set("shop", nil))
	b.do(set("town", nil))
	b.do(add(newKey("only", grant("shop"))))
	b.do(add(newKey("both", grant("shop"), grant("town"))))
	b.do(add(newKey("all")))
	b.state.Queues = []*fsmpb.QueuePolicy{
		{Namespace: "default", Queue: "q"}, {Namespace: "shop", Queue: "q"}, {Namespace: "town", Queue: "q"},
	}
	b.state.Calendars = []*fsmpb.Calendar{{Namespace: "shop", Name: "c"}, {Namespace: "town", Name: "c"}}
	b.state.QueuesVersion = 3
	b.do(del("shop"))
	op := tenancy.Deletion(b.state, "shop")
	if op.GetId() != "op-shop" || op.Total != 7 || op.BeganMs != start.UnixMilli() ||
		fmt.Sprint(tenancy.Deleting(b.state)) != "[shop]" || len(b.state.Queues) != 3 {
		t.Fatalf("begun: %v", b.state)
	}
	again := del("shop")
	again.GetDeleteNamespace().Operation = "op-again"
	b.do(again)
	if len(b.state.Operations) != 1 {
		t.Errorf("a second deletion has begun: %v", b.state.Operations)
	}
	if err := b.try(set("shop", nil)); !isRefusal(err) {
		t.Errorf("made again: %v", err)
	}
	if err := b.try(add(newKey("late", grant("shop")))); !isField(err, "grants[0].namespace") {
		t.Errorf("a key for it: %v", err)
	}
	if err := b.apply(end("shop")); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, k := range b.state.ApiKeys {
		ids = append(ids, fmt.Sprint(k.Id, len(k.Grants)))
	}
	if fmt.Sprint(ids) != "[all1 both1]" || tenancy.Find(b.state, "shop") != nil || len(b.state.Queues) != 2 ||
		len(b.state.Calendars) != 1 || b.state.Calendars[0].Namespace != "town" ||
		b.state.QueuesVersion != 4 {
		t.Errorf("ended: %v", b.state)
	}
	done := b.state.Operations[0]
	if done.State != clusterpb.OperationState_OPERATION_STATE_DONE || done.EndedMs != start.Add(time.Hour).UnixMilli() {
		t.Errorf("the operation: %v", done)
	}
	b.do(set("shop", nil))
	if shop := tenancy.Find(b.state, "shop"); shop.GetState() != clusterpb.NamespaceState_NAMESPACE_STATE_ACTIVE {
		t.Errorf("made again: %v", shop)
	}
}

// TestNewNamespacesHaveNoPolicies makes a namespace of a name that has a policy, and changes one that has some.
func TestNewNamespacesHaveNoPolicies(t *testing.T) {
	b := newBook(t)
	b.state.Queues = []*fsmpb.QueuePolicy{{Namespace: "shop", Queue: "q"}}
	b.do(set("shop", nil))
	if len(b.state.Queues) > 0 || b.state.QueuesVersion != 1 {
		t.Errorf("a new namespace has %v", b.state.Queues)
	}
	b.state.Queues = []*fsmpb.QueuePolicy{{Namespace: "shop", Queue: "q"}}
	b.do(set("shop", &clusterpb.Quotas{MaxQueues: 3}))
	if len(b.state.Queues) != 1 {
		t.Error("a change of its quotas has removed a policy")
	}
}

// TestDeletionWithoutItsOperation gives a restored deletion an operation again.
func TestDeletionWithoutItsOperation(t *testing.T) {
	b := newBook(t)
	b.do(set("shop", nil))
	b.do(del("shop"))
	b.state.Operations = nil
	b.do(del("shop"))
	if tenancy.Deletion(b.state, "shop") == nil {
		t.Error("no operation")
	}
	b.state.Operations = nil
	if err := b.apply(end("shop")); err != nil || tenancy.Find(b.state, "shop") != nil {
		t.Errorf("ended: %v", err)
	}
}
