package client

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// answerLines answers each line as it arrives, and breaks off at a line that asks for it.
func answerLines(w http.ResponseWriter, r *http.Request) {
	flow := http.NewResponseController(w)
	if err := flow.EnableFullDuplex(); err != nil {
		panic(err)
	}
	in := bufio.NewScanner(r.Body)
	for n := 1; in.Scan(); n++ {
		if in.Text() == "break" {
			panic(http.ErrAbortHandler)
		}
		_, err := fmt.Fprintf(w, "%d: %s\n", n, in.Text())
		if err := errors.Join(err, flow.Flush()); err != nil {
			panic(err)
		}
	}
}

func startLines(t *testing.T, addrs ...string) *Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(answerLines))
	t.Cleanup(server.Close)
	c, err := New(Config{Addrs: append(addrs, server.URL), FixedAddrs: true})
	assert.NoError(t, err)
	return c
}

// TestBatchLinesStreams checks that each line is answered before the next one is written, even if the first address
// refuses connections.
func TestBatchLinesStreams(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	c := startLines(t, gone.URL)
	in, lines := io.Pipe()
	next := make(chan string, 1)
	next <- "a"
	go func() {
		for text := range next {
			_, _ = io.WriteString(lines, text+"\n")
		}
		_ = lines.Close()
	}()
	var got []string
	err := c.BatchLines(t.Context(), in, func(answer []byte) error {
		got = append(got, string(answer))
		if len(got) == 3 {
			close(next)
		} else {
			next <- strings.Repeat("b", len(got)*resultsBuffer)
		}
		return nil
	})
	long := strings.Repeat("b", resultsBuffer)
	want := []string{"1: a\n", "2: " + long + "\n", "3: " + long + long + "\n"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%.99q, %v", got, err)
	}
}

func TestBatchLinesBrokenOff(t *testing.T) {
	answers := 0
	err := startLines(t).BatchLines(t.Context(), strings.NewReader("a\nb\nbreak\nc\n"), func([]byte) error {
		answers++
		return nil
	})
	if !errors.Is(err, ErrUnknown) || answers > 2 {
		t.Errorf("%d answers, %v", answers, err)
	}
}

func TestBatchLinesRefused(t *testing.T) {
	nothing := func([]byte) error { return nil }
	c, _ := start(t, Config{}, answer(http.StatusTooManyRequests, `{"type":"urn:belfry:problem:overloaded","title":"Too many calls"}`))
	assert.ErrorIs(t, c.BatchLines(t.Context(), strings.NewReader("a\n"), nothing), ErrOverloaded)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	c, err := New(Config{Addrs: []string{gone.URL}})
	assert.NoError(t, err)
	if err := c.BatchLines(t.Context(), strings.NewReader("a\n"), nothing); err == nil || errors.Is(err, ErrUnknown) {
		t.Errorf("no node took the batch: %v", err)
	}
	enough := errors.New("enough")
	err = startLines(t).BatchLines(t.Context(), strings.NewReader("a\nb\n"), func([]byte) error { return enough })
	assert.ErrorIs(t, err, enough)
}

// TestQuietRestsForInput checks that the wait for an answer counts as silence, and the wait for input does not.
func TestQuietRestsForInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out atomic.Bool
		q := newQuiet(time.Minute, func() { out.Store(true) })
		after := func(d time.Duration) bool {
			time.Sleep(d)
			synctest.Wait()
			return out.Load()
		}
		in, lines := io.Pipe()
		go func() {
			time.Sleep(time.Hour)
			_, _ = lines.Write([]byte("a"))
		}()
		if _, err := (&quietInput{in, q}).Read(make([]byte, 1)); err != nil || out.Load() {
			t.Fatalf("after an hour without input: %v %v", out.Load(), err)
		}
		if after(59 * time.Second) {
			t.Fatal("ran out too early")
		}
		if q.restart(); after(59 * time.Second) {
			t.Fatal("ran out though something was heard")
		}
		if !after(time.Minute) {
			t.Error("never ran out")
		}
		q.stop()
	})
}
