package local

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/belfryhq/belfry/deploy/child"
)

const readyPoll = 20 * time.Millisecond

// awaitReady returns when the node answers that it is ready. The error has the end of the log if the node dies before.
func awaitReady(ctx context.Context, node Node, p *process) error {
	probe := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	said := "nothing"
	for {
		select {
		case <-p.Done():
			log := logPath(node.Dir)
			return fmt.Errorf("%s died before it was ready; the end of %s:\n%s", node.Name, log, child.LogTail(log))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready (%w); it last said: %s; its log: %s",
				node.Name, ctx.Err(), said, logPath(node.Dir))
		case <-poll.C:
		}
		ready, answer := askReady(ctx, probe, node.HTTPAddr)
		if ready {
			return nil
		}
		said = answer
	}
}

func askReady(ctx context.Context, probe *http.Client, addr string) (ready bool, answer string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		return false, err.Error()
	}
	resp, err := probe.Do(req)
	if err != nil {
		return false, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil {
		return false, err.Error()
	}
	return resp.StatusCode == http.StatusOK, string(body)
}
