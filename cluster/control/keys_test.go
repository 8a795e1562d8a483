package control

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/quota"
)

func newKey(id string) *clusterpb.ControlEntry { return addKey(apiKey(id)) }

func namespace(name string) *clusterpb.ControlEntry { return withQuotas(name, nil) }

func revoked(id string) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_RemoveKey{RemoveKey: &clusterpb.RemoveKey{Id: id}}}
}

// TestKeysOutliveARestart makes and removes keys, and opens the group again.
func TestKeysOutliveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		g, _ := replica(t, dir, "a", false, []string{"a"})
		until(t, g, "placed", placed)
		assert.NoError(t, g.Register(t.Context(), &clusterpb.Node{Id: "a", CommandVersion: Version, Boot: 1}))
		change := func(e *clusterpb.ControlEntry) *clusterpb.ControlChanged {
			t.Helper()
			changed, err := g.Change(t.Context(), asking(e))
			if err != nil || changed.Impossible != "" {
				t.Fatalf("%v: %v, %v", e, changed, err)
			}
			return changed
		}
		if made := change(newKey("k1")); made.Existed || made.Key.GetId() != "k1" || made.AccessVersion != g.State().AccessVersion {
			t.Errorf("made: %v", made)
		}
		if again := change(newKey("k1")); !again.Existed {
			t.Errorf("a repeat: %v", again)
		}
		change(newKey("k2"))
		if gone := change(revoked("k1")); !gone.Existed || gone.Key.GetId() != "k1" {
			t.Errorf("removed: %v", gone)
		}
		if made := change(namespace("shop")); made.Existed || made.Namespace.GetName() != "shop" {
			t.Errorf("a namespace: %v", made)
		}
		if _, err := g.Change(t.Context(), asking(namespace("Shop"))); !isFieldError(err) {
			t.Errorf("a bad name: %v", err)
		}
		closeGroup(t, g)
		g, _ = replica(t, dir, "a", false, nil)
		defer closeGroup(t, g)
		until(t, g, "as before", func(s *clusterpb.ControlState) bool {
			return Key(s, "k2") != nil && Key(s, "k1") == nil && s.KeysInForce && Namespace(s, "shop") != nil
		})
	})
}

func isFieldError(err error) bool {
	var field *task.FieldError
	return errors.As(err, &field)
}

// TestDeletionsLeaveOtherOperations checks that neither an operation on nodes nor one on all shards stops the deletion
// of a namespace.
func TestDeletionsLeaveOtherOperations(t *testing.T) {
	deletion := &clusterpb.Operation{Id: "op", Kind: clusterpb.OperationKind_OPERATION_KIND_DELETE_NAMESPACE, Namespace: "shop"}
	for _, kind := range clusterpb.OperationKind_value {
		other := &clusterpb.Operation{Id: "other", Kind: clusterpb.OperationKind(kind)}
		if contradicts(other, deletion) {
			t.Errorf("%v stops the deletion", other.Kind)
		}
	}
	if (look{}).isDone(deletion) || onNode(deletion) {
		t.Error("the deletion counts as an operation on a node")
	}
	s := formed(t)
	s.Operations = []*clusterpb.Operation{deletion}
	g := growth{state: s, now: time.Now()}
	assert.Equal(t, g.busy(), "", "no shard splits while a namespace is deleted")
}

var keysStart = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// keyBook is a state that changes come to, one after the other.
type keyBook struct {
	t     *testing.T
	state *clusterpb.ControlState
	now   time.Time
}

func newKeyBook(t *testing.T) *keyBook {
	return &keyBook{t: t, state: &clusterpb.ControlState{}, now: keysStart}
}

// try carries out a change on a copy of the state, twice: a repeat may change nothing.
func (b *keyBook) try(change *clusterpb.ControlEntry) error {
	b.t.Helper()
	entry := proto.CloneOf(change)
	m := newMachine()
	m.state = b.state
	r := &reconciler{group: &Group{machine: m, cfg: Config{Clock: func() time.Time { return b.now }}}}
	if _, err := prepareAccess(r, &clusterpb.ControlChange{Entry: entry}); err != nil {
		return err
	}
	return b.apply(entry)
}

