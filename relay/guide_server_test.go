package relay

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/client/webhook"
	"github.com/belfryhq/belfry/deploy/child"
	"github.com/belfryhq/belfry/imports/importstest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/sqldb"
)

// guide returns the blocks of docs/guides/transactions.md of a kind.
func guide(t *testing.T, kind string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile("../docs/guides/transactions.md")
	assert.NoError(t, err)
	for _, block := range regexp.MustCompile("(?ms)^```"+kind+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, block[1])
	}
	return blocks
}

// The statements and the receiver of docs/guides/transactions.md do what the page says: an order is closed once, however
// often its delivery comes, and not by a sender that has been superseded, even if the receiver was killed in between.
func TestServerGuide(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		if s.Dialect != sqldb.Postgres {
			t.Skip("the page's statements are those of PostgreSQL")
		}
		const secret, at = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwTZGvaSAeUdE=", "http://127.0.0.1:9010/orders"
		b := startBelfry(t, 1)
		_, err := b.PutQueue(t.Context(), client.Queue{Name: "orders", Secrets: []string{secret}})
		assert.NoError(t, err)
		statements, programs := guide(t, "sql"), guide(t, "go background=receiver")
		assert.MustEqual(t, len(statements), 4, "blocks of SQL")
		assert.MustEqual(t, len(programs), 1, "receivers")
		for _, block := range statements {
			s.exec(block)
		}
		dir := t.TempDir()
		assert.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(programs[0]), 0o600))
		build := exec.CommandContext(t.Context(), "go", "build", "-o", dir, filepath.Join(dir, "main.go"))
		out, err := build.CombinedOutput()
		assert.NoError(t, err, "%s", out)
		start := func() *child.Child {
			t.Helper()
			p, err := child.Start(child.Config{
				Command: []string{filepath.Join(dir, "main")}, Log: filepath.Join(dir, "log"),
				Env: append(os.Environ(), "SHOP_DATABASE="+s.url, "SHOP_SECRET="+secret),
			})
			assert.NoError(t, err)
			t.Cleanup(func() { assert.Equal(t, p.SignalGroup(syscall.SIGKILL), nil); <-p.Done() })
			importstest.Await(t, func() error {
				if p.Ended() {
					t.Fatalf("the receiver ended: %s", child.LogTail(filepath.Join(dir, "log")))
				}
				if status(t, at) != http.StatusBadRequest {
					return errors.New("no receiver")
				}
				return nil
			})
			return p
		}
		receiver := start()
		b.relay(s)
		s.done(0)
		var id string
		importstest.Await(t, func() error {
			task, err := b.Get(t.Context(), "order-1043-close")
			if err == nil && task.State != client.StateDelivered {
				err = fmt.Errorf("the task is %s: %s", task.State, task.LastError)
			}
			if err == nil {
				id = task.WebhookID
			}
			return err
		})
		closed := func(want int) {
			t.Helper()
			assert.Equal(t, s.number(`SELECT changes FROM orders WHERE id = 1043 AND state = 'closed'`), want)
		}
		closed(1)
		fence := s.number(`SELECT fence FROM fences WHERE task = 'order-1043-close'`)
		deliver := func(id string, fence int) int { return deliver(t, at, secret, id, fence) }
		assert.Equal(t, deliver(id, fence), 200, "a repeat")
		assert.Equal(t, deliver(id, fence+1), 200, "a repeat under a higher fence")
		closed(1)
		assert.NoError(t, receiver.Signal(syscall.SIGKILL))
		<-receiver.Done()
		start()
		assert.Equal(t, deliver(id, fence+1), 200, "a repeat for a receiver that was killed")
		assert.Equal(t, deliver("msg_late", fence), 409, "a sender that has been superseded")
		closed(1)
		assert.Equal(t, deliver("msg_next", fence+2), 200, "the next occurrence")
		closed(2)

		// Work that fails leaves no trace, so that the next attempt does it.
		s.exec(`ALTER TABLE orders RENAME TO hidden`)
		assert.Equal(t, deliver("msg_third", fence+3), 500)
		s.exec(`ALTER TABLE hidden RENAME TO orders`)
		closed(2)
		assert.Equal(t, deliver("msg_third", fence+3), 200)
		closed(3)

		task, err := b.Get(t.Context(), "order-1042-close")
		assert.NoError(t, err)
		assert.Equal(t, task.State, client.StateCancelled)
		assert.Equal(t, s.number(`SELECT COUNT(*) FROM orders WHERE id = 1042 AND state = 'paid'`), 1)
	})
}

// deliver sends a delivery as Belfry does, and returns the status of the answer.
func deliver(t *testing.T, url, secret, id string, fence int) int {
	t.Helper()
	const body = `{"order": 1043}`
	now := time.Now()
	signature, err := webhook.Sign(secret, id, now, []byte(body))
	assert.NoError(t, err)
	ask, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	assert.NoError(t, err)
	for name, value := range map[string]string{
		"Webhook-Id": id, "Webhook-Timestamp": fmt.Sprint(now.Unix()), "Webhook-Signature": signature,
		"Content-Type": "application/json", "Ce-Specversion": "1.0", "Ce-Id": id, "Ce-Type": "belfry.task.fired",
		"Ce-Source": "/v1/queues/orders", "Ce-Subject": "order-1043-close", "Ce-Time": now.UTC().Format(time.RFC3339),
		"Belfry-Attempt": "1", "Belfry-Fence": fmt.Sprint(fence), "Belfry-Due": now.UTC().Format("2006-01-02T15:04:05.000Z"),
	} {
		ask.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(ask)
	assert.NoError(t, err)
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	assert.NoError(t, err)
	return answer.StatusCode
}
