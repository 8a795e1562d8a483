package httpapi

import (
	"context"
	_ "embed"
	"encoding/json"
	"net/http"

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