func (b *keyBook) apply(entry *clusterpb.ControlEntry) error {
	b.t.Helper()
	var after [2]*clusterpb.ControlState
	for i, from := range []*clusterpb.ControlState{b.state, nil} {
		if i == 1 {
			from = after[0]
		}
		kept := proto.CloneOf(from)
		next, err := Apply(from, proto.CloneOf(entry))
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

func (b *keyBook) do(change *clusterpb.ControlEntry) {
	b.t.Helper()
	assert.NoError(b.t, b.try(change))
}

func apiKey(id string, grants ...*clusterpb.KeyGrant) *clusterpb.ApiKey {
	if len(grants) == 0 {
		grants = []*clusterpb.KeyGrant{readGrant(access.AllNamespaces)}
	}
	return &clusterpb.ApiKey{
		Id: id, Name: "key " + id, Grants: grants, Secrets: []*clusterpb.KeySecret{{Hash: HashToken(id)}},
	}
}

func readGrant(namespace string) *clusterpb.KeyGrant {
	return &clusterpb.KeyGrant{Role: clusterpb.KeyRole_KEY_ROLE_READ, Namespace: namespace}
}

func addKey(key *clusterpb.ApiKey) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_AddKey{AddKey: &clusterpb.AddKey{Key: key}}}
}

func rotated(id, secret string, overlap time.Duration) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_RotateKey{RotateKey: &clusterpb.RotateKey{
		Id: id, Hash: HashToken(secret), OverlapMs: overlap.Milliseconds(),
	}}}
}

func used(hour time.Time, ids ...string) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_UseKeys{UseKeys: &clusterpb.UseKeys{
		Ids: ids, HourMs: hour.UnixMilli(),
	}}}
}

func enforced() *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_EnforceKeys{EnforceKeys: &clusterpb.EnforceKeys{}}}
}

func withQuotas(name string, q *clusterpb.Quotas) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_SetNamespace{SetNamespace: &clusterpb.SetNamespace{
		Namespace: &clusterpb.Namespace{Name: name, Quotas: q},
	}}}
}

func deletedNamespace(name string) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_DeleteNamespace{DeleteNamespace: &clusterpb.DeleteNamespace{
		Name: name, Operation: "op-" + name, Total: 7,
	}}}
}

func endedNamespace(name string) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_EndNamespace{EndNamespace: &clusterpb.EndNamespace{
		Name: name, AtMs: keysStart.Add(time.Hour).UnixMilli(),
	}}}
}

func isField(err error, field string) bool {
	var broken *task.FieldError
	return errors.As(err, &broken) && broken.Field == field
}

func isRefusal(err error) bool { return errors.Is(err, ErrRefused) && !isFieldError(err) }

// TestLastKeyOpensNothing checks that no change takes back that keys are in force.
func TestLastKeyOpensNothing(t *testing.T) {
	b := newKeyBook(t)
	b.do(namespace("shop"))
	if b.state.KeysInForce {
		t.Error("keys are in force without a key")
	}
	b.do(addKey(apiKey("a", readGrant("shop"))))
	if key := Key(b.state, "a"); !b.state.KeysInForce || key.GetCreatedMs() != keysStart.UnixMilli() {
		t.Fatalf("after the first key: %v", b.state)
	}
	b.do(revoked("a"))
	b.do(revoked("never made"))
	if !b.state.KeysInForce || len(b.state.ApiKeys) != 0 {
		t.Errorf("after the removal of the last key: %v", b.state)
	}
	b.do(addKey(apiKey("b", readGrant("shop"))))
	b.do(deletedNamespace("shop"))
	if err := b.apply(endedNamespace("shop")); err != nil || len(b.state.ApiKeys) != 0 || !b.state.KeysInForce {
		t.Errorf("after the deletion of the last key's namespace: %v, %v", err, b.state)
	}
	other := newKeyBook(t)
	other.do(enforced())
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
		"expires_at":          func(k *clusterpb.ApiKey) { k.ExpiresMs = keysStart.UnixMilli() },
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
		b, key := newKeyBook(t), apiKey("a")
		edit(key)
		if err := b.try(addKey(key)); !isField(err, field) || b.state.KeysInForce {
			t.Errorf("%s: %v", field, err)
		}
	}
	for name, bad := range map[string]string{"long": long, "control": "a\nb", "no text": "\xff"} {
		key := apiKey("a")
		key.Name = bad
		if err := newKeyBook(t).try(addKey(key)); !isField(err, "name") {
			t.Errorf("%s: %v", name, err)
		}
	}
	key := apiKey("a", readGrant("missing"))
	if err := newKeyBook(t).try(addKey(key)); !isField(err, "grants[0].namespace") {
		t.Errorf("a namespace that does not exist: %v", err)
	}
	key.Secrets[0].Hash = []byte("short")
	assert.ErrorIs(t, newKeyBook(t).try(addKey(key)), task.ErrNotProposed, "a hash of five bytes")
}

