package belfry

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/belfryhq/belfry/bench/belfry/storm"
	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/client"
)

// keyed is a running cluster whose calls need keys. Each tenant has a namespace with one key.
type keyed struct {
	*service
	mu   sync.Mutex
	keys map[string]string // by tenant
}

// keyOf returns the key of a tenant, and makes its namespace and key at the first call.
func (k *keyed) keyOf(ctx context.Context, tenant string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if key := k.keys[tenant]; key != "" {
		return key, nil
	}
	if _, err := k.client.PutNamespace(ctx, tenant, client.Quotas{}); err != nil {
		return "", err
	}
	made, err := k.client.CreateKey(ctx, client.KeyRequest{Name: tenant, Grants: []client.Grant{
		{Role: client.RoleSchedule, Namespace: tenant}, {Role: client.RoleConsume, Namespace: tenant},
	}})
	if err != nil {
		return "", err
	}
	k.keys[tenant] = made.Key.Text()
	return k.keys[tenant], nil
}

// TenantCaller returns a caller by single calls, which consumes through the client.
func (k *keyed) TenantCaller(ctx context.Context, tenant, url string) (subject.Caller, error) {
	key, err := k.keyOf(ctx, tenant)
	if err != nil {
		return nil, err
	}
	c := &tenantCaller{single: newSingle(k.service)}
	c.key, c.target = key, func() *client.Target { return targetOf(url) }
	c.client, err = client.New(client.Config{Addrs: k.urls, Key: client.NewSecret(key)})
	return c, err
}

func targetOf(url string) *client.Target {
	if url == "" {
		return nil
	}
	return &client.Target{URL: url}
}

// Storm starts the program of the bench once more, as a storm.
func (k *keyed) Storm(ctx context.Context, tenant string, s subject.Storm) (subject.Storming, error) {
	key, err := k.keyOf(ctx, tenant)
	if err != nil {
		return nil, err
	}
	quotas := client.Quotas{SchedulesPerSecond: float64(s.Quota)}
	if _, err := k.client.PutNamespace(ctx, tenant, quotas); err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return storm.Start(ctx, []string{program, StormCommand}, storm.Config{URLs: k.urls, Key: key, Storm: s})
}

// StormCommand is the argument with which the program of the bench must call storm.Serve.
const StormCommand = "storm"

// tenantCaller is a caller with a tenant's key.
type tenantCaller struct {
	*single
	client *client.Client
}

// Consume consumes from the tenant's default queue.
func (c *tenantCaller) Consume(ctx context.Context, got func(id string, at time.Time)) error {
	return consume(ctx, c.client, defaultQueue, got)
}
