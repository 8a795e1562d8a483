package tenancy_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/tenancy"
	"github.com/belfryhq/belfry/quota"
)

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
	stored := tenancy.Quotas(limits)
	if got := tenancy.Limits(stored); got != limits {
		t.Errorf("%+v became %+v", limits, got)
	}
	if fields := stored.ProtoReflect().Descriptor().Fields().Len(); fields != v.NumField() {
		t.Errorf("the state has %d quotas, and package quota %d", fields, v.NumField())
	}
	if tenancy.Quotas(quota.Limits{}) != nil || tenancy.Limits(nil) != (quota.Limits{}) {
		t.Error("no limits are not absent")
	}
}

// TestRecordsAreWhole checks that a key and its grants keep their fields.
func TestRecordsAreWhole(t *testing.T) {
	grants := []access.Grant{
		{Role: access.Admin, Namespace: access.AllNamespaces},
		{Role: access.Consume, Namespace: "shop", Queues: []string{"a*"}, IDs: []string{"b"}},
	}
	end := start.Add(time.Hour)
	got := tenancy.Record(&clusterpb.ApiKey{
		Id: "k", Name: "ci", Grants: tenancy.Grants(grants), CreatedMs: start.UnixMilli(), ExpiresMs: end.UnixMilli(),
		UsedMs: 3_600_000, Secrets: []*clusterpb.KeySecret{{Hash: hash("x"), ExpiresMs: 5}, {Hash: hash("y")}},
	})
	want := access.KeyRecord{
		ID: "k", Name: "ci", Grants: grants, Created: start, Expires: end, LastUsed: time.UnixMilli(3_600_000).UTC(),
		Secrets: []access.KeySecret{{Hash: [32]byte(hash("x")), Expires: time.UnixMilli(5).UTC()}, {Hash: [32]byte(hash("y"))}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for r := access.Read; r <= access.Admin; r++ {
		if name := clusterpb.KeyRole_name[int32(r)]; name == "" || tenancy.Grants([]access.Grant{{Role: r}})[0].Role.String() != name {
			t.Errorf("the state has no role %v", r)
		}
	}
}