func TestTooManyKeys(t *testing.T) {
	b := newKeyBook(t)
	for i := range maxKeys {
		b.state.ApiKeys = append(b.state.ApiKeys, &clusterpb.ApiKey{Id: fmt.Sprintf("k%04d", i)})
	}
	b.state.ApiKeys[7].ExpiresMs = keysStart.UnixMilli()
	if err := b.try(newKey("z")); !isField(err, "keys") {
		t.Fatalf("one key too many: %v", err)
	}
	b.now = keysStart.Add(keepExpired)
	b.do(newKey("z"))
	if Key(b.state, "k0007") != nil || Key(b.state, "z") == nil ||
		len(b.state.ApiKeys) != maxKeys {
		t.Error("the key that expired long before has not made room")
	}
}

// TestKeysLeaveRoom checks that the keys of one namespace take at most half of the places beside another namespace, and
// all of them without one.
func TestKeysLeaveRoom(t *testing.T) {
	b := newKeyBook(t)
	of := func(id string, namespaces ...string) *clusterpb.ControlEntry {
		key := &clusterpb.ApiKey{Id: id}
		for _, ns := range namespaces {
			key.Grants = append(key.Grants, &clusterpb.KeyGrant{Namespace: ns})
		}
		return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_AddKey{AddKey: &clusterpb.AddKey{Key: key}}}
	}
	for i := range maxKeys / 2 {
		b.state.ApiKeys = append(b.state.ApiKeys, of(fmt.Sprintf("k%04d", i), "default").GetAddKey().Key)
	}
	assert.Equal(t, checkKeyShare(b.state, of("z", "default").GetAddKey().GetKey()), nil, "the only namespace")
	b.state.Namespaces = []*clusterpb.Namespace{{Name: "shop"}}
	err := checkKeyShare(b.state, of("z", "default").GetAddKey().GetKey())
	if !isField(err, "keys") || !strings.Contains(err.Error(), "500 of one namespace") {
		t.Errorf("one key too many: %v", err)
	}
	for _, other := range []*clusterpb.ControlEntry{
		of("k0003", "default"), of("z", "shop"), of("z", "*"), of("z", "default", "shop"),
		{Op: &clusterpb.ControlEntry_RemoveKey{RemoveKey: &clusterpb.RemoveKey{Id: "k0003"}}},
	} {
		assert.Equal(t, checkKeyShare(b.state, other.GetAddKey().GetKey()), nil, "%v", other)
	}
}

func TestAnotherKeyOfTheSameID(t *testing.T) {
	b := newKeyBook(t)
	b.do(newKey("a"))
	other := apiKey("a")
	other.Secrets[0].Hash = HashToken("other")
	if err := b.try(addKey(other)); !isRefusal(err) {
		t.Errorf("a second key with the id: %v", err)
	}
}

// TestRotation checks which secrets are valid, and until when.
func TestRotation(t *testing.T) {
	b := newKeyBook(t)
	b.do(newKey("a"))
	expect := func(when string, want ...int64) {
		t.Helper()
		var got []int64
		for _, s := range Key(b.state, "a").Secrets {
			got = append(got, s.ExpiresMs)
		}
		assert.Equal(t, fmt.Sprint(got), fmt.Sprint(want), "%s: the secrets expire at", when)
	}
	b.do(rotated("a", "second", time.Hour))
	expect("rotated", keysStart.Add(time.Hour).UnixMilli(), 0)
	if err := b.try(rotated("a", "third", time.Hour)); !isField(err, "overlap") {
		t.Errorf("a third valid secret: %v", err)
	}
	b.do(rotated("a", "third", 0))
	expect("after a leak", 0)
	b.do(rotated("a", "fourth", time.Hour))
	b.now = keysStart.Add(time.Hour)
	b.do(rotated("a", "fifth", time.Minute))
	expect("after the first overlap", b.now.Add(time.Minute).UnixMilli(), 0)
	for _, overlap := range []time.Duration{-1 * time.Millisecond, access.MaxOverlap + time.Millisecond} {
		if err := b.try(rotated("a", "sixth", overlap)); !isField(err, "overlap") {
			t.Errorf("an overlap of %v: %v", overlap, err)
		}
	}
	version := b.state.AccessVersion
	b.do(rotated("none", "x", 0))
	assert.Equal(t, b.state.AccessVersion, version, "the rotation of a key that is not there changed something")
	short := apiKey("b")
	short.ExpiresMs = b.now.Add(time.Minute).UnixMilli()
	b.do(addKey(short))
	b.now = b.now.Add(time.Minute)
	if err := b.try(rotated("b", "x", 0)); !isRefusal(err) {
		t.Errorf("the rotation of an expired key: %v", err)
	}
}

