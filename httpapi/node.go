package httpapi

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/belfryhq/belfry/internal/contract"
)

//go:embed openapi.yaml
var openAPIDocument []byte

func (s *Server) openAPI(c echo.Context) error {
	return c.Blob(http.StatusOK, "application/yaml", openAPIDocument)
}

func (s *Server) cluster(c echo.Context) error {
	v, err := s.clusterView(c)
	if err != nil {
		return err
	}
	return writeValue(c, http.StatusOK, v)
}

// newJoinToken makes a one-time token of a new node.
func (s *Server) newJoinToken(c echo.Context) error {
	life, err := tokenLife(c.QueryParam("valid_for"))
	if err == nil {
		err = s.emptyBody(c)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.cfg.RequestTimeout)
	defer cancel()
	token, err := s.cfg.Backend.NewJoinToken(ctx, life)
	if err != nil {
		return err
	}
	callOf(c).names("id", token.ID)
	return writeValue(c, http.StatusCreated, token)
}

// The life of a one-time token.
const (
	leastTokenLife, mostTokenLife = time.Minute, 30 * 24 * time.Hour
	usualTokenLife                = time.Hour
)

// tokenLife reads the life of a one-time token.
func tokenLife(text string) (time.Duration, error) {
	if text == "" {
		return usualTokenLife, nil
	}
	life, err := contract.ParseDuration(text)
	if err != nil || life < leastTokenLife || life > mostTokenLife {
		return 0, fieldProblem("valid_for", fmt.Sprintf("is %q", contract.Clip(text)), "1m to 30d")
	}
	return life, nil
}

func (s *Server) listJoinTokens(c echo.Context) error {
	list := struct {
		Tokens []JoinToken `json:"tokens"`
	}{s.cfg.Backend.JoinTokens()}
	if list.Tokens == nil {
		list.Tokens = []JoinToken{}
	}
	return writeValue(c, http.StatusOK, list)
}

func (s *Server) removeJoinToken(c echo.Context) error {
	if err := s.emptyBody(c); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.cfg.RequestTimeout)
	defer cancel()
	existed, err := s.cfg.Backend.RemoveJoinToken(ctx, c.Param("id"))
	switch {
	case err != nil:
		return err
	case !existed:
		return &problem{kind: tokenNotFound, detail: "no one-time token has this id"}
	}
	return c.NoContent(http.StatusNoContent)
}

// maxDoctors is the number of calls of /v1/doctor in progress. They have places of their own, because a node should
// answer them when it is too busy for other calls.
const maxDoctors = 16

func (s *Server) doctor(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.cfg.RequestTimeout)
	defer cancel()
	return writeFindings(c.Response(), s.cfg.Backend.Doctor(ctx))
}

// writeFindings answers GET /v1/doctor. Lists are [] in JSON, and never null.
func writeFindings(w http.ResponseWriter, findings []Finding) error {
	answer := struct {
		Findings []Finding `json:"findings"`
	}{append([]Finding{}, findings...)}
	for i := range answer.Findings {
		answer.Findings[i].Do = append([]string{}, answer.Findings[i].Do...)
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, append(body, '\n'))
	return nil
}

// healthz answers that the process runs. It reports nothing about the cluster.
func (s *Server) healthz(c echo.Context) error {
	writeJSON(c.Response(), http.StatusOK, []byte("{\"status\":\"ok\"}\n"))
	return nil
}

// readyz also answers the cluster's and the node's id, so that a client with an address from /v1/cluster can check that
// it leads to that node.
func (s *Server) readyz(c echo.Context) error {
	if err := s.cfg.Backend.Ready(); err != nil {
		return &problem{kind: notReady, detail: err.Error(), retryAfter: 1}
	}
	cluster, node := s.cfg.Backend.Self()
	b := contract.AppendString([]byte(`{"status":"ready","cluster_id":`), cluster)
	b = contract.AppendString(append(b, `,"node":`...), node)
	writeJSON(c.Response(), http.StatusOK, append(b, "}\n"...))
	return nil
}

func (s *Server) metricsPage() echo.HandlerFunc {
	return echo.WrapHandler(promhttp.HandlerFor(s.cfg.Gatherer, promhttp.HandlerOpts{}))
}
