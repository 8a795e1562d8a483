package redis

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/imports/importstest"
	"github.com/belfryhq/belfry/internal/assert"
)

// realasynq returns the path of the program that uses asynq.
func realasynq() string { return os.Getenv("BELFRY_REAL_ASYNQ") }

func TestAsynqServer(t *testing.T) {
	importstest.Need(t, "asynq")
	r := startRedis(t)
	importstest.Start(t, 1).CheckLibrary(exec.Command(realasynq(), "write", r.url), "asynq", r.url)
	for _, key := range r.keys("asynq:*:t:*") {
		if !strings.HasSuffix(key, ":t:headed") {
			t.Errorf("%s is left", key)
		}
	}
	assert.EqualSlices(t, r.keys("*unique*"), nil)
	assert.EqualSlices(t, r.keys("belfry-import:*"), nil)
}

// A real worker of asynq and a consumer of Belfry share the jobs while they are moved: each runs once.
func TestAsynqServerMovesBesideAWorker(t *testing.T) {
	importstest.Need(t, "asynq")
	r := startRedis(t)
	b := importstest.Start(t, 1)
	const jobs = 3000
	b.Share(exec.Command(realasynq(), "work", r.url), "mails", jobs, func() {
		fill := exec.Command(realasynq(), "fill", r.url)
		fill.Stderr = os.Stderr
		assert.NoError(t, fill.Run())
	}, func() {
		_, code := b.Import("asynq", r.url, "--move", "--per-second", "500")
		assert.Equal(t, code, 0, "exit status")
	}, func(task *client.Task) string { return string(task.PayloadBytes) })
}

func TestBullMQServer(t *testing.T) {
	importstest.Need(t, "bullmq")
	r := startRedis(t)
	write := exec.Command("node", "realbullmq/write.mjs", r.url)
	importstest.Start(t, 1).CheckLibrary(write, "bullmq", r.url, "mails", "jobs:reports")
	for _, key := range append(r.keys("bull:mails:[0-9]*"), r.keys("jobs:reports:[0-9]*")...) {
		if r.ask("HGET", key, "parentKey") == nil {
			t.Errorf("%s is left", key)
		}
	}
	assert.EqualSlices(t, r.keys("*:de:*"), nil)
	assert.EqualSlices(t, r.keys("belfry-import:*"), nil)
}

func TestSidekiqServer(t *testing.T) {
	importstest.Need(t, "sidekiq")
	r := startRedis(t)
	importstest.Start(t, 1).CheckLibrary(exec.Command("ruby", "realsidekiq/write.rb", r.url), "sidekiq", r.url)
	assert.EqualSlices(t, r.keys("schedule"), nil)
	assert.EqualSlices(t, r.keys("belfry-import:*"), nil)
}