func TestUsesAreKeptToTheHour(t *testing.T) {
	b, hour := newKeyBook(t), keysStart.Truncate(time.Hour)
	b.do(newKey("a"))
	b.do(newKey("b"))
	version := b.state.AccessVersion
	b.do(used(hour, "a", "gone"))
	b.do(used(hour.Add(-time.Hour), "a"))
	a, other := Key(b.state, "a"), Key(b.state, "b")
	if a.UsedMs != hour.UnixMilli() || other.UsedMs != 0 || b.state.AccessVersion != version+1 {
		t.Errorf("after a use: %v", b.state)
	}
	for _, bad := range []time.Time{hour.Add(time.Minute), hour.Add(time.Hour)} {
		assert.ErrorIs(t, b.try(used(bad, "a")), task.ErrNotProposed, "a use at %v", bad)
	}
}

func TestNamespaces(t *testing.T) {
	b := newKeyBook(t)
	if d := Namespace(b.state, ""); d.GetName() != task.DefaultNamespace || len(Namespaces(b.state)) != 1 {
		t.Errorf("the default namespace of an empty state is %v", d)
	}
	b.do(namespace("shop"))
	b.do(withQuotas(task.DefaultNamespace, &clusterpb.Quotas{Weight: 3}))
	b.now = keysStart.Add(time.Minute)
	b.do(withQuotas("shop", &clusterpb.Quotas{MaxQueues: 2}))
	shop := Namespace(b.state, "shop")
	if shop.CreatedMs != keysStart.UnixMilli() || shop.Quotas.GetMaxQueues() != 2 {
		t.Errorf("after a change of its quotas: %v", shop)
	}
	if all := Namespaces(b.state); len(all) != 2 || all[0].Quotas.GetWeight() != 3 || all[0].CreatedMs != 0 {
		t.Errorf("all: %v", all)
	}
	for _, bad := range []string{"", "Shop", "-a", "a/b", "*", strings.Repeat("a", 64)} {
		if err := b.try(withQuotas(bad, nil)); !isField(err, "namespace") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := b.try(deletedNamespace(task.DefaultNamespace)); !isRefusal(err) {
		t.Errorf("the default namespace is deleted: %v", err)
	}
	if err := b.apply(endedNamespace("shop")); !isRefusal(err) {
		t.Errorf("the end of a deletion that has not begun: %v", err)
	}
	for i := range maxNamespaces {
		b.state.Namespaces = append(b.state.Namespaces, &clusterpb.Namespace{Name: fmt.Sprintf("t%04d", i)})
	}
	if err := b.try(namespace("zoo")); !isField(err, "namespaces") {
		t.Errorf("one namespace too many: %v", err)
	}
}

// TestDeletion deletes a namespace with policies and keys.
func TestDeletion(t *testing.T) {
	b := newKeyBook(t)
	b.do(namespace("shop"))
	b.do(namespace("town"))
	b.do(addKey(apiKey("only", readGrant("shop"))))
	b.do(addKey(apiKey("both", readGrant("shop"), readGrant("town"))))
	b.do(newKey("all"))
	b.state.Queues = []*fsmpb.QueuePolicy{
		{Namespace: "default", Queue: "q"}, {Namespace: "shop", Queue: "q"}, {Namespace: "town", Queue: "q"},
	}
	b.state.Calendars = []*fsmpb.Calendar{{Namespace: "shop", Name: "c"}, {Namespace: "town", Name: "c"}}
	b.state.QueuesVersion = 3
	b.do(deletedNamespace("shop"))
	op := namespaceDeletion(b.state, "shop")
	if op.GetId() != "op-shop" || op.Total != 7 || op.BeganMs != keysStart.UnixMilli() ||
		fmt.Sprint(deletingNamespaces(b.state)) != "[shop]" || len(b.state.Queues) != 3 {
		t.Fatalf("begun: %v", b.state)
	}
	again := deletedNamespace("shop")
	again.GetDeleteNamespace().Operation = "op-again"
	b.do(again)
	assert.Equal(t, len(b.state.Operations), 1, "a second deletion has begun: %v", b.state.Operations)
	if err := b.try(namespace("shop")); !isRefusal(err) {
		t.Errorf("made again: %v", err)
	}
	if err := b.try(addKey(apiKey("late", readGrant("shop")))); !isField(err, "grants[0].namespace") {
		t.Errorf("a key for it: %v", err)
	}
	assert.NoError(t, b.apply(endedNamespace("shop")))
	var ids []string
	for _, k := range b.state.ApiKeys {
		ids = append(ids, fmt.Sprint(k.Id, len(k.Grants)))
	}
	if fmt.Sprint(ids) != "[all1 both1]" || Namespace(b.state, "shop") != nil || len(b.state.Queues) != 2 ||
		len(b.state.Calendars) != 1 || b.state.Calendars[0].Namespace != "town" ||
		b.state.QueuesVersion != 4 {
		t.Errorf("ended: %v", b.state)
	}
	done := b.state.Operations[0]
	if done.State != clusterpb.OperationState_OPERATION_STATE_DONE || done.EndedMs != keysStart.Add(time.Hour).UnixMilli() {
		t.Errorf("the operation: %v", done)
	}
	b.do(namespace("shop"))
	shop := Namespace(b.state, "shop")
	assert.Equal(t, shop.GetState(), clusterpb.NamespaceState_NAMESPACE_STATE_ACTIVE, "made again: %v", shop)
}

// TestNewNamespacesHaveNoPolicies makes a namespace of a name that has a policy, and changes one that has some.
func TestNewNamespacesHaveNoPolicies(t *testing.T) {
	b := newKeyBook(t)
	b.state.Queues = []*fsmpb.QueuePolicy{{Namespace: "shop", Queue: "q"}}
	b.do(namespace("shop"))
	if len(b.state.Queues) > 0 || b.state.QueuesVersion != 1 {
		t.Errorf("a new namespace has %v", b.state.Queues)
	}
	b.state.Queues = []*fsmpb.QueuePolicy{{Namespace: "shop", Queue: "q"}}
	b.do(withQuotas("shop", &clusterpb.Quotas{MaxQueues: 3}))
	assert.Equal(t, len(b.state.Queues), 1, "a change of its quotas has removed a policy")
}

// TestDeletionWithoutItsOperation gives a restored deletion an operation again.
func TestDeletionWithoutItsOperation(t *testing.T) {
	b := newKeyBook(t)
	b.do(namespace("shop"))
	b.do(deletedNamespace("shop"))
	b.state.Operations = nil
	b.do(deletedNamespace("shop"))
	if namespaceDeletion(b.state, "shop") == nil {
		t.Error("no operation")
	}
	b.state.Operations = nil
	if err := b.apply(endedNamespace("shop")); err != nil || Namespace(b.state, "shop") != nil {
		t.Errorf("ended: %v", err)
	}
}

// TestLimitsAreWhole checks that the state keeps every field of package quota.
func TestLimitsAreWhole(t *testing.T) {
	var limits quota.Limits
	v := reflect.ValueOf(&limits).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Float64:
			f.SetFloat(float64(i) + 1.5)
		default:
			f.SetInt(int64(i) + 1)
		}
	}
	stored := QuotasOf(limits)
	if got := QuotaLimits(stored); got != limits {
		t.Errorf("%+v became %+v", limits, got)
	}
	if fields := stored.ProtoReflect().Descriptor().Fields().Len(); fields != v.NumField() {
		t.Errorf("the state has %d quotas, and package quota %d", fields, v.NumField())
	}
	if QuotasOf(quota.Limits{}) != nil || QuotaLimits(nil) != (quota.Limits{}) {
		t.Error("no limits are not absent")
	}
}

