package httpapi

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/belfryhq/belfry/httpapi/origin"
)

// Waiting returns a handler for a node that waits before it opens its data. It answers every call, /healthz included,
// with 503 and the reason. Only /metrics works, with the metrics that exist so far. Calls that the policy refuses are
// refused here too; a nil policy is the zero Policy.
func Waiting(reason func() string, policy *origin.Policy, metrics prometheus.Gatherer, log *slog.Logger) http.Handler {
	if policy == nil {
		policy = new(origin.Policy)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, &problem{kind: notReady, detail: reason(), committed: "no", retryAfter: 1}, log)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := foreignProblem(policy, r); p != nil {
			refuse(w, r, p, log)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
