package workload

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/deploy/receiver"
	"github.com/belfryhq/belfry/internal/assert"
)

func deliver(t *testing.T, url, id string) (*http.Response, int, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"op":1}`))
	assert.NoError(t, err)
	req.Header.Set("Ce-Subject", id)
	req.Header.Set("Belfry-Attempt", "1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	assert.NoError(t, err)
	return resp, len(body), nil
}

func listen(t *testing.T, rec *history.Recorder) *Receiver {
	t.Helper()
	r, err := Listen(t.Context(), rec, "127.0.0.1")
	assert.NoError(t, err)
	t.Cleanup(func() {
		assert.Equal(t, r.Close(), nil)
	})
	return r
}

func TestMoods(t *testing.T) {
	rec := history.NewRecorder(nil)
	r := listen(t, rec)
	r.Behave(Mood{Answer: http.StatusTooManyRequests, RetryAfter: 2 * time.Second})
	resp, _, err := deliver(t, r.URL, "t")
	if err != nil || resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "2" {
		t.Errorf("%+v, %v", resp, err)
	}
	r.Behave(Mood{Reply: 1 << 20})
	if resp, n, err := deliver(t, r.URL, "t"); err != nil || resp.StatusCode != http.StatusOK || n < 1<<20 {
		t.Errorf("%d bytes, %v", n, err)
	}
	r.Behave(Mood{Slow: 20 * time.Millisecond, Answer: receiver.Reset})
	if _, _, err := deliver(t, r.URL, "t"); err == nil {
		t.Error("the connection was not reset")
	}
	r.Behave(Mood{})
	if resp, n, err := deliver(t, r.URL, "t"); err != nil || resp.StatusCode != http.StatusOK || n != 0 {
		t.Errorf("%d bytes, %v", n, err)
	}
	r.Behave(Mood{Path: "/other", Answer: http.StatusUnprocessableEntity})
	if resp, _, err := deliver(t, r.URL+"/other", "t"); err != nil || resp.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("%+v, %v", resp, err)
	}
	if resp, _, err := deliver(t, r.URL+"/healthy", "t"); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%+v, %v", resp, err)
	}
	var answers []int
	for _, a := range rec.History().Arrivals {
		answers = append(answers, a.Answer)
	}
	assert.EqualSlices(t, answers, []int{429, 200, 0, 200, 422, 200}, "recorded")
}

// TestStrangers checks that deliveries of a former run's tasks are not recorded as the present run's.
func TestStrangers(t *testing.T) {
	before, now := history.NewRecorder(nil), history.NewRecorder(nil)
	r := listen(t, before)
	r.Record(now, "r2-")
	for _, id := range []string{"r1-7", "r2-7"} {
		_, _, err := deliver(t, r.URL, id)
		assert.NoError(t, err)
	}
	if a := now.History().Arrivals; len(a) != 1 || a[0].ID != "r2-7" || len(before.History().Arrivals) != 0 {
		t.Errorf("%+v", a)
	}
	assert.EqualSlices(t, r.Strangers(), []string{"r1-7"})
}