// TestRecordsAreWhole checks that a key and its grants keep their fields.
func TestRecordsAreWhole(t *testing.T) {
	grants := []access.Grant{
		{Role: access.Admin, Namespace: access.AllNamespaces},
		{Role: access.Consume, Namespace: "shop", Queues: []string{"a*"}, IDs: []string{"b"}},
	}
	end := keysStart.Add(time.Hour)
	got := KeyRecord(&clusterpb.ApiKey{
		Id: "k", Name: "ci", Grants: KeyGrants(grants), CreatedMs: keysStart.UnixMilli(), ExpiresMs: end.UnixMilli(),
		UsedMs: 3_600_000, Secrets: []*clusterpb.KeySecret{{Hash: HashToken("x"), ExpiresMs: 5}, {Hash: HashToken("y")}},
	})
	want := access.KeyRecord{
		ID: "k", Name: "ci", Grants: grants, Created: keysStart, Expires: end, LastUsed: time.UnixMilli(3_600_000).UTC(),
		Secrets: []access.KeySecret{{Hash: [32]byte(HashToken("x")), Expires: time.UnixMilli(5).UTC()}, {Hash: [32]byte(HashToken("y"))}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for r := access.Read; r <= access.Admin; r++ {
		if name := clusterpb.KeyRole_name[int32(r)]; name == "" || KeyGrants([]access.Grant{{Role: r}})[0].Role.String() != name {
			t.Errorf("the state has no role %v", r)
		}
	}
}
